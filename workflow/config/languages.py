"""Languages: their texts, samples to train on, models and groups."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from lexigraft.cells import differ_in_case
from lexigraft.setting_types import LocalPath, Name, Revision, Whole, Words
from lexigraft.settings import KeyedError, Settings, default, one_of_kinds, optional, required
from workflow.config.sources import Place
from workflow.config.texts import (
    Articles,
    Code,
    Pairs,
    RatedPairs,
    Repair,
    Rows,
    Text,
    Unique,
    check_long_code,
)

OF_GROUP = ("name", "group", "train_sentences", "train_characters")  # the keys of a group


class ParallelSamples(Settings):
    """Pairs of sentences to learn to translate from."""

    kind: Literal["parallel"] = required("pairs, translated in both directions with ALMA's prompt")
    text: RatedPairs = required(
        "the keys of the language's `parallel`, and where the quality of a pair is: "
        "`quality_column` (tables), `quality_field` (`jsonl`) or `quality`, a file with a number "
        "per line (`files`). In `tsv`, columns are numbered from 1, by default English and its "
        "translation"
    )
    pairs: Whole | None = default(
        None, "number of pairs, those of the highest quality if it is known. `null` means all"
    )
    minimum_quality: float | None = default(None, "pairs below, or without quality, are dropped")

    @property
    def size(self) -> int | None:
        """The number of prompts: each pair in both directions; None without a limit."""
        return self.pairs and 2 * self.pairs


class QuestionTable(Settings):
    """A table, and its rows as prompts and answers."""

    text: Rows = required("a table: `jsonl`, `csv`, `parquet` or `datasets`")
    prompt: Words = required(
        "a [Jinja](https://jinja.palletsprojects.com) template over the columns: "
        '`"Question: {{question}}\\nAnswer:"`'
    )
    answer: Words = required(
        'the same for the answer, with the separator between the two: `" {{choices.text[0]}}"`'
    )


class QuestionSamples(QuestionTable):
    """Rows of one or more tables as prompts and answers."""

    kind: Literal["questions"] = required("rows of tables")
    more: list[QuestionTable] = optional(
        "further tables, each with `text`, `prompt` and `answer`, whose rows are added"
    )
    questions: Whole | None = default(None, "number of rows, drawn at random. `null` means all")

    @property
    def size(self) -> int | None:
        """The number of prompts; None without a limit."""
        return self.questions


class AnsweredSamples(Settings):
    """Prompts of other samples with the answers of another model."""

    kind: Literal["answered"] = required(
        "prompts of another entry with greedy answers of another model, up to the end of a line. "
        "Empty and unfinished answers are dropped"
    )
    prompts: str = required("name of another entry in the language's `samples`")
    teacher: str = required("a name of sources.yaml")
    max_new_tokens: Whole = default(128, "maximum number of tokens of an answer")
    batch_size: Whole | None = default(None, "most prompts at once. `null`: as many as fit")


_SAMPLES: list[type[Settings]] = [ParallelSamples, QuestionSamples, AnsweredSamples]
Samples = Annotated[
    ParallelSamples | QuestionSamples | AnsweredSamples, one_of_kinds(lambda: _SAMPLES)
]


class Group(Settings):
    """Several languages with one vocabulary, one training text and one model."""

    members: Annotated[list[str], Unique] = required(
        "two or more languages, which are not groups", min_length=2
    )
    shares: dict[str, Annotated[float, Field(gt=0, lt=1)]] = default(
        dict,
        "language -> its share of the training tokens, and of the characters that vocabularies, "
        "vectors and initializers read. Members without one divide the rest",
    )
    temperature: float = default(
        1.0,
        "members without a share divide the rest by size ^ (1 / temperature): 1 is proportional to "
        "size, higher values favour small languages",
        gt=0,
    )


class LanguageModel(Settings):
    """A model of a language that provides a tokenizer or embeddings."""

    model: Place = required("a hub name, or a folder that begins with `/`, `.` or `~`")
    revision: Revision | None = default(None, "a commit, tag or branch on the hub")


class LanguageResources(Settings):
    """What the time of jobs is estimated from before the corpus exists."""

    characters: Whole = optional("characters per sentence or document, about. By default 120")


class LanguageConfig(Settings):
    """One language and its texts, or a group of languages."""

    name: Words = required("English name, which tables show")
    code: Annotated[Code, AfterValidator(check_long_code)] = optional(
        "ISO 639 code, such as te. It selects the prompt. Only groups have none"
    )
    script: Annotated[str, StringConstraints(pattern="^[A-Z][a-z]{3}$")] = default(
        "Latn", "ISO 15924 code, such as Telu. It selects the font"
    )
    text: Text = optional("the corpus. Only groups have none")
    license: Words = optional("licence of the corpus, for model cards")
    group: Group = optional("a group instead of a language")
    parallel: Pairs | None = default(
        None, "English sentences with translations, for translation tasks"
    )
    english: Text | None = default(
        None, "English text, for the effect on English; by default that of `parallel`"
    )
    summarization: Articles | None = default(None, "articles and their summaries")
    word_vectors: LocalPath | None = default(
        None, "word vectors (`.bin`, `.vec`, `.vec.gz`), for `focus-word`, `salt` and `wechsel`"
    )
    english_word_vectors: LocalPath | None = default(None, "the same for English, for `wechsel`")
    dictionary: LocalPath | None = default(
        None,
        "pairs, one per line: an English word, a tab, its translation. For `wechsel`, "
        "`cw2v-dictionary` and `dictionary-alignment`",
    )
    plms: dict[str, LanguageModel] = default(
        dict,
        "models of the language by name, for vocabularies and auxiliaries that refer to one: "
        "`{bert: {model: …, revision: …}}`",
    )
    samples: dict[Name, Samples] = default(dict, "prompts with answers to train on, by name")
    repair: Repair = default(
        list,
        "damage to repair in all texts of the language: `zawgyi` (Burmese in the Zawgyi encoding), "
        "`quotes` (lines that are fields of CSV files, as in FLORES-200), `mojibake` (UTF-8 read "
        "as another encoding: `schÃ¶n`). The report counts such lines in any case",
    )
    train_sentences: Whole | None = default(
        30000, "most training sentences, drawn at random. `null` means all ([more](#small-texts))"
    )
    train_characters: Whole = optional(
        "most characters of training text, drawn by sentence: the limit for large texts, with "
        "`train_sentences: null`. An English token has about 4 characters"
    )
    read_characters: Whole = optional(
        "most characters to read of `text`, from its files in random order, and of `english` (at "
        "most a hundred million). By default all is read, and data sets are downloaded as a whole"
    )
    read_sentences: Whole = optional(
        "number of distinct sentences of `text` to read, from its beginning, instead of "
        "`read_characters`"
    )
    split_sentences: bool = optional(
        "`true` splits each line of `text` and `english` into sentences, with NLTK's Punkt trained "
        "on the beginning of the text. By default lines are used as they are"
    )
    only_language: bool = optional(
        "`true` drops lines of `text` with less than half of their letters in `script`, and lines "
        "in English. Other languages in the same script are not recognized"
    )
    markup: Literal["strip"] = optional(
        "`strip` removes HTML and Markdown from `text` and `english`, line by line"
    )
    heldout_sentences: Whole = default(
        1000, "most held-out sentences, for perplexity and bits per byte"
    )
    heldout_from: Literal["anywhere", "end"] = optional(
        "where they are drawn from: the whole text (`anywhere`, default), or its last tenth "
        "(`end`), which is then excluded from training"
    )
    english_sentences: Whole = default(1000, "most sentences for the effect on English")
    translation_pairs: Whole | None = default(
        500, "most pairs for translation, excluded from training. `null` means all"
    )
    summarization_pairs: Whole | None = default(
        None, "most articles with summaries, excluded from training. `null` means all"
    )
    minimum_characters: Whole = default(10, "shorter sentences are dropped")

    resources: LanguageResources = optional(
        "for time limits ([more](../docs/status.md#the-cost-model)). It changes no result"
    )

    @model_validator(mode="after")
    def _is_a_language_or_a_group(self) -> "LanguageConfig":
        given = self.model_fields_set
        for key in ("code", "text"):
            if key not in given and "group" not in given:
                raise ValueError(f"'{key}' is missing")
        for key in sorted(given.difference(OF_GROUP)) if "group" in given else ():
            raise KeyedError(
                key, f"a group can only have {', '.join(OF_GROUP)}; set '{key}' for its members"
            )
        if {"read_characters", "read_sentences"} <= given:
            raise KeyedError("read_sentences", "remove it or read_characters")
        return self

    @field_validator("samples", mode="before")
    @classmethod
    def _names_are_free(cls, samples: Any) -> Any:
        named = [str(name) for name in samples] if isinstance(samples, dict) else []
        if "monolingual" in named:
            raise ValueError("'monolingual' is reserved for the corpus itself; choose another name")
        if pair := differ_in_case(named):
            raise ValueError(
                f"'{pair[0]}' and '{pair[1]}' differ only in case, so they "
                "would share one folder on some file systems; rename one of them"
            )
        return samples
