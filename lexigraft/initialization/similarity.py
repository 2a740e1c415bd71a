"""Weights of a token over the tokens most similar to it, in one space of vectors.

Similarities are computed a block of tokens at a time, never as a full square.
"""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array, vstack

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.arguments import Auxiliaries, source_vectors, target_vectors
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.top_k import pad_rows, top_k, top_k_candidates

_SCORES_AT_ONCE = 1 << 25  # 128 MiB: with smaller blocks, reading the anchors dominates
_FIRST_CANDIDATES = 128


def unit_vectors(vectors: TokenVectors) -> TokenVectors:
    """The vectors scaled to length one, without those of length zero."""
    lengths = np.linalg.norm(vectors.vectors, axis=1)
    nonzero = lengths > 0
    return TokenVectors(vectors.tokens[nonzero], vectors.vectors[nonzero] / lengths[nonzero, None])


def vectors_of(vectors: TokenVectors, ids: np.ndarray) -> np.ndarray:
    """Vectors [len(ids), dimensions] of tokens that all have one."""
    return vectors.vectors[np.searchsorted(vectors.tokens, ids)]


def score_blocks(queries: np.ndarray, anchors: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Inner products of queries with all anchors, a block of queries at a time.

    Parameters
    ----------
    queries, anchors
        [n, dimensions] and [m, dimensions] with m at least 1.

    Yields
    ------
    block, scores
        A slice of the queries, in order, and their inner products [size of the block, m].
    """
    height = max(1, _SCORES_AT_ONCE // len(anchors))
    for start in range(0, len(queries), height):
        block = slice(start, start + height)
        yield block, queries[block] @ anchors.T


def nearest_anchors(queries: np.ndarray, anchors: np.ndarray, k: int) -> np.ndarray:
    """Indices [n, k] of the k anchors most similar to each query, in no particular order.

    Parameters
    ----------
    queries, anchors
        [n, dimensions] and [m, dimensions] with m at least k, rows of length one.
    """
    found = [top_k(scores, k) for _, scores in score_blocks(queries, anchors)]
    return np.concatenate(found) if found else np.empty((0, k), dtype=np.int64)


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


def softmax_of_nearest(
    queries: np.ndarray, anchors: np.ndarray, k: int, temperature: float
) -> csr_array:
    """Softmax over the cosine similarities of each query to the `k` anchors nearest to it.

    Parameters
    ----------
    queries, anchors
        [n, dimensions] and [m, dimensions] with m at least 1, rows of length one.
    k
        Number of anchors; all of them where there are fewer.
    temperature
        What cosines are divided by.

    Returns
    -------
    csr_array
        [n, m], float64: rows of `k` positive weights that sum to one.
    """
    k = min(k, len(anchors))
    chosen = np.empty((len(queries), k), dtype=np.int64)
    weights = np.empty((len(queries), k))
    for block, scores in score_blocks(queries, anchors):
        best = top_k(scores, k)
        cosines = np.take_along_axis(scores, best, axis=1).astype(np.float64)
        exponents = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / temperature)
        chosen[block] = best
        weights[block] = exponents / exponents.sum(axis=1, keepdims=True)
    rows = np.repeat(np.arange(len(queries)), k)
    return csr_array((weights.ravel(), (rows, chosen.ravel())), shape=(len(queries), len(anchors)))


def neighbour_weights(
    method: str, auxiliary: Auxiliaries, pair: VocabularyPair, neighbours: int, temperature: float
) -> tuple[np.ndarray, np.ndarray, csr_array]:
    """Softmax weights of the source tokens nearest to each new token that has a vector.

    WECHSEL [1]_ and OFA [2]_ share this step.

    Parameters
    ----------
    method
        Name of the initializer, for messages.
    auxiliary
        `target` and `source`: vectors of the tokens of both vocabularies, in one space. Special
        tokens and zero vectors are ignored.
    neighbours
        Number of source tokens; all of them where there are fewer.
    temperature
        What cosines are divided by before the softmax.

    Returns
    -------
    new_ids : ndarray of int
        [n]: new tokens with a vector, ascending.
    source_ids : ndarray of int
        [m]: source tokens with a vector, ascending.
    weights : csr_array
        [n, m], float64: rows non-negative and summing to one.

    Raises
    ------
    UserError
        Vectors are missing, belong to another tokenizer, or have different widths; or no source
        token has a vector.

    References
    ----------
    .. [1] Minixhofer, Paischer and Rekabsaz 2022, section 3.
    .. [2] Liu, Lin, Wang and Schütze 2024, section 3.2.
    """
    target = unit_vectors(target_vectors(method, auxiliary, pair))
    source = unit_vectors(source_vectors(method, auxiliary, pair))
    if target.vectors.shape[1] != source.vectors.shape[1]:
        raise UserError(
            f"initializer '{method}': its auxiliaries have {target.vectors.shape[1]} dimensions "
            f"for the target and {source.vectors.shape[1]} for the source; give vectors of one "
            "space, such as word vectors aligned by a dictionary"
        )
    source_ids = np.setdiff1d(source.tokens, list(pair.source_special_ids))
    if not len(source_ids):
        raise UserError(
            f"initializer '{method}': no source token has a vector, so there is nothing to mix; "
            "give vectors of the source's language"
        )
    new_ids = np.setdiff1d(
        np.intersect1d(target.tokens, pair.new_ids), list(pair.target_special_ids)
    )
    weights = softmax_of_nearest(
        vectors_of(target, new_ids), vectors_of(source, source_ids), neighbours, temperature
    )
    return new_ids, source_ids, weights


def sparsemax(scores: np.ndarray) -> csr_array:
    """Project each row of scores onto the probability simplex [1]_.

    Parameters
    ----------
    scores
        [n, m] with m at least 1, floating-point.

    Returns
    -------
    csr_array
        [n, m], float64: rows non-negative, summing to one, with only the highest scores above zero.

    References
    ----------
    .. [1] Martins and Astudillo 2016, "From Softmax to Sparsemax", algorithm 1.

    Examples
    --------
    >>> sparsemax(np.array([[0.8, 0.6, -1.0]])).toarray().round(2).tolist()
    [[0.6, 0.4, 0.0]]
    """
    n, m = scores.shape
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    pending, candidates = np.arange(n), _FIRST_CANDIDATES
    # Few scores of a row end up above zero: only the highest are examined, and more of a row only
    # if all of these are.
    while len(pending):
        selected = scores if len(pending) == n else scores[pending]
        rows, columns = top_k_candidates(selected, candidates)
        values = selected[rows, columns].astype(np.float64)
        descending, _ = pad_rows(values, rows, len(pending))
        descending.sort(axis=1)
        descending = descending[:, ::-1]
        peak = descending[:, 0].copy()
        threshold, support = _thresholds(descending - peak[:, None])
        examined = np.bincount(rows, minlength=len(pending))
        done = (support < examined) | (examined == m)
        # Subtracting a row's maximum does not change its projection, and rounds less.
        weights = values - peak[rows] - threshold[rows]
        positive = done[rows] & (weights > 0)
        parts.append((pending[rows[positive]], columns[positive], weights[positive]))
        pending, candidates = pending[~done], 8 * candidates
    rows, columns, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    return csr_array((weights, (rows, columns)), shape=(n, m))


def _thresholds(descending: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threshold and support size of each row of descending scores whose maximum is 0."""
    excess = np.cumsum(descending, axis=1) - 1
    ranks = np.arange(1, descending.shape[1] + 1)
    # The support reaches down to the last score that exceeds the threshold it would set.
    support = np.count_nonzero(descending * ranks > excess, axis=1)
    last = np.take_along_axis(excess, support[:, None] - 1, axis=1)[:, 0]
    return last / support, support
