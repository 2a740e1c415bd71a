"""Languages: their texts, samples to train on, models and groups."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from lexigraft.settings import KeyedError, Settings, optional
from workflow.config.sources import Place, Revision
from workflow.config.texts import (
    Articles,
    Chosen,
    Code,
    Name,
    Pairs,
    RatedPairs,
    Repair,
    Rows,
    SearchedText,
    Text,
    Unique,
    Whole,
    Words,
    check_long_code,
)

OF_GROUP = ("name", "group", "train_sentences", "train_characters")  # the keys of a group


class ParallelSamples(Settings):
    """Pairs of sentences to learn to translate from."""

    kind: Literal["parallel"] = Field(
        description="pairs, each translated in both directions with ALMA's prompt"
    )
    text: RatedPairs = Field(
        description="what the language's `parallel` takes, and where the quality of a pair is: "
        "`quality_column` (`tsv`, `parquet`, `datasets`), `quality_field` (`jsonl`) or `quality`, "
        "a file with a number a line (`files`). Columns of `tsv` are numbered from 1; "
        "`source_column` (1) and `target_column` (2) say where English and the translation are"
    )
    pairs: Whole | None = Field(
        None,
        description="how many: the best ones where the quality is known, else a random draw. "
        "`null` is all",
    )
    minimum_quality: float | None = Field(
        None, description="pairs below it, or without a number, are dropped"
    )


class QuestionSamples(Settings):
    """Rows of a table as prompts and answers."""

    kind: Literal["questions"] = Field(description="rows of a table")
    text: Rows = Field(description="a table: `jsonl`, `parquet` or `datasets`")
    prompt: Words = Field(
        description="a [Jinja](https://jinja.palletsprojects.com) template over the columns, such "
        'as `"Question: {{question}}\\nAnswer:"`'
    )
    answer: Words = Field(
        description='the same, such as `" {{choices.text[0]}}"`. What separates the two, here a '
        "space, belongs to one of them"
    )
    questions: Whole | None = Field(
        None, description="how many rows, drawn at random. `null` is all"
    )


class AnsweredSamples(Settings):
    """Prompts of other samples with the answers of another model."""

    kind: Literal["answered"] = Field(
        description="the prompts of another entry, answered greedily by another model up to the "
        "end of a line. Empty and unfinished answers are left out"
    )
    prompts: str = Field(description="another name in the language's samples")
    teacher: str = Field(description="a name of sources.yaml")
    max_new_tokens: Whole = Field(128, description="tokens of an answer")
    batch_size: Whole | None = Field(
        None, description="the most prompts answered at once. `null` is as many as fit into memory"
    )


Samples = Chosen[ParallelSamples, QuestionSamples, AnsweredSamples]


class Group(Settings):
    """Several languages with one vocabulary, one training text and one model."""

    members: Annotated[list[str], Unique] = Field(
        min_length=2, description="two or more languages of the registry, no groups"
    )
    shares: dict[str, Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=dict,
        description="language -> its share of the training tokens, and of the characters that "
        "vocabularies, vectors and initializers read. `{}` fixes none; all members have one, and "
        "they add up to 1, or the others share the rest",
    )
    temperature: float = Field(
        1.0,
        gt=0,
        description="members without a share have the rest by size ^ (1 / temperature). 1 is "
        "proportional to size, more favours small ones",
    )


class LanguageModel(Settings):
    """A model of a language, whose tokenizer or embeddings others take."""

    model: Place = Field(description="a hub name, or a folder that begins with `/`, `.` or `~`")
    revision: Revision | None = Field(None, description="a commit, tag or branch of the hub")


class ContaminationConfig(Settings):
    """Texts that the training text is searched for."""

    tests: dict[Name, SearchedText] = Field(
        default_factory=dict,
        description="name -> a text as in `text`, no catalogue. The tests that cells are scored on "
        "are searched for anyway",
    )
    drop: bool = Field(
        False,
        description="`true` keeps sentences that hold something of `tests` out of training and "
        "held-out text, `false` counts them",
    )

    @model_validator(mode="after")
    def _names_are_free(self) -> "ContaminationConfig":
        for name in ("translation", "summarization"):
            if name in self.tests:
                raise KeyedError(
                    "tests", f"'{name}': the language's own tests are searched for anyway"
                )
        return self


class LanguageResources(Settings):
    """What the time of jobs is estimated by, before the corpus is there."""

    characters: Whole = optional(
        "characters of a sentence, or of a document of its text, about. By default 120"
    )


class LanguageConfig(Settings):
    """One language and its texts, or a group of languages."""

    name: Words = Field(description="the English name, which tables show")
    code: Annotated[Code, AfterValidator(check_long_code)] = optional(
        "ISO 639 code, such as te. It chooses the prompt. Only groups have none"
    )
    script: Annotated[str, StringConstraints(pattern="^[A-Z][a-z]{3}$")] = Field(
        "Latn", description="ISO 15924 code, such as Telu. It chooses the font"
    )
    text: Text = optional("the corpus. Only groups have none")
    license: Words = optional("the licence of the corpus, for model cards")
    group: Group = optional("a group in place of a language")
    parallel: Pairs | None = Field(
        None, description="English sentences and their translations, which cells translate"
    )
    english: Text | None = Field(
        None, description="English text, to see what English loses; by default that of `parallel`"
    )
    summarization: Articles | None = Field(None, description="articles and their summaries")
    word_vectors: str | None = Field(
        None,
        description="a file of word vectors: `.bin` of fastText, `.vec` or `.vec.gz`. For "
        "`focus-word`, `salt` and `wechsel`",
    )
    english_word_vectors: str | None = Field(
        None, description="the same of English words, for `wechsel`"
    )
    dictionary: str | None = Field(
        None,
        description="a text file of pairs: an English word, a tab, its translation. For `wechsel`, "
        "`cw2v-dictionary` and `dictionary-alignment`",
    )
    plms: dict[str, LanguageModel] = Field(
        default_factory=dict,
        description="models of the language by name, for vocabularies and auxiliaries that name "
        "one: `{bert: {model: …, revision: …}}`",
    )
    samples: dict[Name, Samples] = Field(
        default_factory=dict, description="prompts with answers to train on, by name"
    )
    repair: Repair = Field(
        default_factory=list,
        description="damage to undo in all texts of the language. `zawgyi`: Burmese in the Zawgyi "
        "encoding; `quotes`: lines that are fields of CSV files, as FLORES-200 has in several "
        "languages; `mojibake`: UTF-8 that was read as another encoding (`schÃ¶n`). The report "
        "counts such lines anyway",
    )
    contamination: ContaminationConfig = Field(
        default_factory=ContaminationConfig,
        description="`tests` are texts that the training text is searched for, `drop` whether "
        "sentences with something of them are left out ([how](../docs/methods.md#texts))",
    )
    near_duplicates: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None,
        description="drops sentences of `text` that are as similar to an earlier one: of the "
        "five-letter sequences of either, the share that both have, such as 0.8. `null` compares "
        "none",
    )
    train_sentences: Whole | None = Field(
        30000,
        description="training sentences at most, drawn at random. `null` is all ([texts that are "
        "smaller](#small-texts))",
    )
    train_characters: Whole = optional(
        "characters of training text at most, drawn by sentences at random: the amount for large "
        "texts, where `train_sentences` is `null`. A token has 4 of English, about"
    )
    read_characters: Whole = optional(
        "characters of `text` that are read at most, of its files in random order; training text "
        "is drawn from these, and English from a hundred million of `english` at most. By default "
        "all is read, and of a data set of the hub all is fetched"
    )
    heldout_sentences: Whole = Field(
        1000, description="sentences for perplexity and bits per byte, at most"
    )
    heldout_from: Literal["anywhere", "end"] = optional(
        "where held-out sentences are drawn: from all of the text, which is the default, or from "
        "its last tenth (`end`), of which none is trained on"
    )
    english_sentences: Whole = Field(
        1000, description="sentences for the check of English, at most"
    )
    translation_pairs: Whole | None = Field(
        500, description="pairs for translation at most, kept out of training. `null` is all"
    )
    summarization_pairs: Whole | None = Field(
        None, description="articles with summaries at most, kept out of training. `null` is all"
    )
    minimum_characters: Whole = Field(10, description="shorter sentences are dropped")

    resources: LanguageResources = optional(
        "what time limits of jobs follow from ([more](../docs/status.md#the-cost-model)). It "
        "changes no result"
    )

    @model_validator(mode="after")
    def _is_a_language_or_a_group(self) -> "LanguageConfig":
        given = self.model_fields_set
        for key in ("code", "text"):
            if key not in given and "group" not in given:
                raise ValueError(f"'{key}' is missing")
        for key in sorted(given.difference(OF_GROUP)) if "group" in given else ():
            raise KeyedError(
                key, f"a group has {', '.join(OF_GROUP)} alone; set '{key}' for its members"
            )
        return self

    @field_validator("samples", mode="before")
    @classmethod
    def _names_are_free(cls, samples: Any) -> Any:
        if isinstance(samples, dict) and "monolingual" in samples:
            raise ValueError("'monolingual' is the corpus itself; take another name")
        return samples
