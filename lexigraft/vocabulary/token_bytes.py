"""Tokens as bytes, the common representation of all families, and tokens that no text produces."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from tokenizers import PreTokenizedString, Tokenizer
from tokenizers.models import BPE, WordLevel
from transformers import PreTrainedTokenizerFast

from lexigraft.source.encoding import tokenizer_faults
from lexigraft.source.tokenizer import is_byte_level

_OTHER = "\0other"
_FALLBACK = re.compile("<0x[0-9A-F]{2}>")
# Bytes that never occur in UTF-8.
_NEVER = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
# An ASCII character is one byte, so its byte is needed only if the character is not a token.
_ASCII = 0x80


def token_bytes(
    tokenizer: PreTrainedTokenizerFast, vocab: Mapping[str, int] | None = None
) -> list[bytes]:
    """Bytes of every token of a byte-level BPE, byte-fallback BPE, Unigram or WordPiece tokenizer.

    There is one entry per id, up to the largest. The alphabet of byte-level BPE is decoded, "▁" is
    a space, <0xNN> is that byte, "##" is removed. A WordPiece token at the beginning of a word
    begins with a space, unless the pre-tokenizer always separates it from a preceding letter. Added
    tokens are their literal UTF-8. `vocab` is `tokenizer.get_vocab()`, for callers that have it.
    """
    token_spelling = spelling(tokenizer)
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    vocab = tokenizer.get_vocab() if vocab is None else vocab
    bytes_of_ids = [b""] * (max(vocab.values()) + 1)
    for token, token_id in vocab.items():
        data = token.encode() if token in added else piece_bytes(token, token_spelling)
        begins_word = (
            token_spelling == "wordpiece" and token not in added and not token.startswith("##")
        )
        if begins_word and pre_tokens(tokenizer.backend_tokenizer, f"a{token}")[:1] != ["a"]:
            data = b" " + data
        bytes_of_ids[token_id] = data
    return bytes_of_ids


def pre_tokens(backend: Tokenizer, text: str) -> list[str]:
    """Split a text with the normalizer and pre-tokenizer of a pipeline."""
    with tokenizer_faults():
        if backend.normalizer is not None:
            text = backend.normalizer.normalize_str(text)
        if backend.pre_tokenizer is None:
            return [text]
        # `pre_tokenize_str` also counts the characters before each word, which takes a third
        # longer.
        split = PreTokenizedString(text)
        backend.pre_tokenizer.pre_tokenize(split)
    return [part[0] for part in split.get_splits("normalized", "byte")]


class WordSplitter:
    """Splits texts into the words that the model of a pipeline gets, without added tokens."""

    def __init__(self, backend: Tokenizer) -> None:
        self.backend = backend
        added = [
            token
            for token in backend.get_added_tokens_decoder().values()
            if not _FALLBACK.fullmatch(token.content)
        ]
        # Finds texts with an added token: all other text has id 0.
        self._finder = _pipeline(backend, WordLevel({_OTHER: 0}, unk_token=_OTHER), added)
        self._finder.pre_tokenizer = None
        # Every other text is spelled in bytes, the first 256 ids.
        spelled = {f"<0x{byte:02X}>": byte for byte in range(256)}
        self._speller = _pipeline(backend, BPE(spelled, [], byte_fallback=True), added)

    def __call__(self, text: str) -> list[str]:
        """The words of a text, after normalization, in the spelling of the model's tokens."""
        if max(self._finder.encode(text).ids, default=0) == 0:
            return pre_tokens(self.backend, text)
        with tokenizer_faults():
            spelled = self._speller.encode(text)
        words: dict[int, bytearray] = {}
        for word, byte in zip(spelled.word_ids, spelled.ids, strict=True):
            if byte < 256 and word is not None:
                words.setdefault(word, bytearray()).append(byte)
        return [word.decode() for word in words.values()]


def _pipeline(backend: Tokenizer, model: Any, added: Sequence[Any]) -> Any:
    """A copy of a pipeline with another model, and these added tokens."""
    copy: Any = Tokenizer(model)
    for part in ("normalizer", "pre_tokenizer"):
        if getattr(backend, part) is not None:
            setattr(copy, part, getattr(backend, part))
    copy.add_tokens(added)
    return copy


