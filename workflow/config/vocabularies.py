"""Vocabularies: how the source's tokenizer is modified or replaced."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lexigraft.corpus.mixture import TextAmount, text_amount_field
from lexigraft.setting_types import Name, Revision, Whole, Words
from lexigraft.settings import KeyedError, Settings, default, one_of, optional, required
from workflow.config.sources import Place


def _prune_english() -> Any:
    return optional(
        "`false` also removes tokens that only the corpus's English sentences use; by default they "
        "are kept"
    )


class VocabularyConfig(Settings):
    """How the tokenizer of a source is modified or replaced."""

    mode: str

    @property
    def tokens_of_language(self) -> int | None:
        """The number of tokens made for the language; None if it is not a setting."""
        return None


class Expansion(VocabularyConfig):
    """The source's tokens are kept, new ones are added."""

    mode: Literal["expand"] = required("the source's tokens are kept, new ones are added")
    new_tokens: Whole = required("how many tokens are added, exactly")
    text: TextAmount = text_amount_field("the tokens are learned from")
    merges: Literal["continued", "append", "auxiliary-first"] = default(
        "continued",
        "`continued` learns further merges after those of the source; `append` adds merges of an "
        "auxiliary tokenizer after them, `auxiliary-first` before ([methods](../docs/methods.md))",
    )
    auxiliary_size: Whole = default(50000, "size of that auxiliary tokenizer, in tokens")
    auxiliary_trainer: Literal["tokenizers", "sentencepiece"] = default(
        "tokenizers", "library that trains it; `sentencepiece` for SentencePiece sources only"
    )
    tokenizers_for: dict[Name, list[Name]] = optional(
        "source -> languages for which `tokenizers` trains it in spite of `auxiliary_trainer`"
    )
    protect_latin: bool = optional(
        "`true` refuses tokens that may occur in Latin script (Latin letters, punctuation, "
        "symbols) for a corpus in another script, so that English keeps its tokens; `false` adds "
        "them. By default `true`, with `merges: auxiliary-first` `false`"
    )
    across_words: bool = optional(
        "`true` lets a token span words that the source's pre-tokenizer does not separate, as in "
        "the published code; Llama 2's separates none"
    )
    marks: Literal["auto", "joined", "apart"] = default(
        "auto",
        "`apart` lets the source's pre-tokenizer separate letters from their combining marks, as "
        "those of GPT-2, Llama 3 and Qwen do; `joined` keeps them together; `auto` does so for "
        "text in a script with marks ([methods](../docs/methods.md#combining-marks))",
    )
    english_change: Annotated[float, Field(ge=0, le=1)] | None = default(
        None,
        "largest share of the corpus's English sentences that new merges may tokenize differently, "
        "for languages in Latin script, with `merges: continued`. `null`: no limit",
    )
    corpus: Name = optional("a language or group whose text is read. By default that of the cell")
    ascii: bool = optional(
        "`false` adds no token with an ASCII character, as CW2V's code: words in Latin script are "
        "then tokenized almost as before"
    )
    prune: Literal["never-used"] = optional(
        "removes tokens of the source that the text never uses and that no other token is built "
        "from, so that the matrix does not grow ([new tokens](../docs/vocabulary.md#pruning))"
    )
    prune_at_most: Whole | None = optional(
        "most tokens to remove, last learned first. By default as many as are added; `null`: all"
    )
    prune_english: bool = _prune_english()

    @property
    def tokens_of_language(self) -> int:
        """The new tokens."""
        return self.new_tokens

    @model_validator(mode="after")
    def _keys_fit(self) -> "Expansion":
        if self.english_change is not None and self.merges != "continued":
            raise KeyedError("english_change", f"needs merges: continued, not {self.merges}")
        if self.auxiliary_trainer != "tokenizers" and self.merges == "continued":
            raise KeyedError(
                "auxiliary_trainer", "merges: continued trains no auxiliary tokenizer; remove it"
            )
        if self.tokenizers_for and self.auxiliary_trainer == "tokenizers":
            raise KeyedError("tokenizers_for", "needs auxiliary_trainer: sentencepiece")
        for key in sorted({"prune_at_most", "prune_english"} & self.model_fields_set):
            if self.prune is None:
                raise KeyedError(key, "needs prune: never-used, which is not set")
        return self


class Pruning(VocabularyConfig):
    """The source's tokens are kept, except those that the text never uses."""

    mode: Literal["prune"] = required("unused tokens of the source are removed")
    prune: Literal["never-used"] = default(
        "never-used",
        "tokens that the text never uses and that no other token is built from ([new "
        "tokens](../docs/vocabulary.md#pruning))",
    )
    prune_at_most: Whole = optional("most tokens to remove, the last learned first. By default all")
    prune_english: bool = _prune_english()
    text: TextAmount = text_amount_field("is searched for tokens")
    corpus: Name = optional("a language or group whose text is read. By default that of the cell")


class TrainedReplacement(VocabularyConfig):
    """A tokenizer that is trained on the corpus replaces the source's."""

    mode: Literal["replace"] = required("another tokenizer replaces the source's")
    family: Literal["sentencepiece-bpe", "sentencepiece-unigram", "byte-level-bpe"] = required(
        "type of tokenizer that is trained"
    )
    size: Whole = required("how many tokens it has, exactly")
    text: TextAmount = text_amount_field("the tokenizer is trained on")
    superwords: Annotated[float, Field(ge=0, lt=1)] = default(
        0.0,
        "share of the tokens that may span several words, learned last (SuperBPE: "
        "0.1). Only with `byte-level-bpe`",
    )

    @property
    def tokens_of_language(self) -> int:
        """All tokens."""
        return self.size

    @model_validator(mode="after")
    def _can_span_words(self) -> "TrainedReplacement":
        if self.superwords and self.family != "byte-level-bpe":
            raise KeyedError("superwords", f"needs family: byte-level-bpe, not {self.family}")
        return self


class TakenReplacement(VocabularyConfig):
    """The tokenizer of another model replaces the source's."""

    mode: Literal["replace"] = required("another tokenizer replaces the source's")
    tokenizer: Place = required("a hub name, or a folder that begins with `/`, `.` or `~`")
    revision: Revision | None = optional("a commit, tag or branch on the hub")


class ModelReplacement(VocabularyConfig):
    """The tokenizer of a model of the target language replaces the source's."""

    mode: Literal["replace"] = required("another tokenizer replaces the source's")
    plm: Words = required("tokenizer of a model of the language: a name in its `plms`")


TAKEN = TakenReplacement | ModelReplacement  # the tokenizer of another model


def _choose(value: Mapping[str, Any]) -> type[VocabularyConfig]:
    mode = value.get("mode")
    if mode in ("expand", "prune"):
        return Expansion if mode == "expand" else Pruning
    models: dict[str, type[VocabularyConfig]] = {
        "family": TrainedReplacement,
        "size": TrainedReplacement,
        "tokenizer": TakenReplacement,
        "plm": ModelReplacement,
    }
    for key, model in models.items() if mode == "replace" else ():
        if key in value:
            return model
    raise ValueError(
        "needs mode: expand with new_tokens; or mode: prune; or mode: replace with family and "
        "size, with tokenizer, or with plm"
    )


Vocabulary = Annotated[
    VocabularyConfig,
    one_of([Expansion, Pruning, TrainedReplacement, TakenReplacement, ModelReplacement], _choose),
]
