"""Which shared tokens a new token is similar to, in one space of vectors.

Scores are made a block of tokens at a time: never a full square.
"""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array, vstack

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.initialization.highest import highest
from lexigraft.initialization.sparsemax import sparsemax

_SCORES_AT_ONCE = 1 << 25  # 128 MiB: with lower blocks reading the anchors takes longest


def directions(vectors: TokenVectors) -> TokenVectors:
    """The vectors at length one; those of length zero, which have no direction, left out."""
    lengths = np.linalg.norm(vectors.vectors, axis=1)
    held = lengths > 0
    return TokenVectors(vectors.tokens[held], vectors.vectors[held] / lengths[held, None])


def rows_of(vectors: TokenVectors, ids: np.ndarray) -> np.ndarray:
    """Vectors [len(ids), dimensions] of tokens that all have one."""
    return vectors.vectors[np.searchsorted(vectors.tokens, ids)]


def score_blocks(queries: np.ndarray, anchors: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Products of some queries with all anchors, and which queries: memory stays bounded.

    Parameters
    ----------
    queries, anchors
        [n, dimensions] and [m, dimensions] with m at least 1.

    Yields
    ------
    block, scores
        A slice of the queries, one after the other, and their products [size of the block, m].
    """
    height = max(1, _SCORES_AT_ONCE // len(anchors))
    for start in range(0, len(queries), height):
        block = slice(start, start + height)
        yield block, queries[block] @ anchors.T


def sparsemax_of_cosines(queries: np.ndarray, anchors: np.ndarray) -> csr_array:
    """Sparsemax over the cosine similarities of each query to all anchors.

    Parameters
    ----------
    queries, anchors
        [n, dimensions] and [m, dimensions] with m at least 1, rows of length one.

    Returns
    -------
    csr_array
        [n, m], float64: rows non-negative and summing to one, most weights zero.
    """
    found = [sparsemax(scores) for _, scores in score_blocks(queries, anchors)]
    return csr_array(vstack(found)) if found else csr_array((0, len(anchors)))


def nearest(queries: np.ndarray, anchors: np.ndarray, k: int) -> np.ndarray:
    """Indices [n, k] of the anchors most similar to each query, in no particular order.

    Parameters
    ----------
    queries, anchors
        As in `sparsemax_of_cosines`, with at least k anchors.
    """
    found = [highest(scores, k) for _, scores in score_blocks(queries, anchors)]
    return np.concatenate(found) if found else np.empty((0, k), dtype=np.int64)
