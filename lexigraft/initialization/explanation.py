"""Explanations of token rows for readers: a line of text for a token, and examples for reports."""

import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe import Recipe
from lexigraft.vocabulary.token_bytes import special_ids

_MAX_PARTS = 12
_EXAMPLES = 12


def readable(piece: bytes) -> str:
    r"""Bytes as text; bytes that are no valid UTF-8 as `\xNN`, control characters escaped."""
    text = piece.decode("utf-8", errors="backslashreplace")
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter) == "Cc" else letter
        for letter in text
    )


def source_text(pieces: list[bytes], row: int) -> str:
    """Text of a source row, or its number for a padding row."""
    return readable(pieces[row]) if row < len(pieces) else f"row {row}"


def parts_of(recipe: Recipe, token_id: int, pieces: list[bytes]) -> list[tuple[str, float]]:
    """Texts and weights of the source rows of a token's recipe, largest magnitude first."""
    row = recipe.rows(np.array([token_id]))
    return [
        (source_text(pieces, int(row.indices[i])), float(row.data[i]))
        for i in np.argsort(-np.abs(row.data), kind="stable")
    ]


def token_id_of(pair: VocabularyPair, token: str) -> int:
    """Id of a target token by its vocabulary string or text, with or without its leading space.

    Raises
    ------
    UserError
        The target vocabulary has no such token.
    """
    vocabulary = pair.target_tokenizer.get_vocab()
    if token in vocabulary:
        return vocabulary[token]
    ids = set(vocabulary.values())
    for text in (token, f" {token}"):
        wanted = text.encode()
        found = [i for i, piece in enumerate(pair.target_bytes) if piece == wanted and i in ids]
        if found:
            # Of two tokens with the same text a user more likely means the new one.
            return max(found, key=lambda i: (pair.source_of[i] < 0, i))
    raise UserError(
        f"token '{token}': not in the target vocabulary; give a token's text or its string in "
        "tokenizer.get_vocab()"
    )


def describe(text: str, parts: list[tuple[str, float]]) -> str:
    """A line such as `'తెలుగు' = 0.33 'త' + 0.33 'ెలు' + 0.33 'గు'`, with the 12 largest weights."""
    if len(parts) > _MAX_PARTS and len({weight for _, weight in parts}) == 1:
        return f"'{text}' = the mean of {len(parts):,} source tokens"
    shown = ""
    for part, weight in parts[:_MAX_PARTS]:
        sign = ("- " if weight < 0 else "") if not shown else (" - " if weight < 0 else " + ")
        shown += f"{sign}{abs(weight):.2g} '{part}'"
    more = len(parts) - _MAX_PARTS
    rest = f" + … ({more:,} more)" if more > 0 else ""
    return f"'{text}' = {shown}{rest}"


def example_tokens(
    pair: VocabularyPair, parts_of_token: Callable[[int], list[tuple[str, float]]]
) -> list[dict[str, Any]]:
    """Up to 12 new tokens and their parts, half of them spread over frequency, half over length.

    Ids of new tokens are in the order in which the vocabulary was built, most frequent first.
    Special tokens, which stand for no text, are left out.

    Returns
    -------
    list of dict
        `token` (vocabulary string), `text`, `parts` (text and weight of the 12 source tokens with
        the largest weights; empty where the row is random), `more` (number of further parts).
    """
    special = special_ids(pair.target_tokenizer)
    by_rank = [token_id for token_id in pair.new_ids.tolist() if token_id not in special]
    by_length = sorted(by_rank, key=lambda i: (len(pair.target_bytes[i]), i))
    chosen = dict.fromkeys(_spread(by_rank, _EXAMPLES // 2) + _spread(by_length, _EXAMPLES // 2))
    shown = []
    for token_id in sorted(chosen):
        parts = parts_of_token(token_id)
        shown.append(
            {
                "token": pair.target_tokenizer.convert_ids_to_tokens(token_id),
                "text": readable(pair.target_bytes[token_id]),
                "parts": [list(part) for part in parts[:_MAX_PARTS]],
                "more": max(0, len(parts) - _MAX_PARTS),
            }
        )
    return shown


def _spread(ids: list[int], count: int) -> list[int]:
    """`count` of the ids at even distances, with the first and the last."""
    if len(ids) <= count:
        return ids
    return [ids[round(i * (len(ids) - 1) / (count - 1))] for i in range(count)]
