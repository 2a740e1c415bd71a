"""Tokens that no text produces: they cost rows of the model and are never trained."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lexigraft.vocabulary.bpe import Bpe
from lexigraft.vocabulary.token_bytes import (
    is_fallback,
    pre_tokens,
    special_ids,
    spelling,
    token_bytes,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Bytes that never occur in UTF-8.
_NEVER = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
# An ASCII character is one byte, so its byte is needed only where the character is no token.
_ASCII = 0x80


def unreachable(tokenizer: "PreTrainedTokenizerFast") -> set[int]:
    """Ids of the tokens that no text produces.

    A token is unreachable if the model segments its own spelling into other tokens. (In BPE and
    Unigram, the segmentation of a string does not depend on its context as long as no merge or
    piece crosses its ends, and none does where the token is produced.) It is also unreachable if it
    contains bytes that never occur in UTF-8; if it is the byte fallback of a character that is a
    token; and, in byte-level BPE, if normalizer and pre-tokenizer change or split its text.

    Added tokens, including special ones, are matched literally and count as reachable, as do the
    pieces of WordPiece, each of which matches itself first.
    """
    written = spelling(tokenizer)
    if written == "wordpiece":
        return set()
    model = tokenizer.backend_tokenizer.model
    vocabulary = tokenizer.get_vocab()
    stands_for = token_bytes(tokenizer)
    literal = special_ids(tokenizer) | set(tokenizer.added_tokens_decoder)
    unreached = set()
    for token, number in vocabulary.items():
        data = stands_for[number]
        if number in literal:
            continue
        if is_fallback(token, written):
            reached = data[0] >= _ASCII or data.decode() not in vocabulary
        else:
            reached = [piece.id for piece in model.tokenize(token)] == [number]
        if reached and written == "byte-level":
            reached = _is_one_word(tokenizer, token, data)
        if not reached or not _NEVER.isdisjoint(data):
            unreached.add(number)
    return unreached


def unreachable_by_merges(bpe: Bpe, tokens: Iterable[str]) -> list[str]:
    """Tokens that the merges do not produce from their own spelling.

    `ignore_merges`, with which a word that is a token needs no merges, is disregarded: inside a
    longer word the token needs its merges all the same.
    """
    model = bpe.model(ignore_merges=False)
    return [token for token in tokens if [part.value for part in model.tokenize(token)] != [token]]


def _is_one_word(tokenizer: "PreTrainedTokenizerFast", token: str, data: bytes) -> bool:
    """Whether a token is within one of the words into which its text is split before BPE.

    Tokens of incomplete characters have no text of their own and count as such.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return any(token in word for word in pre_tokens(tokenizer, text))
