"""Weights of a token on the tokens most similar to it, in one vector space.

Similarities are computed one block of tokens at a time. The maxima of chunks give a bound, and only
the few scores that reach it are sorted (benchmarks/initialization_scale.py). Scores that differ
only by rounding errors are ties, and the lower id is chosen: BLAS libraries round differently.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import ClassVar, cast

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import NewRows, rows_with_fallback
from lexigraft.initialization.inputs import required_space, required_vectors
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.options import choice, integer, positive
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe import Recipe

_SCORES_AT_ONCE = 1 << 24  # 64 MiB: with smaller blocks, reading the anchors dominates
_FIRST_CANDIDATES = 128
_CHUNK = 64
# Relative to the highest score. Inner products of float32 vectors of some hundred dimensions differ
# by less than this between BLAS libraries.
_TIE = 2e-6


class VectorInitializer(RecipeInitializer):
    """A method that mixes new tokens according to their vectors.

    Parameters
    ----------
    without_vector
        The row of a new token without a vector or a weight: the mean of its source `pieces`; or
        `random`, drawn from N(mean, std) of the source rows in each dimension, as the published
        code of FOCUS, OFA, WECHSEL and SALT does.
    """

    without_vector: str = choice("pieces", "random")

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        super()._fit(corpus, auxiliary)
        if self.without_vector == "random" and len(self._fallback_ids):
            recipe = cast(Recipe, self.recipe_)
            self.recipe_ = replace(recipe, drawn_ids=self._fallback_ids, seed=self.seed_)

    def _explain(self, token_id: int, text: str) -> str:
        is_drawn = self.without_vector == "random" and token_id in self._fallback_ids
        return super()._explain(token_id, text) + is_drawn * " + noise"


class AnchorInitializer(VectorInitializer):
    """A method that mixes new tokens from the anchors: shared tokens that have vectors.

    The weights are the sparsemax over the cosine similarities, unless a method says otherwise.
    `anchors_` is the number of anchors, which exclude special tokens.
    """

    counted: ClassVar[tuple[str, ...]] = ("anchors",)
    normalized = True  # whether vectors are scaled to length one
    without_anchors: ClassVar[str]  # end of the message if there are none: what no token has

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        vectors = required_vectors(self.name, pair, auxiliary, self.needs[0])
        vectors = unit_vectors(vectors) if self.normalized else nonzero(vectors)
        anchor_ids = np.intersect1d(
            vectors.tokens, self._possible_anchors(pair), assume_unique=True
        )
        new_ids = np.intersect1d(vectors.tokens, pair.new_ids, assume_unique=True)
        self.anchors_ = len(anchor_ids)
        if not self.anchors_:
            raise UserError(
                f"initializer '{self.name}': no shared token has {self.without_anchors}"
            )
        new_vectors, anchor_vectors = vectors_of(vectors, new_ids), vectors_of(vectors, anchor_ids)
        weights = self._weights(new_vectors, anchor_vectors).tocoo()
        tokens = new_ids[weights.coords[0]]
        source_ids = pair.source_of[anchor_ids][weights.coords[1]]
        return rows_with_fallback(
            pair, tokens, source_ids, weights.data, fallback=self.without_vector
        )

    def _possible_anchors(self, pair: VocabularyPair) -> np.ndarray:
        """Target ids of the tokens that are anchors if they have a vector, ascending."""
        return pair.shared_ids

    def _weights(self, queries: np.ndarray, anchors: np.ndarray) -> csr_array | coo_array:
        """Weights [n, m] of new tokens on anchors, from their vectors [n or m, dimensions]."""
        return sparsemax_of_cosines(queries, anchors)


class NeighbourInitializer(VectorInitializer):
    """A method that takes the softmax over the cosines to the nearest source tokens.

    WECHSEL (section 3) and OFA (section 3.2) share this step. The auxiliaries `target` and `source`
    are vectors of the tokens of both vocabularies in one space.

    Parameters
    ----------
    neighbours
        Number of source tokens in a new token's mixture; all source tokens if there are fewer.
    temperature
        Divisor of the cosines; a smaller value gives the nearest tokens more weight.
    """

    neighbours: int = integer(10)
    temperature: float = positive(0.1)

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        target, source = required_space(self.name, pair, auxiliary)
        target = unit_vectors(target, pair.target_special_ids)
        source = unit_vectors(source, pair.source_special_ids)
        if not len(source.tokens):
            raise UserError(f"initializer '{self.name}': no source token has a vector to mix")
        new_ids = np.intersect1d(target.tokens, pair.new_ids)
        weights = softmax_of_nearest(
            vectors_of(target, new_ids), source.vectors, self.neighbours, self.temperature
        ).tocoo()
        tokens, source_ids = new_ids[weights.coords[0]], source.tokens[weights.coords[1]]
        return rows_with_fallback(
            pair, tokens, source_ids, weights.data, fallback=self.without_vector
        )


def nonzero(vectors: TokenVectors, without: Collection[int] = ()) -> TokenVectors:
    """Drop vectors of length zero, and those of the ids `without`."""
    is_kept = vectors.vectors.any(axis=1) & ~np.isin(vectors.tokens, list(without))
    return TokenVectors(vectors.tokens[is_kept], vectors.vectors[is_kept])


def unit_vectors(vectors: TokenVectors, without: Collection[int] = ()) -> TokenVectors:
    """Scale vectors to length one; drop those of length zero and those of the ids `without`."""
    kept = nonzero(vectors, without)
    return TokenVectors(kept.tokens, unit_rows(kept.vectors))


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to length one, except zero rows."""
    lengths = np.sqrt(np.vecdot(rows, rows))
    return rows / np.where(lengths > 0, lengths, 1)[:, None]


