"""Kinds of tasks: their declarations, and the measurements of a run.

A kind is one module in `tasks/`, with the name of the `kind` of its entries in config/tasks.yaml
and a `TaskKind` called `TASK`. Declarations do not import torch: the Snakefile reads them in every
job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from lexigraft.errors import UserError
from lexigraft.settings import Settings, validate

Own = TypeVar("Own", bound=Settings)

ENGLISH = "english"  # name of tests in English, whatever the language is called in a study

_FOLDER = Path(__file__).resolve().parent / "tasks"


@dataclass(frozen=True)
class Measurement:
    """The measurements of one run of a task.

    Each name in `metrics` is a column of the report. `details` explain the numbers: counts,
    signatures, conditions, in builtin types only.
    """

    metrics: dict[str, float | int]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskKind:
    """A kind of task."""

    settings: type[Settings]  # its own settings, with their defaults
    # `evaluate(model, tokenizer, job)` measures one run, see `evaluate.run_jobs` for the job.
    evaluate: Callable[[Any, Any, dict[str, Any]], Measurement]
    # What a cell is tested on: `heldout` (held-out text of the corpus), `corpus` (the corpus's
    # `tasks/<kind>.jsonl`, or the task's own test sets), `test_sets` (only its own), `examples`
    # (labelled ones, with separate training examples), `benchmark` (a task of
    # lm-evaluation-harness) or `none`.
    tests: str
    version: int = 1  # raised when code changes its results
    # Set of texts -> keys of a test row: the texts to search for in training text. Questions have
    # two sets: contexts often have the same origin as training text.
    test_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generates: bool = False  # whether it generates text, with any engine
    fine_tunes: bool = False  # a masked language model; all other kinds use causal ones
    scored_by_learned_metrics: bool = False  # predictions have an output and a reference to compare
    # Whether it tests each language of a group, and English; generating kinds otherwise test one.
    every_language: bool = False
    # Whether training measures the same number: both then compute it in the same precision.
    measured_in_training: bool = False
    runs_alone: bool = False  # other jobs on the machine would distort its measurements
    # The file in config/prompts that its prompts are built from, unless its setting `prompts_from`
    # names another; None if it has none.
    prompts: str | None = None
    # Values of its setting `prompt` in addition to the entries of `named` in that file.
    own_prompts: tuple[str, ...] = ()
    # The key of a language in config/languages.yaml that its tests in the corpus come from.
    language_texts: str | None = None
    # The default columns of a table of test rows.
    columns: Mapping[str, str] | None = None


def kinds() -> list[str]:
    """Every kind of task, sorted."""
    return sorted(file.stem for file in _FOLDER.glob("*.py") if not file.stem.startswith("_"))


def kinds_with(property_: str) -> list[str]:
    """The kinds with a property, such as `generates`, for messages."""
    return [kind for kind in kinds() if getattr(task_kind(kind), property_)]


@cache
def task_file(kind: str) -> str:
    """Path of a kind's module relative to the repository; imports nothing.

    Raises `UserError` if there is no such kind.
    """
    if kind not in kinds():
        raise UserError(f"config/tasks.yaml: kind '{kind}' is not one of {', '.join(kinds())}")
    return f"lexigraft/evaluation/tasks/{kind}.py"


@cache
def task_kind(kind: str) -> TaskKind:
    """The declaration of a kind of task; raises `UserError` if there is no such kind."""
    task_file(kind)
    return import_module(f"lexigraft.evaluation.tasks.{kind}").TASK


def prompts_of(entry: Mapping[str, Any]) -> str | None:
    """The file in config/prompts that a task's prompts are built from; None if it has none."""
    return entry.get("prompts_from") or task_kind(entry["kind"]).prompts


def read_settings(kind: type[Own], job: dict[str, Any]) -> Own:
    """Read the settings of a kind from a job, with defaults for those that are absent.

    The `engine` is not a setting of a kind: see `evaluate.open_cell`. Raises `UserError` if the
    name or the value of a setting is invalid.
    """
    given = {key: value for key, value in job["settings"].items() if key not in ("kind", "engine")}
    return validate(kind, given, f"tasks.{job['task']}")


def of_adapted_languages(tests: dict[str, Any]) -> dict[str, Any]:
    """The tests in languages that a cell is adapted to: all but English, if there are any."""
    return {name: test for name, test in tests.items() if name != ENGLISH} or tests


def metrics_by_language(scores: dict[str, dict[str, float]]) -> dict[str, float]:
    """Metrics of a record, from the metrics of each test.

    Without a prefix or suffix: the mean over the languages that a cell is adapted to, `avg` in
    CW2V's Table 2. Each language of a group also has its own metrics (`f1_<language>`), and so does
    English (`english_f1`).
    """
    own = of_adapted_languages(scores)
    found = {
        metric: sum(score[metric] for score in own.values()) / len(own)
        for metric in next(iter(own.values()))
    }
    if len(own) > 1:
        for language, score in own.items():
            found |= {f"{metric}_{language}": value for metric, value in score.items()}
    if ENGLISH in scores and ENGLISH not in own:
        found |= {f"{ENGLISH}_{metric}": value for metric, value in scores[ENGLISH].items()}
    return found


def means(rows: list[dict[str, Any]], *metrics: str) -> dict[str, float]:
    """The mean of each metric over the rows of a test."""
    return {metric: sum(row[metric] for row in rows) / len(rows) for metric in metrics}


def record(job: dict[str, Any], measured: Measurement) -> dict[str, Any]:
    """The evaluation record of one run, ready for JSON."""
    from lexigraft.artifacts.cards import versions

    return {
        "task": job["task"],
        "kind": job["settings"]["kind"],
        "cell": job["cell"],
        "run": job["run"],
        # Only for a checkpoint, not for a trained cell.
        **({"checkpoint": job["checkpoint"]} if "checkpoint" in job else {}),
        "metrics": measured.metrics,
        "details": measured.details,
        "settings": job["settings"],
        "seed": job["seed"],
        "versions": versions(),
    }
