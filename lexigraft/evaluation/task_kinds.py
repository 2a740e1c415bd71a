"""Kinds of tasks: what each declares about itself, and what one run of it measures.

A kind is one module of `tasks/`, named as the `kind` of its entries in config/tasks.yaml, with a
`TaskKind` called `TASK`. Declarations import no torch: the Snakefile reads them in every job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from lexigraft.errors import UserError

Settings = TypeVar("Settings")

ENGLISH = "english"  # what tests in English are called, whatever the language's name in a study

_FOLDER = Path(__file__).resolve().parent / "tasks"


@dataclass(frozen=True)
class Measurement:
    """What one run of a task measured.

    Each name of `metrics` is a column of the report. `details` explain the numbers: counts,
    signatures, conditions, in builtin types only.
    """

    metrics: dict[str, float | int]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskKind:
    """A kind of task."""

    settings: type  # the dataclass of its settings, with their defaults
    # `evaluate(model, tokenizer, job)` measures one run, see `evaluate.run_jobs` for the job.
    evaluate: Callable[[Any, Any, dict[str, Any]], Measurement]
    # What it tests a cell on: `heldout` (held-out text of the corpus), `corpus` (the corpus's
    # `tasks/<kind>.jsonl`, or test sets of its own), `test_sets` (of its own only), `examples`
    # (labelled ones, of which others are learned from), `benchmark` (a task of
    # lm-evaluation-harness) or `none`.
    tests: str
    # Set of texts -> keys of a test row whose texts are in it: what is searched for in training
    # text. Of questions two sets: contexts often come from where training text does.
    test_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generates: bool = False  # texts, which any engine can do
    fine_tunes: bool = False  # a masked language model; all other kinds take causal ones
    scored_by_learned_metrics: bool = False  # predictions have an output and a reference to compare
    # Whether it tests each language of a group, and English; generating kinds otherwise test one.
    every_language: bool = False
    runs_alone: bool = False  # other jobs on the machine would falsify what it measures
    # The file of config/prompts that its prompts are made of, unless `prompts_from` of its settings
    # names another; None if it has none.
    prompts: str | None = None
    # What its setting `prompt` may be beside the entries of `named` in that file.
    own_prompts: tuple[str, ...] = ()
    # The key of a language in config/languages.yaml that its tests in the corpus come from.
    language_texts: str | None = None
    # The columns of a table of test rows, unless the task's entry names others.
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

    Raises `UserError` if there is no such kind.
    """
    if kind not in kinds():
        raise UserError(f"config/tasks.yaml: kind '{kind}' is none of {', '.join(kinds())}")
    return f"lexigraft/evaluation/tasks/{kind}.py"


@cache
def task_kind(kind: str) -> TaskKind:
    """What a kind of task declares about itself; raises `UserError` if there is no such kind."""
    task_file(kind)
    return import_module(f"lexigraft.evaluation.tasks.{kind}").TASK


def prompts_of(entry: Mapping[str, Any]) -> str | None:
    """The file of config/prompts that a task's prompts are made of; None if it has none."""
    return entry.get("prompts_from") or task_kind(entry["kind"]).prompts


def read_settings(kind: type[Settings], job: dict[str, Any]) -> Settings:
    """An instance of the dataclass `kind` from a job's settings; what is absent gets its default.

    The `engine` is no setting of a kind: see `evaluate.open_cell`. Raises `UserError` if a setting
    has a name that the kind does not know, or none of the values that it may have (`Literal`).
    """
    where = f"config/tasks.yaml: task '{job['task']}'"
    given = {
        name: value for name, value in job["settings"].items() if name not in ("kind", "engine")
    }
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UserError(
            f"{where}: no setting '{unknown[0]}' "
            f"(kind {job['settings']['kind']} has {', '.join(known)})"
        )
    settings = kind(**given)
    for name, kind_of_value in get_type_hints(kind).items():
        values = get_args(kind_of_value) if get_origin(kind_of_value) is Literal else ()
        if values and getattr(settings, name) not in values:
            wrong = f"{name} '{getattr(settings, name)}'"
            raise UserError(f"{where}: {wrong} is none of {', '.join(values)}")
    return settings


def of_adapted_languages(tests: dict[str, Any]) -> dict[str, Any]:
    """The tests that a cell is adapted for: all but the English one, unless it is alone."""
    return {name: test for name, test in tests.items() if name != ENGLISH} or tests


def metrics_by_language(scores: dict[str, dict[str, float]]) -> dict[str, float]:
    """Metrics of a record, from the metrics of each test.

    Without a prefix or suffix: the mean over the languages that a cell is adapted for, `avg` in
    CW2V's Table 2. Of a group each language has figures of its own too (`f1_<language>`), and
    English has (`english_f1`).
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
