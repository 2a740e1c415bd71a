"""Explanations of tokens' rows and statistics of recipes, for users and reports."""

import math
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from lexigraft.errors import UserError
from lexigraft.initialization.matrix import Matrix, in_hull, mean_norm, row_mean
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair

_MAX_PARTS = 12
_EXAMPLES = 12
_HULL_SAMPLE = 100  # rows
_SUM_TOLERANCE = 1e-6
_ROW_STATISTICS = (
    *("share_recipe", "share_copy", "share_fallback", "mean_nonzeros", "mean_entropy"),
    *("share_in_hull", "largest_hub", "largest_hub_token"),
)


def readable(piece: bytes) -> str:
    r"""Decode bytes to text, with invalid UTF-8 as `\xNN` and control characters escaped."""
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
    """Id of a target token by its vocabulary string or text, with or without its leading space."""
    vocabulary = pair.target_tokenizer.get_vocab()
    if token in vocabulary:
        return vocabulary[token]
    ids = set(vocabulary.values())
    for text in (token, f" {token}"):
        data = text.encode()
        token_ids = [i for i, piece in enumerate(pair.target_bytes) if piece == data and i in ids]
        if token_ids:
            # If two tokens have the same text, the user more likely means the new one.
            return max(token_ids, key=lambda i: (pair.source_of[i] < 0, i))
    raise UserError(f"token '{token}': not in the target vocabulary; see tokenizer.get_vocab()")


def describe(text: str, parts: list[tuple[str, float]]) -> str:
    """A line such as `'తెలుగు' = 0.33 'త' + 0.33 'ెలు' + 0.33 'గు'`, with the 12 largest weights."""
    if len(parts) > _MAX_PARTS and len({weight for _, weight in parts}) == 1:
        return f"'{text}' = the mean of {len(parts):,} source tokens"
    formula = ""
    for part, weight in parts[:_MAX_PARTS]:
        sign = ("- " if weight < 0 else "") if not formula else (" - " if weight < 0 else " + ")
        formula += f"{sign}{abs(weight):.2g} '{part}'"
    more = len(parts) - _MAX_PARTS
    remainder = f" + … ({more:,} more)" if more > 0 else ""
    return f"'{text}' = {formula}{remainder}"


def example_tokens(
    pair: VocabularyPair, parts_of_token: Callable[[int], list[tuple[str, float]]]
) -> list[dict[str, Any]]:
    """Up to 12 new tokens and their parts, half sampled evenly by frequency, half by length.

    Keys: `token` (vocabulary string), `text`, `parts` (text and weight of the 12 source tokens with
    the largest weights; empty if the row has no recipe), `more` (number of further parts).
    """
    return [
        {
            "token": pair.target_tokenizer.convert_ids_to_tokens(token_id),
            "text": readable(pair.target_bytes[token_id]),
            "parts": [list(part) for part in parts[:_MAX_PARTS]],
            "more": max(0, len(parts) - _MAX_PARTS),
        }
        for token_id, parts in ((i, parts_of_token(i)) for i in example_ids(pair))
    ]


