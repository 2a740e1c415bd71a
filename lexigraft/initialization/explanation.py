"""What a token is made of, as text for people."""

import unicodedata

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe import Recipe

_SHOWN = 12


def readable(piece: bytes) -> str:
    r"""Bytes as text; bytes that are no valid UTF-8 as `\xNN`, control characters escaped."""
    text = piece.decode("utf-8", errors="backslashreplace")
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter) == "Cc" else letter
        for letter in text
    )


def source_text(pieces: list[bytes], row: int) -> str:
    """Text of a source row; padding rows stand for no token."""
    return readable(pieces[row]) if row < len(pieces) else f"row {row}"


def parts_of(recipe: Recipe, token_id: int, pieces: list[bytes]) -> list[tuple[str, float]]:
    """Texts and weights of the source rows that a recipe takes for a token, heaviest first."""
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
            # A text that two ids stand for is more likely asked for as new.
            return max(found, key=lambda i: (pair.source_of[i] < 0, i))
    raise UserError(
        f"token '{token}': not in the target vocabulary; give a token's text or its string in "
        "tokenizer.get_vocab()"
    )


def described(text: str, parts: list[tuple[str, float]]) -> str:
    """E.g. `'తెలుగు' = 0.33 'త' + 0.33 'ెలు' + 0.33 'గు'`, the heaviest dozen of the parts."""
    if len(parts) > _SHOWN and len({weight for _, weight in parts}) == 1:
        return f"'{text}' = the mean of {len(parts):,} source tokens"
    shown = ""
    for part, weight in parts[:_SHOWN]:
        sign = ("- " if weight < 0 else "") if not shown else (" - " if weight < 0 else " + ")
        shown += f"{sign}{abs(weight):.2g} '{part}'"
    more = len(parts) - _SHOWN
    rest = f" + … ({more:,} more)" if more > 0 else ""
    return f"'{text}' = {shown}{rest}"
