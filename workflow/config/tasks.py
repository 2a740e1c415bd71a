"""Tasks on which cells are evaluated, and the learned metrics that score their predictions.

The keys of each kind are checked by its file in the library.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    Tag,
    create_model,
    model_validator,
)

from lexigraft.errors import suggestion
from lexigraft.evaluation.learned.checkpoint import learned_kinds
from lexigraft.evaluation.task_kinds import kinds, task_kind
from lexigraft.setting_types import Name, Positive, Revision, Whole, Words
from lexigraft.settings import Settings, by_shape, default, one_of, optional, required
from workflow.config.sources import Megabytes, Place
from workflow.config.texts import CalledCodes, Codes, Repair, Rows, text_of

Columns = dict[str, str]
TestedLanguage = Annotated[
    Annotated[Name, Tag("@text")]
    | Annotated[dict[Name, Name], Field(min_length=1), Tag("@mapping")],
    by_shape("needs a name of languages.yaml, or a mapping from languages of cells to such names"),
]
Pair = TypeVar("Pair")


class _OfLanguages(Settings):
    """The keys that all texts of test sets have."""

    languages: CalledCodes = required(
        "ISO 639 codes, or a mapping from each code to what the text calls the language"
    )
    repair: Repair = optional("damage to repair, as for a language")


class _Table(Settings):
    columns: Columns = optional("names of the columns, instead of those of `examples`")


class _Labelled(_Table):
    languages: Codes = required("ISO 639 codes of the languages of the text")
    labels: list[str] = optional("names of the labels, instead of those of `examples`")


class _QuestionKeys(_OfLanguages, _Table):
    """The keys that all texts with questions have."""


LabelledText = Annotated[Settings, text_of("rows", keys=_Labelled)]
QuestionText = Annotated[Settings, text_of("questions", keys=_QuestionKeys)]
PairText = Annotated[Settings, text_of("pairs", keys=_OfLanguages, packages=False)]
ArticleText = Annotated[Settings, text_of("articles", keys=_OfLanguages, packages=False)]


class TrainingExamples(Settings):
    """Examples to fine-tune on, and to test on."""

    labels: list[str] = optional("names of the labels, by their numbers", min_length=2)
    columns: Columns = required("columns of the table with the parts of an example")
    train: Rows = required("English examples to train on")
    validation: Rows = optional(
        "English examples to choose the epoch that is tested. By default the last one is"
    )
    test: list[LabelledText] = required(
        "texts, each with the codes of its `languages`", min_length=1
    )


class QuestionExamples(Settings):
    """Questions, and examples for prompts."""

    columns: Columns = optional("columns with `question`, `context` and `answers`")
    test: list[QuestionText] = required(
        "texts, each with the codes of its `languages`", min_length=1
    )
    shots: list[QuestionText] = optional("the same, for the examples in prompts", min_length=1)


class OwnTests(Settings, Generic[Pair]):
    """Pairs to translate or articles to summarize, and examples for prompts."""

    test: list[Pair] = optional("texts, each with the codes of its `languages`", min_length=1)
    shots: list[Pair] = optional("the same, for the examples in prompts", min_length=1)

    @model_validator(mode="after")
    def _has_one(self) -> Any:
        if not self.model_fields_set:
            raise ValueError("needs `test`, `shots` or both")
        return self


class HarnessTasks(Settings):
    """Tasks of lm-evaluation-harness, by codes of languages."""

    languages: CalledCodes = required(
        "ISO 639 codes, or a mapping from each to the value of {code}"
    )
    folder: Annotated[
        str, StringConstraints(pattern=r"^(\./)?[a-zA-Z0-9_-]+(/[a-zA-Z0-9_-]+)*$")
    ] = required(
        "a folder of lm_eval/tasks, such as xcopa; or your own (./config/harness/xnli-cw2v), "
        "with definitions in the format of the harness"
    )
    task: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9{][A-Za-z0-9._{}-]{0,99}$")] = (
        required("a task of this folder, such as xcopa_{code}")
    )


Harness = Annotated[list[HarnessTasks], Field(min_length=1)]
_HARNESS = "tasks of lm-evaluation-harness, and the languages that each tests"


class Task(Settings):
    """An evaluation."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, StringConstraints(pattern="^[a-z][a-z_]*$")] = required(
        "a file of lexigraft/evaluation/tasks, such as perplexity"
    )
    language: TestedLanguage = optional(
        "a language whose texts are tested instead of those of the cell's language; or a mapping "
        "from languages of cells to such names"
    )
    engine: Literal["auto", "transformers", "vllm"] = optional(
        "inference engine of tasks that generate text. By default `auto`: vLLM on GPUs where it is "
        "installed, if the task is greedy"
    )
    examples: dict[str, Any] = optional("source of the examples, see below")
    harness: Harness = optional(f"for `multiple_choice` and `harness_generation`: {_HARNESS}")
    data: Words | None = optional("for the same kinds: a folder with data sets of the hub by name")

    @property
    def prompts(self) -> str | None:
        """The file in config/prompts that its prompts are built from; None if it has none."""
        prompts_from: str | None = (self.model_extra or {}).get("prompts_from")
        return prompts_from or task_kind(self.kind).prompts


