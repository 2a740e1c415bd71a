"""Kinds of tasks: their declarations, and the measurements of a run.

A kind is one module in `tasks/`, with the name of the `kind` of its entries in config/tasks.yaml
and a `TaskKind` called `TASK`; `register` adds one from elsewhere. Declarations do not import
torch: the Snakefile reads them in every job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import getfile
from typing import Any, Literal, TypeVar

from lexigraft.evaluation.costs import TaskSizes, Work
from lexigraft.evaluation.metric_kinds import MetricKind, text_metrics
from lexigraft.registry import Registry
from lexigraft.settings import Settings, validate

KindSettings = TypeVar("KindSettings", bound=Settings)

ENGLISH = "english"  # name of tests in English, whatever the language is called in a study
WITH_ENGLISH = "_with_english"  # end of the names of means that include it


@dataclass(frozen=True)
class Measurement:
    """The measurements of one run of a task.

    Each name in `metrics` is a column of the report. `details` explain the numbers: counts,
    signatures, conditions, in builtin types only.
    """

    metrics: dict[str, float | int]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CorpusTests:
    """Tests that a language's corpus contains."""

    key: str  # the key of a language in config/languages.yaml that they come from
    count: str  # the key with their number
    file: str  # their file in the corpus, `tasks/<file>.jsonl`
    rows: str  # what messages call them


TRANSLATIONS = CorpusTests("parallel", "translation_pairs", "translation", "parallel sentences")
ARTICLES = CorpusTests("summarization", "summarization_pairs", "summarization", "articles")


@dataclass(frozen=True)
class TaskKind:
    """A kind of task."""

    settings: type[Settings]  # its own settings, with their defaults
    # `evaluate(model, tokenizer, job)` measures one run, see `evaluate.run_jobs` for the job.
    evaluate: Callable[[Any, Any, dict[str, Any]], Measurement]
    # What a cell is tested on: `heldout` (held-out text of the corpus), `corpus` (`corpus_tests`,
    # or the task's own test sets), `test_sets` (only its own), `examples` (labelled ones, with
    # separate training examples), `benchmark` (a task of lm-evaluation-harness) or `none`.
    tests: Literal["heldout", "corpus", "test_sets", "examples", "benchmark", "none"]
    cost: Callable[[Any, TaskSizes], Work]  # what its runs compute: `cost(settings, sizes)`
    # The metric that stands for the task in reports; None if it does not measure quality.
    primary_metric: str | None = None
    # A usual name, short enough to repeat in tables; by default, reports use the name of the task.
    title: str | None = None
    version: int = 1  # raise it if the same model gets other numbers
    # The metrics that it computes itself; those of its setting `metrics` declare themselves.
    metrics: tuple[MetricKind, ...] = ()
    # Those that it uses by default; learned metrics compare its outputs with their references.
    corpus_tests: CorpusTests | None = None
    # Set of texts -> keys of a test row: the texts to search for in training text. Questions have
    # two sets: contexts often have the same origin as training text.
    test_texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The form of a row of its own test sets or examples, see `corpus.examples`: `pairs`, `articles`
    # or `questions` of tasks that generate; `labels`, `tags` or `spans` of tasks that fine-tune.
    rows: Literal["pairs", "articles", "questions", "labels", "tags", "spans"] | None = None
    columns: Mapping[str, str] | None = None  # the default columns of a table of test rows
    generates: bool = False  # whether it generates text, with any engine; reports show samples
    fine_tunes: bool = False  # a masked language model; all other kinds use causal ones
    # Whether it tests each language of a group, and English; generating kinds otherwise test one.
    every_language: bool = False
    # Whether training measures the same number: both then compute it in the same precision.
    measured_in_training: bool = False
    runs_alone: bool = False  # other jobs on the machine would distort its measurements
    # The default file in config/prompts that its prompts are built from; None if it has none.
    prompts: str | None = None
    # Values of its setting `prompt` in addition to the entries of `named` in that file.
    built_in_prompts: tuple[str, ...] = ()

    def metric(self, name: str) -> MetricKind | None:
        """The declaration of a metric in its records, without a language; None if unknown."""
        declared = text_metrics() | {metric.name: metric for metric in self.metrics}
        companions = [metric.companion for metric in declared.values() if metric.companion]
        return ({metric.name: metric for metric in companions} | declared).get(name)


TASKS: Registry[TaskKind] = Registry("lexigraft.evaluation.tasks", "TASK", "task kind")
kinds = TASKS.names
task_kind = TASKS.get
task_file = TASKS.file


def register(name: str, kind: TaskKind) -> None:
    """Add a kind of task that is defined outside this package, in the file of its `evaluate`."""
    TASKS.register(name, kind, getfile(kind.evaluate))


def kinds_with(attribute: str) -> list[str]:
    """The kinds with an attribute, such as `generates`, for messages."""
    return [name for name in kinds() if getattr(task_kind(name), attribute)]


def versions_of(kind: str, settings: Settings) -> dict[str, int]:
    """The versions that the records of a task depend on: of its kind, and of its metrics."""
    names = getattr(settings, "metrics", ())
    metrics = {f"metric {name}": text_metrics()[name].version for name in names}
    return {f"task {kind}": task_kind(kind).version} | metrics


def read_settings(kind: type[KindSettings], job: dict[str, Any]) -> KindSettings:
    """The settings of a job, with defaults for those that are absent; a UserError if invalid."""
    values = {key: value for key, value in job["settings"].items() if key not in ("kind", "engine")}
    return validate(kind, values, f"tasks.{job['task']}")


def metrics_by_language(scores: dict[str, dict[str, float]]) -> dict[str, float]:
    """Metrics of a record, from the metrics of each test.

    Without prefix or suffix: the mean over the languages that a cell is adapted to (`avg` in CW2V's
    Table 2). Each language of a group has its own (`f1_<language>`), and English (`english_f1`);
    `f1_with_english` is then the mean over all of them (CW2V's Figures 2 and 3).
    """
    # All languages but English, if there are any.
    adapted = {name: score for name, score in scores.items() if name != ENGLISH} or scores
    metrics = {}
    for metric in next(iter(adapted.values())):
        by_language = {name: score[metric] for name, score in adapted.items() if metric in score}
        if len(by_language) < len(adapted):  # lm-evaluation-harness does not compute it for all
            continue
        metrics[metric] = sum(by_language.values()) / len(adapted)
        if len(adapted) > 1:
            metrics |= {f"{metric}_{name}": value for name, value in by_language.items()}
            if metric in scores.get(ENGLISH, ()):
                values = [score[metric] for score in scores.values()]
                metrics[metric + WITH_ENGLISH] = sum(values) / len(values)
    if ENGLISH in scores and ENGLISH not in adapted:
        metrics |= {f"{ENGLISH}_{metric}": value for metric, value in scores[ENGLISH].items()}
    return metrics


def means(rows: list[dict[str, Any]], *metrics: str) -> dict[str, float]:
    """The mean of each metric over the rows of a test."""
    return {metric: sum(row[metric] for row in rows) / len(rows) for metric in metrics}
