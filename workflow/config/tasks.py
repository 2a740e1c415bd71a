"""Tasks: what cells are tested on. A kind's own keys are checked by its file in the library."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

from lexigraft.settings import Settings, chosen_by, optional
from workflow.config.texts import (
    CalledCodes,
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
    Words,
)

Columns = dict[str, str]


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


class LabelledJson(JsonRows, _Labelled):
    """Lines of JSON with labels."""


class LabelledParquet(ParquetRows, _Labelled):
    """A table with labels."""


class LabelledHub(HubRows, _Labelled):
    """A data set with labels."""


class QuestionSquad(_OfLanguages):
    """A file in SQuAD's layout."""

    loader: Literal["squad"]
    path: str


class QuestionJson(JsonRows, _OfLanguages, _Table):
    """Questions in lines of JSON."""


class QuestionParquet(ParquetRows, _OfLanguages, _Table):
    """Questions in a table."""


class QuestionHub(HubRows, _OfLanguages, _Table):
    """Questions in a data set."""


class TsvTest(Tsv, _OfLanguages):
    """Pairs to translate."""


class FilesTest(PairFiles, _OfLanguages):
    """Pairs in two files."""


class JsonTest(PairJson, _OfLanguages):
    """Pairs in lines of JSON."""


class ParquetTest(PairParquet, _OfLanguages):
    """Pairs in a table."""


class HubTest(HubPairs, _OfLanguages):
    """Pairs in a data set."""


class HubConfigsTest(HubConfigs, _OfLanguages):
    """Pairs in two configurations of a data set."""


_LABELLED = "needs a loader: jsonl, parquet or datasets, with its keys"
LabelledText = Annotated[
    Annotated[LabelledJson, Tag("@jsonl")]
    | Annotated[LabelledParquet, Tag("@parquet")]
    | Annotated[LabelledHub, Tag("@datasets")],
    chosen_by("loader", _LABELLED),
]
QuestionText = Annotated[
    Annotated[QuestionSquad, Tag("@squad")]
    | Annotated[QuestionJson, Tag("@jsonl")]
    | Annotated[QuestionParquet, Tag("@parquet")]
    | Annotated[QuestionHub, Tag("@datasets")],
    chosen_by("loader", "needs a loader: squad, jsonl, parquet or datasets, with its keys"),
]
PairText = Annotated[
    Annotated[TsvTest, Tag("@tsv")]
    | Annotated[FilesTest, Tag("@files")]
    | Annotated[JsonTest, Tag("@jsonl")]
    | Annotated[ParquetTest, Tag("@parquet")]
    | Annotated[HubTest, Tag("@datasets")]
    | Annotated[HubConfigsTest, Tag("@datasets-configs")],
    chosen_by(
        "loader",
        "needs a loader: tsv, files, jsonl, parquet or datasets, with its keys",
        source_config="datasets-configs",
    ),
]
ArticleText = Annotated[
    Annotated[FilesTest, Tag("@files")]
    | Annotated[JsonTest, Tag("@jsonl")]
    | Annotated[ParquetTest, Tag("@parquet")]
    | Annotated[HubTest, Tag("@datasets")],
    chosen_by("loader", "needs a loader: files, jsonl, parquet or datasets, with its keys"),
]


class TrainingExamples(Settings):
    """Examples to fine-tune on, and to test on."""

    labels: list[str] = optional("names of the labels, in the order of their numbers", min_length=2)
    columns: Columns = Field(description="what the table calls the parts of an example")
    train: Rows = Field(description="English examples to learn from")
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


class _OneOfThem(Settings):
    @model_validator(mode="after")
    def _has_one(self) -> Any:
        if not self.model_fields_set:
            raise ValueError("needs `test`, `shots` or both")
        return self


class TranslationExamples(_OneOfThem):
    """Pairs to translate, and those that prompts begin with."""

    test: list[PairText] = optional("texts, each with the codes of its `languages`", min_length=1)
    shots: list[PairText] = optional("the same, for examples in prompts", min_length=1)


class SummarizationExamples(_OneOfThem):
    """Articles to summarize, and those that prompts begin with."""

    test: list[ArticleText] = optional(
        "texts, each with the codes of its `languages`", min_length=1
    )
    shots: list[ArticleText] = optional("the same, for examples in prompts", min_length=1)


class HarnessTasks(Settings):
    """Tasks of lm-evaluation-harness, by codes of languages."""

    languages: CalledCodes = Field(
        description="ISO 639 codes, or a mapping from each to what stands for {code}"
    )
    folder: Annotated[str, StringConstraints(pattern="^[a-zA-Z0-9_-]+(/[a-zA-Z0-9_-]+)*$")] = Field(
        description="a folder of lm_eval/tasks, such as xcopa"
    )
    task: Annotated[str, StringConstraints(pattern="^[A-Za-z0-9{][A-Za-z0-9._{}-]*$")] = Field(
        description="a task of the harness, such as xcopa_{code}"
    )


class Task(Settings):
    """An evaluation."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, StringConstraints(pattern="^[a-z][a-z_]*$")] = Field(
        description="a file of lexigraft/evaluation/tasks, such as perplexity"
    )
    language: Name = optional(
        "a name of languages.yaml whose texts are tested, whatever the cell's language is"
    )
    engine: Literal["transformers", "vllm"] = optional(
        "of tasks that generate texts: what generates them"
    )
    examples: dict[str, Any] = optional("where examples come from, see below")
    harness: Annotated[list[HarnessTasks], Field(min_length=1)] = optional(
        "of `multiple_choice`: which tasks of lm-evaluation-harness test which languages"
    )
    data: Words | None = optional(
        "of `multiple_choice`: a folder with data sets of the hub under their names"
    )


class FineTunedTask(Task):
    """A task that fine-tunes encoders on examples."""

    examples: TrainingExamples = Field(description="where examples come from")  # type: ignore[assignment]


class ChoiceTask(Task):
    """Multiple choice by lm-evaluation-harness."""

    harness: Annotated[list[HarnessTasks], Field(min_length=1)] = Field(
        description="which tasks of lm-evaluation-harness test which languages"
    )


class QuestionTask(Task):
    """Questions about a text."""

    examples: QuestionExamples = Field(description="where questions come from")  # type: ignore[assignment]


class TranslationTask(Task):
    """Translation."""

    examples: TranslationExamples = optional("a test set of its own")  # type: ignore[assignment]


class SummarizationTask(Task):
    """Summaries of articles."""

    examples: SummarizationExamples = optional("a test set of its own")  # type: ignore[assignment]


_KINDS = {
    "classification": "@fine-tuned",
    "tagging": "@fine-tuned",
    "extractive_qa": "@fine-tuned",
    "multiple_choice": "@choice",
    "question_answering": "@questions",
    "translation": "@translation",
    "summarization": "@summarization",
}


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return _KINDS.get(kind, "@task") if isinstance(kind, str) else "@task"


AnyTask = Annotated[
    Annotated[FineTunedTask, Tag("@fine-tuned")]
    | Annotated[ChoiceTask, Tag("@choice")]
    | Annotated[QuestionTask, Tag("@questions")]
    | Annotated[TranslationTask, Tag("@translation")]
    | Annotated[SummarizationTask, Tag("@summarization")]
    | Annotated[Task, Tag("@task")],
    Discriminator(_kind),
]
