"""Statistics of recipes: how new rows depend on source rows, and their cosine to the mean row."""

from itertools import pairwise
from typing import Any

import numpy as np

from lexigraft.initialization.dense_rows import DenseRows
from lexigraft.initialization.explanation import source_text
from lexigraft.initialization.linear_algebra import row_mean
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.recipe import Recipe
from lexigraft.initialization.recipe_pair import RecipePair

_SUM_TOLERANCE = 1e-6
_OF_ROWS = (
    "share_recipe", "share_copy", "share_fallback", "mean_nonzeros", "mean_entropy",
    "share_in_hull", "largest_hub", "largest_hub_token",
)  # fmt: skip


def recipe_statistics(
    recipe: Recipe, fallback_ids: np.ndarray, source_bytes: list[bytes]
) -> dict[str, Any]:
    """Statistics of how the new rows of a recipe depend on the source rows.

    Parameters
    ----------
    fallback_ids
        Ids of the new tokens that got the method's fallback.
    source_bytes
        What each source token stands for, by id.

    Returns
    -------
    dict
        new_tokens; share_recipe, share_copy (one source row as it is) and share_fallback, which sum
        to one; mean_nonzeros, the number of source rows behind a new row; mean_entropy, in nats, of
        the weights' magnitudes as shares of a row; share_in_hull (rows non-negative and summing to
        one: inside the convex hull of the source rows, a "strongly good" initialization in the
        terms of CW2V [1]_; None where a rank reduces the rows); largest_hub (new tokens that use
        the most used source token) and the text of that token, largest_hub_token. All but the first
        are None where nothing is new.

    References
    ----------
    .. [1] Mundra et al. 2024 (CW2V), section 3.3.
    """
    k = len(recipe.new_ids)
    if not k:
        return {"new_tokens": 0, **dict.fromkeys(_OF_ROWS)}
    ids, times = _distinct(recipe)
    nonzeros, entropy = np.zeros(len(ids)), np.zeros(len(ids))
    in_hull = np.zeros(len(ids), dtype=bool)
    hubs = np.zeros(recipe.n_source, dtype=np.int64)
    for block in recipe.row_blocks(ids):
        rows = recipe.rows(ids[block])
        rows.eliminate_zeros()
        size = rows.shape[0]
        of = np.repeat(np.arange(size), np.diff(rows.indptr))
        nonzeros[block] = np.diff(rows.indptr)
        magnitude = np.abs(rows.data)
        shares = magnitude / np.bincount(of, magnitude, minlength=size)[of]
        # Above zero by definition; a row with one weight rounds to minus zero.
        entropy[block] = np.maximum(0, -np.bincount(of, shares * np.log(shares), minlength=size))
        lowest = np.zeros(size)
        np.minimum.at(lowest, of, rows.data)
        total = np.bincount(of, rows.data, minlength=size)
        in_hull[block] = (lowest >= 0) & (np.abs(total - 1) < _SUM_TOLERANCE)
        uses = np.bincount(rows.indices, times[block][of], minlength=recipe.n_source)
        hubs += uses.astype(np.int64)
    own = np.setdiff1d(recipe.new_ids, fallback_ids)
    copies = int((recipe.copied[own] >= 0).sum())
    return {
        "new_tokens": k,
        "share_recipe": (len(own) - copies) / k,
        "share_copy": copies / k,
        "share_fallback": (k - len(own)) / k,
        "mean_nonzeros": float(nonzeros @ times / k),
        "mean_entropy": float(entropy @ times / k),
        # The weights do not tell where a projected row lies.
        "share_in_hull": None if recipe.rank is not None else float(in_hull @ times / k),
        "largest_hub": int(hubs.max()),
        "largest_hub_token": source_text(source_bytes, int(hubs.argmax())),
    }


def cosine_to_mean(
    initialization: Recipe | RecipePair | DenseRows,
    matrix: Matrix,
    source_ids: np.ndarray,
    which: str = "input",
) -> float | None:
    """Mean cosine between the new rows and the mean of the source tokens' rows.

    Near 1 new tokens can hardly be told apart: each is nearly the mean of all. Needs memory for a
    block of columns, not for the target matrix.

    Parameters
    ----------
    initialization
        A recipe, one for each matrix, or dense rows.
    matrix
        The source matrix [n_source, h].
    source_ids
        Ids of all source tokens, without padding rows.
    which
        `"input"` or `"output"`.

    Returns
    -------
    float or None
        None where nothing is new, or where a length is zero.
    """
    mean = row_mean(matrix, source_ids)
    k = len(initialization.new_ids)
    products, squares = np.zeros(k), np.zeros(k)
    for columns, values in initialization.new_rows(matrix, which):
        products += values @ mean[columns].astype(values.dtype)
        squares += np.einsum("ij,ij->i", values, values)
    lengths = np.sqrt(squares) * np.linalg.norm(mean)
    if not len(lengths) or not lengths.all():
        return None
    return float((products / lengths).mean())


def _distinct(recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """New tokens with distinct rows, and how many tokens share each row.

    Thousands of tokens may share the mean of all.
    """
    left = recipe.left[recipe.new_ids]
    first: dict[tuple[bytes, bytes], int] = {}
    times: dict[int, int] = {}
    for i, (start, end) in enumerate(pairwise(left.indptr.tolist())):
        row = (left.indices[start:end].tobytes(), left.data[start:end].tobytes())
        same = first.setdefault(row, i)
        times[same] = times.get(same, 0) + 1
    return recipe.new_ids[list(times)], np.array(list(times.values()), dtype=np.int64)
