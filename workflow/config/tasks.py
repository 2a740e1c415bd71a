"""Tasks, what cells are tested on, and the learned metrics that score what cells write.

A kind's own keys are checked by its file in the library.
"""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

from lexigraft.settings import Settings, by_shape, optional
from workflow.config.sources import Megabytes, Place, Positive, Revision
from workflow.config.texts import (
    CalledCodes,
    Chosen,
    Codes,
    HubConfigs,
    HubPairs,
    HubRows,
    JsonRows,
    Name,
    PairFiles,
    PairJson,
    PairParquet,
    ParquetRows,
    Repair,
    Rows,
    Tsv,
    Whole,
    Words,
)

Columns = dict[str, str]
TestedLanguage = Annotated[
    Annotated[Name, Tag("@text")]
    | Annotated[dict[Name, Name], Field(min_length=1), Tag("@mapping")],
    by_shape("needs a name of languages.yaml, or a mapping from languages of cells to such names"),
]
Pair = TypeVar("Pair")


class _OfLanguages(Settings):
    """What texts of test sets say of themselves."""

    languages: CalledCodes = Field(
        description="ISO 639 codes, or a mapping from each to what the text calls the language"
    )
    repair: Repair = optional("damage to undo, as a language's")


class _Table(Settings):
    columns: Columns = optional("names of the columns, in place of those of `examples`")


class _Labelled(_Table):
    languages: Codes = Field(description="ISO 639 codes of the languages that the text is in")
    labels: list[str] = optional("names of the labels, in place of those of `examples`")


class QuestionSquad(_OfLanguages):
    """A file in SQuAD's layout."""

    loader: Literal["squad"]
    path: str


class _QuestionJson(JsonRows, _OfLanguages, _Table): ...


class _QuestionParquet(ParquetRows, _OfLanguages, _Table): ...


class _QuestionHub(HubRows, _OfLanguages, _Table): ...


LabelledText = Chosen[_Labelled, JsonRows, ParquetRows, HubRows]
QuestionText = Chosen[QuestionSquad, _QuestionJson, _QuestionParquet, _QuestionHub]
PairText = Chosen[_OfLanguages, Tsv, PairFiles, PairJson, PairParquet, HubPairs, HubConfigs]
ArticleText = Chosen[_OfLanguages, PairFiles, PairJson, PairParquet, HubPairs]


class TrainingExamples(Settings):
    """Examples to fine-tune on, and to test on."""

    labels: list[str] = optional("names of the labels, in the order of their numbers", min_length=2)
    columns: Columns = Field(description="what the table calls the parts of an example")
    train: Rows = Field(description="English examples to learn from")
    validation: Rows = optional(
        "English examples that choose the epoch: the one with the highest score on them is "
        "tested. By default the last one is"
    )
    test: list[LabelledText] = Field(
        min_length=1, description="a list of texts, each with the codes of its `languages`"
    )


class QuestionExamples(Settings):
    """Questions, and those that prompts begin with."""

    columns: Columns = optional("where a table has `question`, `context` and `answers`")
    test: list[QuestionText] = Field(
        min_length=1, description="a list of texts, each with the codes of its `languages`"
    )
    shots: list[QuestionText] = optional("the same, for examples in prompts", min_length=1)


class OwnTests(Settings, Generic[Pair]):
    """Pairs to translate or articles to summarize, and those that prompts begin with."""

    test: list[Pair] = optional("texts, each with the codes of its `languages`", min_length=1)
    shots: list[Pair] = optional("the same, for examples in prompts", min_length=1)

    @model_validator(mode="after")
    def _has_one(self) -> Any:
        if not self.model_fields_set:
            raise ValueError("needs `test`, `shots` or both")
        return self


class HarnessTasks(Settings):
    """Tasks of lm-evaluation-harness, by codes of languages."""

    languages: CalledCodes = Field(
        description="ISO 639 codes, or a mapping from each to what stands for {code}"
    )
    folder: Annotated[
        str, StringConstraints(pattern=r"^(\./)?[a-zA-Z0-9_-]+(/[a-zA-Z0-9_-]+)*$")
    ] = Field(
        description="a folder of lm_eval/tasks, such as xcopa; or one of your own, such as "
        "./config/harness/xnli-cw2v, with definitions in the harness' format"
    )
    task: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9{][A-Za-z0-9._{}-]*$")] = Field(
        description="a task that is defined there, such as xcopa_{code}"
    )