def _task(name: str, kind: Any, field: Any, key: str = "examples") -> type[Task]:
    """The model of tasks with another type of a key."""
    fields: Any = {key: (kind, field)}
    return create_model(f"_{name}Task", __base__=Task, **fields)


_BENCHMARK = _task("Benchmark", Harness, required(_HARNESS), "harness")
_FINE_TUNED = _task("FineTuned", TrainingExamples, required("source of the examples"))
# By the rows of a kind of task; all others use `Task`.
_BY_ROWS: dict[str | None, type[Task]] = {
    **dict.fromkeys(("labels", "tags", "spans"), _FINE_TUNED),
    "questions": _task("Questions", QuestionExamples, required("source of the questions")),
    "pairs": _task("Pairs", OwnTests[PairText], optional("test set of the task")),
    "articles": _task("Articles", OwnTests[ArticleText], optional("test set of the task")),
}


def _choose(value: Mapping[str, Any]) -> type[Task]:
    if value.get("kind") not in kinds():
        return Task
    kind = task_kind(value["kind"])
    return _BENCHMARK if kind.tests == "benchmark" else _BY_ROWS.get(kind.rows, Task)


_MODELS: dict[type[Task], None] = dict.fromkeys([Task, _BENCHMARK, *_BY_ROWS.values()])
AnyTask = Annotated[Task, one_of(list(_MODELS), _choose)]


# ---- learned metrics ---------------------------------------------------------------------------


class MetricResources(Settings):
    """What a cluster job requests at its first attempt; each retry adds the same amount."""

    scoring_mb: Megabytes = default(10000, "memory of a scoring job")
    billion_parameters: Positive = optional("parameters in billions, for time limits")
    scoring_minutes: Whole = optional(
        "time limit of a scoring job per run of a task. By default 60 without `billion_parameters`"
    )


def _learned_kind(name: str) -> str:
    if name not in learned_kinds():
        raise ValueError(f"'{name}' is not a learned metric{suggestion(name, learned_kinds())}")
    return name


class MetricConfig(Settings):
    """A learned metric."""

    kind: Annotated[str, AfterValidator(_learned_kind)] = required(
        "a file of lexigraft/evaluation/learned/kinds: `bleurt` or `comet`"
    )
    metric: Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]*$")] = required(
        "name of the score in records and reports"
    )
    checkpoint: Place | None = required(
        "a hub name such as Unbabel/wmt22-comet-da, a folder (`/`, `.` or `~`), or `null`"
    )
    revision: Revision | None = default(None, "a commit, tag or branch of a hub name")
    encoder: Place | None = default(
        None, "COMET's encoder; only tokenizer and configuration are read"
    )
    encoder_revision: Revision | None = default(None, "a commit, tag or branch of the encoder")
    uses_source: bool = required("whether the metric reads the source text")
    batch_size: Whole = default(16, "predictions scored together. It changes no score")
    resources: MetricResources = default(MetricResources, "what jobs request. It changes no result")