def vectors_of(vectors: TokenVectors, ids: np.ndarray) -> np.ndarray:
    """Vectors [len(ids), dimensions] of tokens, all of which must have one."""
    return vectors.vectors[np.searchsorted(vectors.tokens, ids)]


def score_blocks(queries: np.ndarray, anchors: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of queries [n, dimensions], and their inner products [size, m] with all anchors.

    There must be at least one anchor. The next products overwrite the last.
    """
    height = max(1, _SCORES_AT_ONCE // len(anchors))
    # In fresh memory for each block, allocating pages would take up to a third of the time.
    scores = np.empty((min(height, len(queries)), len(anchors)), np.result_type(queries, anchors))
    for start in range(0, len(queries), height):
        block = slice(start, min(start + height, len(queries)))
        yield block, np.matmul(queries[block], anchors.T, out=scores[: block.stop - start])


def sparsemax_of_cosines(queries: np.ndarray, anchors: np.ndarray) -> csr_array:
    """Sparsemax over the cosines of each query to all anchors, at least one; float64 [n, m]."""
    weights = [sparsemax(scores) for _, scores in score_blocks(queries, anchors)]
    return csr_array(vstack(weights)) if weights else csr_array((0, len(anchors)))


def softmax_of_nearest(
    queries: np.ndarray,
    anchors: np.ndarray,
    k: int,
    temperature: float,
    minimum_cosine: float = -math.inf,
) -> csr_array:
    """Softmax over the cosines, divided by `temperature`, of each query to its `k` nearest anchors.

    `queries` [n, dimensions] and `anchors` [m, dimensions], with m at least 1, have length one. The
    weights [n, m] are float64. Anchors with a cosine below `minimum_cosine` get no weight, so a row
    may be all zeros.
    """
    k = min(k, len(anchors))
    columns = np.empty((len(queries), k), dtype=np.int64)
    weights = np.empty((len(queries), k))
    for block, scores in score_blocks(queries, anchors):
        nearest = top_k(scores, k)
        cosines = np.take_along_axis(scores, nearest, axis=1).astype(np.float64)
        exponents = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / temperature)
        exponents *= cosines >= minimum_cosine
        totals = exponents.sum(axis=1, keepdims=True)
        columns[block] = nearest
        weights[block] = exponents / np.where(totals > 0, totals, 1)
    rows = np.repeat(np.arange(len(queries)), k)
    return csr_array((weights.ravel(), (rows, columns.ravel())), shape=(len(queries), len(anchors)))


def sparsemax(scores: np.ndarray) -> csr_array:
    """Project each row of scores [n, m], with m at least 1, onto the probability simplex [1]_.

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
    pending_rows, n_candidates = np.arange(n), _FIRST_CANDIDATES
    # Few weights of a row are above zero: only the highest scores are examined, and more of a row
    # only if all of these have positive weights.
    while len(pending_rows):
        pending_scores = scores if len(pending_rows) == n else scores[pending_rows]
        rows, columns = top_k_candidates(pending_scores, n_candidates)
        values = pending_scores[rows, columns].astype(np.float64)
        sorted_scores, _ = _pad_rows(values, rows, len(pending_rows))
        sorted_scores.sort(axis=1)
        sorted_scores = sorted_scores[:, ::-1]
        maxima = sorted_scores[:, 0].copy()
        threshold, support = _thresholds(sorted_scores - maxima[:, None])
        n_examined = np.bincount(rows, minlength=len(pending_rows))
        is_done = (support < n_examined) | (n_examined == m)
        # Subtracting a row's maximum does not change its projection, and reduces rounding errors.
        weights = values - maxima[rows] - threshold[rows]
        is_positive = is_done[rows] & (weights > 0)
        parts.append((pending_rows[rows[is_positive]], columns[is_positive], weights[is_positive]))
        pending_rows, n_candidates = pending_rows[~is_done], 8 * n_candidates
    rows, columns, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    return csr_array((weights, (rows, columns)), shape=(n, m))


def _thresholds(sorted_scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threshold and support size of each row of scores in descending order whose maximum is 0."""
    excess = np.cumsum(sorted_scores, axis=1) - 1
    ranks = np.arange(1, sorted_scores.shape[1] + 1)
    # The support reaches down to the last score that exceeds the threshold it would set.
    support = np.count_nonzero(sorted_scores * ranks > excess, axis=1)
    last = np.take_along_axis(excess, support[:, None] - 1, axis=1)[:, 0]
    return last / support, support


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns [n, k] of the k highest scores of each row [n, m], ascending; the lower ones of ties.

    Examples
    --------
    >>> top_k(np.array([[0.5, 0.9, 0.5, 0.5]]), 2).tolist()
    [[0, 1]]
    """
    if not len(scores):
        return np.empty((0, k), dtype=np.int64)
    rows, columns = top_k_candidates(scores, k)
    values, indices = _pad_rows(scores[rows, columns], rows, len(scores))
    kth_score = np.partition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k, None]
    tolerance = _TIE * np.maximum(np.abs(values.max(axis=1, keepdims=True)), np.abs(kth_score))
    is_chosen = values > kth_score + tolerance
    is_tied = (values >= kth_score - tolerance) & ~is_chosen
    open_places = k - is_chosen.sum(axis=1, keepdims=True)
    is_chosen |= is_tied & (np.cumsum(is_tied, axis=1) <= open_places)
    return columns[indices[is_chosen]].reshape(len(scores), k)


def highest(scores: np.ndarray) -> np.ndarray:
    """Column [n] of the highest score of each row [n, m]; the lowest column if scores tie.

    Examples
    --------
    >>> highest(np.array([[0.1, 0.9, 0.9 + 1e-8]])).tolist()
    [1]
    """
    maxima = scores.max(axis=1, keepdims=True)
    return (scores >= maxima - _TIE * np.abs(maxima)).argmax(axis=1)


def top_k_candidates(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns, ascending, of scores that include the k highest of each row.

    `scores` [n, m] are floating-point, without NaN; k is at least 1. All that tie with the k-th are
    included; none is lower than an excluded score.
    """
    n, m = scores.shape
    chunks = m // _CHUNK
    if k > chunks // 2:
        return np.divmod(np.arange(n * m), m)
    # The bound is the k-th highest of the chunks' maxima: at least k scores reach it. The columns
    # of a chunk are `chunks` apart, since maxima over adjacent columns take three times as long.
    chunk_maxima = scores[:, : chunks * _CHUNK].reshape(n, _CHUNK, chunks).max(axis=1)
    bound = np.partition(chunk_maxima, chunks - k, axis=1)[:, chunks - k, None]
    bound -= _TIE * np.maximum(np.abs(chunk_maxima.max(axis=1, keepdims=True)), np.abs(bound))
    return np.divmod(np.flatnonzero(scores >= bound), m)


def _pad_rows(values: np.ndarray, rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Pad ragged rows with minus infinity to a matrix [n, longest row]; `rows` is ascending.

    The second matrix holds the index into `values` of each entry, 0 for padding.
    """
    counts = np.bincount(rows, minlength=n)
    columns = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    shape = (n, int(counts.max(initial=0)))
    padded, indices = np.full(shape, -np.inf, dtype=values.dtype), np.zeros(shape, dtype=np.int64)
    padded[rows, columns], indices[rows, columns] = values, np.arange(len(rows))
    return padded, indices
