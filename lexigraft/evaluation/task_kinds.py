"""Kinds of tasks: what each declares about itself, and what one run of it measures.

A kind is one module of `tasks/`, named as the `kind` of its entries in config/tasks.yaml, with a
`TaskKind` called `TASK`. Declarations import no torch: the Snakefile reads them in every job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from lexigraft.errors import UserError

Settings = TypeVar("Settings")

_FOLDER = Path(__file__).resolve().parent / "tasks"


@dataclass(frozen=True)
class Measurement:
    """What one run of a task measured.

    Attributes
    ----------
    metrics
        Flat name -> number. Each name is a column of the report.
    details
        What explains the numbers: counts, signatures, conditions. Builtin types only.
    """

    metrics: dict[str, float | int]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskKind:
    """A kind of task.

    Attributes
    ----------
    settings
        The dataclass of its settings, with their defaults.
    evaluate
        `evaluate(model, tokenizer, job)` measures one run, see `evaluate.run_jobs` for the job.
    tests
        What it tests a cell on: `heldout` (held-out text of the corpus), `corpus` (the corpus's
        `tasks/<kind>.jsonl`, or test sets of its own), `test_sets` (of its own only), `examples`
        (labelled ones, of which others are learned from), `benchmark` (a task of
        lm-evaluation-harness) or `none`.
    test_texts
        Set of texts -> keys of a test row whose texts are in it: what is searched for in training
        text. Of questions two sets: contexts often come from where training text does.
    generates
        Whether it generates texts, which any engine can do.
    fine_tunes
        Whether it fine-tunes a masked language model; all other kinds take causal ones.
    scored_by_learned_metrics
        Whether its predictions hold an output and a reference for a learned metric to compare.
    every_language
        Whether it tests each language of a group, and English; generating kinds otherwise test one.
    float32_on
        Types of devices on which it computes in float32, whatever is fastest there.
    runs_alone
        Whether other jobs on the machine would falsify what it measures.
    prompts
        The file of config/prompts that its prompts are made of, unless `prompts_from` of its
        settings names another; None if it has none.
    language_texts
        The key of a language in config/languages.yaml that its tests in the corpus come from.
    columns
        The columns of a table of test rows, unless the task's entry names others.
    """

    settings: type
    evaluate: Callable[[Any, Any, dict[str, Any]], Measurement]
    tests: str
    test_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generates: bool = False
    fine_tunes: bool = False
    scored_by_learned_metrics: bool = False
    every_language: bool = False
    float32_on: tuple[str, ...] = ()
    runs_alone: bool = False
    prompts: str | None = None
    language_texts: str | None = None
    columns: Mapping[str, str] | None = None


def kinds() -> list[str]:
    """Every kind of task, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.py") if not file.stem.startswith("_"))


def kinds_with(property_: str) -> list[str]:
    """The kinds whose declaration says yes to a property, such as `generates`, for messages."""
    return [kind for kind in kinds() if getattr(task_kind(kind), property_)]


@cache
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


@cache
def task_kind(kind: str) -> TaskKind:
    """What a kind of task declares about itself.

    Raises
    ------
    UserError
        There is no such kind.
    """
    task_file(kind)
    return import_module(f"lexigraft.evaluation.tasks.{kind}").TASK


def prompts_of(entry: Mapping[str, Any]) -> str | None:
    """The file of config/prompts that a task's prompts are made of; None if it has none."""
    return entry.get("prompts_from") or task_kind(entry["kind"]).prompts


def read_settings(kind: type[Settings], job: dict[str, Any]) -> Settings:
    """An instance of the dataclass `kind` from a job's settings; what is absent gets its default.

    The `engine` is no setting of a kind: see `evaluate.open_cell`.

    Raises
    ------
    UserError
        A setting has a name that this kind of task does not know.
    """
    given = {
        name: value for name, value in job["settings"].items() if name not in ("kind", "engine")
    }
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': no setting '{unknown[0]}' "
            f"(kind {job['settings']['kind']} has {', '.join(known)})"
        )
    return kind(**given)


def record(job: dict[str, Any], measured: Measurement) -> dict[str, Any]:
    """The evaluation record of one run, ready for JSON."""
    from lexigraft.provenance import versions

    return {
        "task": job["task"],
        "kind": job["settings"]["kind"],
        "cell": job["cell"],
        "run": job["run"],
        # Of a checkpoint, which one; of a trained cell nothing.
        **({"checkpoint": job["checkpoint"]} if "checkpoint" in job else {}),
        "metrics": measured.metrics,
        "details": measured.details,
        "settings": job["settings"],
        "seed": job["seed"],
        "versions": versions(),
    }
