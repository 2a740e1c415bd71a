"""Tokens that no text can be cut into: they cost rows of the model and are never trained."""

from typing import TYPE_CHECKING

from lexigraft.vocabulary.token_bytes import (
    is_fallback,
    special_ids,
    spelling,
    token_bytes,
    words,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Bytes that no UTF-8 text holds.
_NEVER = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
# An ASCII character is one byte, so its byte is needed only where the character is no token.
_ASCII = 0x80


def unreachable(tokenizer: "PreTrainedTokenizerFast") -> set[int]:
    """Ids of the tokens that no text is cut into.

    A token is unreachable if the model cuts its own spelling into other tokens: what a word is cut
    into does not depend on its neighbours in BPE and Unigram, as long as no merge and no piece
    crosses its ends, and none does where the token itself comes out. Also if it holds bytes that
    are never in UTF-8; if it is the fallback of a character that is a token; and in byte-level BPE,
    if normalizer and pre-tokenizer change its text or cut it.

    Tokens that are added to the model, special ones included, are found by their literal text and
    count as reachable, as do the pieces of WordPiece, each of which matches itself first.
    """
    written = spelling(tokenizer)
    if written == "wordpiece":
        return set()
    model = tokenizer.backend_tokenizer.model
    vocabulary = tokenizer.get_vocab()
    stands_for = token_bytes(tokenizer)
    literal = special_ids(tokenizer) | set(tokenizer.added_tokens_decoder)
    found = set()
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
            found.add(number)
    return found


def _is_one_word(tokenizer: "PreTrainedTokenizerFast", token: str, data: bytes) -> bool:
    """Whether a token stands in one of the words that its text is cut into before BPE.

    A token of cut characters has no text of its own and is taken to be in one.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return any(token in word for word in words(tokenizer, text))
