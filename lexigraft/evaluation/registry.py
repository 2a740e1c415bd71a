"""Finds the module of a task by its kind: a new kind of task is one file in tasks/."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError

if TYPE_CHECKING:
    from lexigraft.evaluation.measurement import Measurement

# Kinds that fine-tune a masked language model on examples; all others ask a causal one.
FINE_TUNED = ("classification", "extractive_qa", "tagging")
# Kinds whose outputs are texts that a model wrote: these any engine can write.
GENERATED = ("question_answering", "summarization", "translation")

_FOLDER = Path(__file__).resolve().parent / "tasks"


def kinds() -> list[str]:
    """Every kind of task, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.py") if not file.stem.startswith("_"))


def task_file(kind: str) -> str:
    """Path of a kind's module relative to the repository; imports nothing.

    Raises
    ------
    UserError
        There is no such kind.
    """
    if kind not in kinds():
        raise UserError(f"config/tasks.yaml: kind '{kind}' is none of {', '.join(kinds())}")
    return f"lexigraft/evaluation/tasks/{kind}.py"


def task(kind: str) -> "Callable[[Any, Any, dict[str, Any]], Measurement]":
    """The function `evaluate(model, tokenizer, job)` of a kind of task.

    Raises
    ------
    UserError
        There is no such kind.
    """
    task_file(kind)
    return import_module(f"lexigraft.evaluation.tasks.{kind}").evaluate