def lost_text(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> float:
    """The share of a text, in bytes, that no token, or only the unknown token, represents.

    What normalizer and pre-tokenizer change or remove is not counted.
    """
    backend, token_spelling = tokenizer.backend_tokenizer, spelling(tokenizer)
    special, split = special_ids(tokenizer), WordSplitter(backend)
    words = Counter(word for text in texts for word in split(text))
    total = represented = 0
    for word, count in words.items():
        with tokenizer_faults():
            pieces = [piece for piece in backend.model.tokenize(word) if piece.id not in special]
        size = len(piece_bytes(word, token_spelling))
        total += count * size
        # A piece may be spelled with the suffix of a word's last piece.
        represented += count * min(
            size, sum(len(piece_bytes(piece.value, token_spelling)) for piece in pieces)
        )
    return 1 - represented / total if total else 0.0


def added_words(tokenizer: PreTrainedTokenizerFast) -> frozenset[bytes]:
    """The added tokens of a tokenizer that are cut out of texts even inside words, as bytes."""
    added = tokenizer.added_tokens_decoder.values()
    return frozenset(token.content.encode() for token in added if not token.single_word)


def contains_any(data: bytes, words: Collection[bytes]) -> bool:
    """Whether the bytes of a token contain one of these words; fast if there are many of them."""
    ends = range(1, len(data) + 1)
    return any(data[start:end] in words for end in ends for start in range(end))


def spelling(tokenizer: PreTrainedTokenizerFast) -> str:
    """The spelling of a tokenizer's tokens: "byte-level", "sentencepiece" or "wordpiece"."""
    backend = tokenizer.backend_tokenizer
    # Serializing all of tokenizer.json would take seconds for large vocabularies.
    parts = {"pre_tokenizer": backend.pre_tokenizer, "decoder": backend.decoder}
    if is_byte_level(
        {name: part and json.loads(part.__getstate__()) for name, part in parts.items()}
    ):
        return "byte-level"
    return "wordpiece" if type(backend.model).__name__ == "WordPiece" else "sentencepiece"


def piece_bytes(token: str, token_spelling: str) -> bytes:
    """Bytes of one token in a `spelling`; of "wordpiece" without the space that begins a word."""
    if token_spelling == "byte-level":
        if _BYTE_LEVEL.fullmatch(token):
            return token.translate(_LATIN_1).encode("latin-1")
        return token.encode()
    if token_spelling == "wordpiece":
        return token.removeprefix("##").encode()
    if is_fallback(token, token_spelling):
        return bytes([int(token[3:5], 16)])
    return token.replace("▁", " ").encode()


def is_fallback(token: str, token_spelling: str) -> bool:
    """Whether a token is a byte of SentencePiece's byte fallback, `<0xNN>`."""
    # Most tokens need no regular expression.
    fallback = token_spelling == "sentencepiece" and token.startswith("<0x")
    return fallback and _FALLBACK.fullmatch(token) is not None


def special_ids(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Ids of the special tokens: those with a role and all added tokens marked as special."""
    marked = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    return marked | set(tokenizer.all_special_ids)


def vocabulary_size(tokenizer: PreTrainedTokenizerFast) -> int:
    """The largest token id plus one; `len(tokenizer)` is smaller if ids have gaps."""
    return max(tokenizer.get_vocab().values()) + 1


def unreachable(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Ids of the tokens that no text produces: they use rows of the model and are never trained.

    The model segments the spelling of such a token into other tokens; or it contains bytes that
    never occur in UTF-8, or an added token; or it is the byte fallback of a character that is a
    token; or, in byte-level BPE, normalizer and pre-tokenizer change or split its text. Added
    tokens and the pieces of WordPiece count as reachable.
    """
    token_spelling = spelling(tokenizer)
    if token_spelling == "wordpiece":
        return set()
    backend, vocabulary = tokenizer.backend_tokenizer, tokenizer.get_vocab()
    model = backend.model
    bytes_of_ids = token_bytes(tokenizer, vocabulary)
    literal_ids = special_ids(tokenizer) | set(tokenizer.added_tokens_decoder)
    added = added_words(tokenizer)
    unreached_ids = set()
    for token, token_id in vocabulary.items():
        data = bytes_of_ids[token_id]
        if token_id in literal_ids:
            continue
        if is_fallback(token, token_spelling):
            is_reached = data[0] >= _ASCII or data.decode() not in vocabulary
        else:
            is_reached = [piece.id for piece in model.tokenize(token)] == [token_id]
        if is_reached and token_spelling == "byte-level":
            # Tokens of incomplete characters have no text that could be changed or split.
            with suppress(UnicodeDecodeError):
                is_reached = any(
                    token in word for word in pre_tokens(backend, data.decode("utf-8"))
                )
        if not is_reached or not _NEVER.isdisjoint(data) or contains_any(data, added):
            unreached_ids.add(token_id)
    return unreached_ids


def unreachable_by_merges(tokenizer: PreTrainedTokenizerFast, tokens: Iterable[str]) -> list[str]:
    """New tokens of a BPE tokenizer that its merges do not produce, or that contain an added token.

    `ignore_merges` is disregarded: inside a longer word the token still needs its merges.
    """
    model, token_spelling = tokenizer.backend_tokenizer.model, spelling(tokenizer)
    added = added_words(tokenizer)
    ignore_merges, model.ignore_merges = model.ignore_merges, False
    try:
        return [
            token
            for token in tokens
            if not is_fallback(token, token_spelling)
            and (
                [part.value for part in model.tokenize(token)] != [token]
                or contains_any(piece_bytes(token, token_spelling), added)
            )
        ]
    finally:
        model.ignore_merges = ignore_merges


@cache
def byte_alphabet() -> dict[str, int]:
    """Map each letter of byte-level BPE to its byte: printable Latin-1 to itself, the rest from
    U+0100.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    letters.update((chr(256 + index), byte) for index, byte in enumerate(others))
    return letters


# Used for each token of a vocabulary: faster than looking up each letter.
_BYTE_LEVEL = re.compile(f"[{re.escape(''.join(byte_alphabet()))}]*")
_LATIN_1 = {ord(letter): byte for letter, byte in byte_alphabet().items()}