def example_ids(pair: VocabularyPair) -> list[int]:
    """Ids of the new tokens of `example_tokens`, ascending."""
    by_rank = [i for i in pair.new_ids.tolist() if i not in pair.target_special_ids]
    by_length = sorted(by_rank, key=lambda i: (len(pair.target_bytes[i]), i))
    return sorted({*_spread(by_rank, _EXAMPLES // 2), *_spread(by_length, _EXAMPLES // 2)})


def _spread(ids: list[int], count: int) -> list[int]:
    """`count` evenly spaced ids, including the first and the last."""
    if len(ids) <= count:
        return ids
    return [ids[round(i * (len(ids) - 1) / (count - 1))] for i in range(count)]


def recipe_statistics(
    recipe: Recipe, fallback_ids: np.ndarray, source_bytes: list[bytes]
) -> dict[str, Any]:
    """Statistics of how the new rows of a recipe depend on the source rows.

    `fallback_ids` are the new tokens that got the method's fallback. Keys: new_tokens;
    share_recipe, share_copy (an exact copy of one source row) and share_fallback, which sum to one;
    mean_nonzeros, the number of source rows in a recipe; mean_entropy, in nats, of the weights'
    magnitudes; share_in_hull (rows non-negative and summing to one: CW2V, section 3.3; None if rows
    are projected, scaled or drawn); largest_hub (number of new tokens that use the most used source
    token) and largest_hub_token, its text. All but the first are None if there are no new tokens.
    """
    new_tokens = len(recipe.new_ids)
    if not new_tokens:
        return {"new_tokens": 0, **dict.fromkeys(_ROW_STATISTICS)}
    ids, n_tokens = _distinct_rows(recipe)
    nonzeros, entropy = np.zeros(len(ids)), np.zeros(len(ids))
    in_hull = np.zeros(len(ids), dtype=bool)
    uses_of_source = np.zeros(recipe.n_source, dtype=np.int64)
    for block in recipe.row_blocks(ids):
        rows = recipe.rows(ids[block])
        rows.eliminate_zeros()
        n_rows = rows.shape[0]
        row_of_weight = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
        nonzeros[block] = np.diff(rows.indptr)
        magnitude = np.abs(rows.data)
        shares = magnitude / np.bincount(row_of_weight, magnitude, minlength=n_rows)[row_of_weight]
        # Non-negative by definition, but a row with one weight gives minus zero.
        entropy[block] = np.maximum(
            0, -np.bincount(row_of_weight, shares * np.log(shares), minlength=n_rows)
        )
        negatives = np.bincount(row_of_weight[rows.data < 0], minlength=n_rows)
        total = np.bincount(row_of_weight, rows.data, minlength=n_rows)
        in_hull[block] = (negatives == 0) & (np.abs(total - 1) < _SUM_TOLERANCE)
        block_uses = np.bincount(
            rows.indices, n_tokens[block][row_of_weight], minlength=recipe.n_source
        )
        uses_of_source += block_uses.astype(np.int64)
    covered_ids = np.setdiff1d(recipe.new_ids, fallback_ids)
    copies = int((recipe.copied[covered_ids] >= 0).sum())
    return {
        "new_tokens": new_tokens,
        "share_recipe": (len(covered_ids) - copies) / new_tokens,
        "share_copy": copies / new_tokens,
        "share_fallback": (new_tokens - len(covered_ids)) / new_tokens,
        "mean_nonzeros": float(nonzeros @ n_tokens / new_tokens),
        "mean_entropy": float(entropy @ n_tokens / new_tokens),
        # Weights alone do not determine where a projected, scaled or drawn row lies.
        "share_in_hull": float(in_hull @ n_tokens / new_tokens) if recipe.is_linear else None,
        "largest_hub": int(uses_of_source.max()),
        "largest_hub_token": source_text(source_bytes, int(uses_of_source.argmax())),
    }


def row_geometry(
    initialization: Recipe | RecipePair | DenseRows,
    matrix: Matrix,
    source_ids: np.ndarray,
    which: str = "input",
) -> dict[str, float | None]:
    """Direction and length of the new rows, relative to the source tokens' rows.

    `cosine_to_mean` is the mean cosine between the new rows and the mean source row;
    `relative_norm` the mean length of the new rows divided by that of the source rows. If the rows
    are not determined by weights, `share_in_hull` is the share of a sample that lies in the convex
    hull of the source rows (CW2V, appendix F). None where undefined or not decided. `matrix`
    [n_source, h] is the source's `which` matrix, `source_ids` its rows without padding.
    """
    mean = row_mean(matrix, source_ids)
    n_new = len(initialization.new_ids)
    products, squares = np.zeros(n_new), np.zeros(n_new)
    sample = np.unique(np.linspace(0, n_new - 1, min(n_new, _HULL_SAMPLE)).astype(np.int64))
    sampled_rows = np.zeros((len(sample), matrix.shape[1]))
    for columns, values in initialization.new_rows(matrix, which):
        sampled_rows[:, columns] = values[sample]
        products += values @ mean[columns].astype(values.dtype)
        squares += np.einsum("ij,ij->i", values, values)
    geometry: dict[str, float | None] = {"cosine_to_mean": None, "relative_norm": None}
    if not n_new:
        return geometry
    norms, length = np.sqrt(squares), np.linalg.norm(mean)
    if length and norms.all():
        geometry["cosine_to_mean"] = float((products / (norms * length)).mean())
    if source_norm := mean_norm(matrix, source_ids):
        geometry["relative_norm"] = float(norms.mean() / source_norm)
    if isinstance(initialization, DenseRows) or not initialization.recipe(which).is_linear:
        share = float(in_hull(matrix, source_ids, sampled_rows).mean())
        geometry["share_in_hull"] = None if math.isnan(share) else share
    return geometry


def _distinct_rows(recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """One new token for each distinct row, and how many have it: thousands may have the mean."""
    left = recipe.left[recipe.new_ids]
    index_of_row: dict[tuple[bytes, bytes], int] = {}
    counts: dict[int, int] = {}
    for i, (start, end) in enumerate(pairwise(left.indptr.tolist())):
        key = (left.indices[start:end].tobytes(), left.data[start:end].tobytes())
        index = index_of_row.setdefault(key, i)
        counts[index] = counts.get(index, 0) + 1
    return recipe.new_ids[list(counts)], np.array(list(counts.values()), dtype=np.int64)
