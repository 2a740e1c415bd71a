"""Trains a tokenizer that replaces the source's own."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError, unknown
from lexigraft.source.sentencepiece import parse_model, pipeline
from lexigraft.vocabulary.special_tokens import (
    ROLES,
    fast,
    joining,
    settings_of,
    surround,
    surrounding,
)
from lexigraft.vocabulary.token_bytes import special_ids
from lexigraft.vocabulary.train_byte_level import train_byte_level
from lexigraft.vocabulary.train_sentencepiece import train_sentencepiece

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

FAMILIES = ("sentencepiece-bpe", "sentencepiece-unigram", "byte-level-bpe")
_UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Trained:
    """A tokenizer, and for SentencePiece the bytes of its `tokenizer.model`."""

    tokenizer: "PreTrainedTokenizerFast"
    model: bytes | None


def train_tokenizer(
    corpus: Iterable[str],
    family: str,
    size: int = 50_000,
    source_tokenizer: "PreTrainedTokenizerFast | None" = None,
) -> "PreTrainedTokenizerFast":
    """Train a tokenizer of exactly `size` tokens on the corpus, to take a model's over.

    Paper 001 (§4.2), for example, trains SentencePiece tokenizers of 50,000 tokens.

    Parameters
    ----------
    corpus
        Texts in the target language or languages, for example sentences. Read once.
    family
        `sentencepiece-bpe` (as of Llama 2, Mistral and Gemma), `sentencepiece-unigram`, both with
        bytes to fall back to, or `byte-level-bpe` (as of GPT-2, Llama 3 and Qwen).
    size
        Special tokens and bytes included.
    source_tokenizer
        Tokenizer of the model that the new one is for: its special tokens with their roles, its
        chat template, and what it puts around a text or a pair of texts are kept. Without it there
        are `<unk>`, `<s>` and `</s>` or, byte-level, `<|endoftext|>`, and texts get nothing.

    Returns
    -------
    PreTrainedTokenizerFast
        Every text comes back as it was, and none holds an unknown token. The same texts give the
        same tokenizer.

    Raises
    ------
    UserError
        An unknown family, an empty corpus, or a size that the corpus cannot fill or that leaves no
        room for its characters.

    Examples
    --------
    >>> tokenizer = train_tokenizer(open("train.txt"), "sentencepiece-bpe")  # doctest: +SKIP
    >>> len(tokenizer)  # doctest: +SKIP
    50000
    """
    return train_family(corpus, family, size, source_tokenizer).tokenizer


def train_family(
    corpus: Iterable[str],
    family: str,
    size: int,
    source_tokenizer: "PreTrainedTokenizerFast | None" = None,
) -> Trained:
    """As `train_tokenizer`, with the `tokenizer.model` of a SentencePiece tokenizer."""
    if family not in FAMILIES:
        raise unknown("family", family, FAMILIES)
    if isinstance(corpus, str):
        raise UserError("corpus is one string; give an iterable of texts, for example its lines")
    if not isinstance(size, int) or size < 1:
        raise UserError(f"size: {size!r} is not a number of tokens (1, 2, 3 …)")
    byte_level = family == "byte-level-bpe"
    settings = _settings(source_tokenizer, byte_level)
    special = _special_tokens(source_tokenizer, settings)
    model: bytes | None = None
    # A byte order mark or a stray line end is not part of any sentence.
    texts = (text.strip("\r\n\ufeff") for text in corpus)
    if byte_level:
        backend = train_byte_level(texts, size, special)
    else:
        settings["unk_token"] = _unknown_piece(settings)
        others = [token for token in special if token != settings["unk_token"]]
        kind = family.removeprefix("sentencepiece-")
        model = train_sentencepiece(texts, kind, size, settings["unk_token"], others, settings)
        backend = pipeline(parse_model(model, "the model trained"))
    if source_tokenizer is not None:
        around, joint = surrounding(source_tokenizer), joining(source_tokenizer)
        surround(backend, *around, byte_level, joint)
    return Trained(fast(backend, settings), model)


def _settings(source: "PreTrainedTokenizerFast | None", byte_level: bool) -> dict[str, Any]:
    """Roles of special tokens, and what else a tokenizer holds beside its pipeline."""
    if source is not None:
        settings = {**settings_of(source), "clean_up_tokenization_spaces": False}
        return {key: str(value) if key in ROLES else value for key, value in settings.items()}
    if byte_level:
        return {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    return {"bos_token": "<s>", "eos_token": "</s>"}


def _special_tokens(
    source: "PreTrainedTokenizerFast | None", settings: dict[str, Any]
) -> list[str]:
    """Every special token of the source in the order of its ids, or those that have a role."""
    if source is None:
        return list(dict.fromkeys(settings.values()))
    return list(source.convert_ids_to_tokens(sorted(special_ids(source))))


def _unknown_piece(settings: dict[str, Any]) -> str:
    """The piece for unknown characters: the source's, unless that has another role too.

    GPT-2's unknown token is its end-of-text token; a piece can only be one of the two.
    """
    own = settings.get("unk_token", _UNKNOWN)
    others = [value for role, value in settings.items() if role != "unk_token"]
    return _UNKNOWN if own in others else own
