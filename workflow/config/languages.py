"""Languages: their texts, samples to train on, models and groups."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from lexigraft.cells import differ_in_case
from lexigraft.setting_types import LocalPath, Name, Revision, Whole, Words
from lexigraft.settings import KeyedError, Settings, optional
from workflow.config.sources import Place
from workflow.config.texts import (
    Articles,
    Chosen,
    Code,
    Pairs,
    RatedPairs,
    Repair,
    Rows,
    SearchedText,
    Text,
    Unique,
    check_long_code,
)

OF_GROUP = ("name", "group", "train_sentences", "train_characters")  # the keys of a group


class ParallelSamples(Settings):
    """Pairs of sentences to learn to translate from."""

    kind: Literal["parallel"] = Field(
        description="pairs, each translated in both directions with ALMA's prompt"
    )
    text: RatedPairs = Field(
        description="the keys of the language's `parallel`, and where the quality of a pair is "
        "given: `quality_column` (`tsv`, `csv`, `parquet`, `datasets`), `quality_field` (`jsonl`) "
        "or `quality`, a file with one number per line (`files`). Columns of `tsv` are numbered "
        "from 1; `source_column` (default 1) holds English and `target_column` (default 2) the "
        "translation"
    )
    pairs: Whole | None = Field(
        None,
        description="number of pairs: those of the highest quality if it is known, otherwise a "
        "random sample. `null` means all",
    )
    minimum_quality: float | None = Field(
        None, description="pairs of lower quality, or without a number, are dropped"
    )

    @property
    def size(self) -> int | None:
        """The number of prompts: each pair in both directions; None without a limit."""
        return self.pairs and 2 * self.pairs


class QuestionSamples(Settings):
    """Rows of a table as prompts and answers."""

    kind: Literal["questions"] = Field(description="rows of a table")
    text: Rows = Field(description="a table: `jsonl`, `csv`, `parquet` or `datasets`")
    prompt: Words = Field(
        description="a [Jinja](https://jinja.palletsprojects.com) template over the columns, such "
        'as `"Question: {{question}}\\nAnswer:"`'
    )
    answer: Words = Field(
        description='the same for the answer, such as `" {{choices.text[0]}}"`. The separator '
        "between the two, here a space, is part of one of them"
    )
    questions: Whole | None = Field(
        None, description="number of rows, drawn at random. `null` means all"
    )

    @property
    def size(self) -> int | None:
        """The number of prompts; None without a limit."""
        return self.questions


class AnsweredSamples(Settings):
    """Prompts of other samples with the answers of another model."""

    kind: Literal["answered"] = Field(
        description="the prompts of another entry, answered by another model with greedy decoding "
        "up to the end of a line. Empty and unfinished answers are dropped"
    )
    prompts: str = Field(description="name of another entry in the language's `samples`")
    teacher: str = Field(description="a name of sources.yaml")
    max_new_tokens: Whole = Field(128, description="maximum number of tokens of an answer")
    batch_size: Whole | None = Field(
        None,
        description="maximum number of prompts answered at once. `null` means as many as fit "
        "into memory",
    )


Samples = Chosen[ParallelSamples, QuestionSamples, AnsweredSamples]


class Group(Settings):
    """Several languages with one vocabulary, one training text and one model."""

    members: Annotated[list[str], Unique] = Field(
        min_length=2,
        description="two or more languages of the registry, which are not groups themselves",
    )
    shares: dict[str, Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=dict,
        description="language -> its share of the training tokens, and of the characters that "
        "vocabularies, vectors and initializers read. `{}` fixes no shares; either all members "
        "have one, and the shares add up to 1, or the other members divide the rest",
    )
    temperature: float = Field(
        1.0,
        gt=0,
        description="members without a share divide the rest by size ^ (1 / temperature). 1 is "
        "proportional to size, higher values favour small languages",
    )


class LanguageModel(Settings):
    """A model of a language that provides a tokenizer or embeddings."""

    model: Place = Field(description="a hub name, or a folder that begins with `/`, `.` or `~`")
    revision: Revision | None = Field(None, description="a commit, tag or branch on the hub")


class ContaminationConfig(Settings):
    """Texts that are searched for in the training text."""

    tests: dict[Name, SearchedText] = Field(
        default_factory=dict,
        description="name -> a text as in `text`, but not in a package. The tests that cells are "
        "scored on are always searched for",
    )
    drop: bool = Field(
        False,
        description="`true` excludes sentences that contain a text of `tests` or a piece of one "
        "from training and held-out text, `false` only counts them",
    )

    @model_validator(mode="after")
    def _names_are_free(self) -> "ContaminationConfig":
        for name in ("translation", "summarization"):
            if name in self.tests:
                raise KeyedError(
                    "tests", f"remove '{name}'; the language's own tests are always searched for"
                )
        return self


class LanguageResources(Settings):
    """What the time of jobs is estimated from before the corpus exists."""

    characters: Whole = optional(
        "approximate number of characters of a sentence, or of a document of its text. By default "
        "120"
    )


class LanguageConfig(Settings):
    """One language and its texts, or a group of languages."""

    name: Words = Field(description="English name, which tables show")
    code: Annotated[Code, AfterValidator(check_long_code)] = optional(
        "ISO 639 code, such as te. It selects the prompt. Only groups have none"
    )
    script: Annotated[str, StringConstraints(pattern="^[A-Z][a-z]{3}$")] = Field(
        "Latn", description="ISO 15924 code, such as Telu. It selects the font"
    )
    text: Text = optional("the corpus. Only groups have none")
    license: Words = optional("licence of the corpus, for model cards")
    group: Group = optional("a group instead of a language")
    parallel: Pairs | None = Field(
        None, description="English sentences and their translations, for translation tasks"
    )
    english: Text | None = Field(
        None,
        description="English text for measuring the effect on English; by default that of "
        "`parallel`",
    )
    summarization: Articles | None = Field(None, description="articles and their summaries")
    word_vectors: LocalPath | None = Field(
        None,
        description="a file of word vectors: fastText's `.bin`, `.vec` or `.vec.gz`. For "
        "`focus-word`, `salt` and `wechsel`",
    )
    english_word_vectors: LocalPath | None = Field(
        None, description="the same for English words, for `wechsel`"
    )
    dictionary: LocalPath | None = Field(
        None,
        description="a text file of pairs: an English word, a tab, its translation. For `wechsel`, "
        "`cw2v-dictionary` and `dictionary-alignment`",
    )
    plms: dict[str, LanguageModel] = Field(
        default_factory=dict,
        description="models of the language by name, for vocabularies and auxiliaries that refer "
        "to one: `{bert: {model: …, revision: …}}`",
    )
    samples: dict[Name, Samples] = Field(
        default_factory=dict, description="prompts with answers to train on, by name"
    )
    repair: Repair = Field(
        default_factory=list,
        description="damage to repair in all texts of the language. `zawgyi`: Burmese in the "
        "Zawgyi encoding; `quotes`: lines that are fields of CSV files, as FLORES-200 has in "
        "several languages; `mojibake`: UTF-8 that was read as another encoding (`schÃ¶n`). The "
        "report counts such lines in any case",
    )
    contamination: ContaminationConfig = Field(
        default_factory=ContaminationConfig,
        description="`tests` are texts that are searched for in the training text, `drop` says "
        "whether sentences that contain part of them are excluded "
        "([how](../docs/methods.md#texts))",
    )
    train_sentences: Whole | None = Field(
        30000,
        description="maximum number of training sentences, drawn at random. `null` means all "
        "([small texts](#small-texts))",
    )
    train_characters: Whole = optional(
        "maximum number of characters of training text, drawn at random by sentence: the limit "
        "for large texts, with `train_sentences: null`. An English token has about 4 characters"
    )
    read_characters: Whole = optional(
        "maximum number of characters of `text` to read, from its files in random order. Training "
        "text is drawn from these, and English from as many characters of `english`, at most a "
        "hundred million. By default all text is read, and data sets of the hub are downloaded as "
        "a whole"
    )
    read_sentences: Whole = optional(
        "number of distinct sentences of `text` to read, from its beginning, instead of "
        "`read_characters`"
    )
    split_sentences: bool = optional(
        "`true` splits each line of `text` and `english` into sentences, with NLTK's Punkt trained "
        "on the beginning of the text. By default lines are used as they are"
    )
    heldout_sentences: Whole = Field(
        1000, description="maximum number of held-out sentences, for perplexity and bits per byte"
    )
    heldout_from: Literal["anywhere", "end"] = optional(
        "where held-out sentences are drawn from: the whole text (`anywhere`, the default), or "
        "its last tenth (`end`), which is then excluded from training"
    )
    english_sentences: Whole = Field(
        1000, description="maximum number of sentences for measuring the effect on English"
    )
    translation_pairs: Whole | None = Field(
        500,
        description="maximum number of pairs for translation, excluded from training. `null` "
        "means all",
    )
    summarization_pairs: Whole | None = Field(
        None,
        description="maximum number of articles with summaries, excluded from training. "
        "`null` means all",
    )
    minimum_characters: Whole = Field(10, description="shorter sentences are dropped")

    resources: LanguageResources = optional(
        "what time limits of jobs are computed from ([more](../docs/status.md#the-cost-model)). "
        "It does not change results"
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