class Task(Settings):
    """An evaluation."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, StringConstraints(pattern="^[a-z][a-z_]*$")] = Field(
        description="a file of lexigraft/evaluation/tasks, such as perplexity"
    )
    language: TestedLanguage = optional(
        "a name of languages.yaml whose texts are tested, whatever the cell's language is; or a "
        "mapping from languages of cells to such names"
    )
    engine: Literal["auto", "transformers", "vllm"] = optional(
        "of tasks that generate texts: what generates them. By default, `auto`, vLLM on GPUs that "
        "have it, where the task is greedy"
    )
    examples: dict[str, Any] = optional("where examples come from, see below")
    harness: Annotated[list[HarnessTasks], Field(min_length=1)] = optional(
        "of `multiple_choice`: which tasks of lm-evaluation-harness test which languages"
    )
    data: Words | None = optional(
        "of `multiple_choice`: a folder with data sets of the hub under their names"
    )


class _FineTuned(Task):
    examples: TrainingExamples = Field(description="where examples come from")  # type: ignore[assignment]


class _Choice(Task):
    harness: Annotated[list[HarnessTasks], Field(min_length=1)] = Field(
        description="which tasks of lm-evaluation-harness test which languages"
    )


class _Questions(Task):
    examples: QuestionExamples = Field(description="where questions come from")  # type: ignore[assignment]


class _Translation(Task):
    examples: OwnTests[PairText] = optional("a test set of its own")  # type: ignore[assignment]


class _Summarization(Task):
    examples: OwnTests[ArticleText] = optional("a test set of its own")  # type: ignore[assignment]


# Of all other kinds a `Task`.
_KINDS: dict[str, type[Task]] = {
    "classification": _FineTuned,
    "tagging": _FineTuned,
    "extractive_qa": _FineTuned,
    "multiple_choice": _Choice,
    "question_answering": _Questions,
    "translation": _Translation,
    "summarization": _Summarization,
}


def _tag(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    model = _KINDS.get(kind, Task) if isinstance(kind, str) else Task
    return f"@{model.__name__}"


_MODELS: list[type[Task]] = [Task, *_KINDS.values()]
AnyTask: Any = Annotated[
    reduce(or_, (Annotated[model, Tag(f"@{model.__name__}")] for model in _MODELS)),
    Discriminator(_tag),
]


# ---- learned metrics ---------------------------------------------------------------------------


class MetricResources(Settings):
    """What a cluster job asks for at its first attempt; each retry asks for as much again."""

    scoring_mb: Megabytes = Field(10000, description="memory of a scoring job")
    billion_parameters: Positive = optional(
        "parameters of the metric in billions, from which time limits follow"
    )
    scoring_minutes: Whole = optional(
        "time limit of a scoring job for each run of a task. By default 60 where "
        "`billion_parameters` is not given"
    )


class MetricConfig(Settings):
    """A learned metric."""

    kind: Literal["bleurt", "comet"] = Field(
        description="which package scores: bleurt-pytorch or unbabel-comet"
    )
    metric: Annotated[str, StringConstraints(pattern="^[a-z][a-z0-9_]*$")] = Field(
        description="what records and reports call the score"
    )
    checkpoint: Place | None = Field(
        description="a hub name such as Unbabel/wmt22-comet-da, a folder that begins with `/`, `.` "
        "or `~`, or `null`"
    )
    revision: Revision | None = Field(None, description="a commit, tag or branch of a hub name")
    encoder: Place | None = Field(
        None, description="COMET's encoder, of which tokenizer and configuration are read"
    )
    encoder_revision: Revision | None = Field(None, description="the same of the encoder")
    uses_source: bool = Field(description="whether the metric is given the source text")
    batch_size: Whole = Field(16, description="predictions scored together. It changes no score")
    resources: MetricResources = Field(
        default_factory=MetricResources,
        description="what cluster jobs ask for. It changes no result",
    )
