"""SALT: rows of a target-language model, mapped into the source's space token by token."""

import math

import numpy as np
from scipy.linalg import lstsq
from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.initialization.decomposition import NewRows, rows_with_fallback
from lexigraft.initialization.inputs import required_vectors
from lexigraft.initialization.interface import Auxiliaries, Corpus
from lexigraft.initialization.options import boolean, choice, integer, number
from lexigraft.initialization.pairing import SHARED, VocabularyPair
from lexigraft.initialization.similarity import (
    VectorInitializer,
    nonzero,
    score_blocks,
    sparsemax_of_cosines,
    top_k,
    unit_vectors,
    vectors_of,
)

# Vectors are stored in float32: smaller singular values are rounding errors.
_RANK_TOLERANCE = float(np.finfo(np.float32).eps)


class SALT(VectorInitializer):
    """A least-squares map fitted to the token's neighbours, applied to the token's own row [1]_.

    Two auxiliaries: `target`, static vectors of the target's tokens, and `plm`, the embedding rows
    of a target-language model with this tokenizer. The neighbours of a new token are the shared
    tokens with positive weights in the sparsemax over the cosine similarities of the static
    vectors. With their rows `A` [k, h_plm] in the model and `B` [k, h] in the source, the token
    with row `e` in the model gets `e pinv(A) B`: a recipe, with weights of either sign and any sum.

    By default, tokens that differ only in white space are `shared` (appendix A). `anchors_` is the
    number of shared tokens that can be neighbours. `unexplained_` is the mean share of the squared
    length of a row in the model that lies outside the span of its neighbours. The paper draws the
    rows of tokens without a vector (`without_vector: random`).

    Parameters
    ----------
    centred
        Subtract the neighbours' means from `A`, `B` and `e` first, and add that of `B` last: an
        affine map, whose weights sum to one.
    ridge
        Weight of an L2 penalty on the map, in units of the mean squared length of the neighbours'
        rows in the model; 0 gives the map of minimum norm.
    minimum_neighbours
        If sparsemax gives fewer neighbours, the most similar tokens are added up to this number.

    References
    ----------
    .. [1] Lee, Hong, Moon and Lim 2025 (SALT), "Semantic Aware Linear Transfer by Recycling
       Pre-trained Language Models for Cross-lingual Transfer", section 3 and appendix A.
    """

    title = "SALT"
    version = 2
    needs = ("target", "plm")
    counted = ("anchors", "unexplained")
    shared: str = choice("without-space", *SHARED)
    centred: bool = boolean(False)
    ridge: float = number(0.0)
    minimum_neighbours: int = integer(1)

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        static_vectors = unit_vectors(required_vectors(self.name, pair, auxiliary))
        model_vectors = nonzero(required_vectors(self.name, pair, auxiliary, "plm"))
        ids_with_vectors = np.intersect1d(
            static_vectors.tokens, model_vectors.tokens, assume_unique=True
        )
        anchor_ids = np.intersect1d(ids_with_vectors, pair.shared_ids, assume_unique=True)
        mapped_ids = np.intersect1d(ids_with_vectors, pair.new_ids, assume_unique=True)
        self.anchors_ = len(anchor_ids)
        if not self.anchors_:
            raise UserError(
                "initializer 'salt': no shared token has vectors in both auxiliaries; give more"
            )
        neighbours = self._neighbours(
            vectors_of(static_vectors, mapped_ids), vectors_of(static_vectors, anchor_ids)
        )
        model_rows = vectors_of(model_vectors, mapped_ids)
        anchor_rows = vectors_of(model_vectors, anchor_ids)
        weights = [np.zeros(0)]
        residuals = []  # shares of squared lengths
        for i in tqdm(range(len(mapped_ids)), desc="salt", unit=" tokens", disable=None):
            weights_of_token, residual = self._weights(
                anchor_rows[neighbours[i]].astype(np.float64), model_rows[i].astype(np.float64)
            )
            residuals.append(residual)
            weights.append(weights_of_token)
        self.unexplained_ = float(np.mean(residuals)) if residuals else math.nan
        tokens = np.repeat(mapped_ids, [len(ids) for ids in neighbours])
        sources = pair.source_of[anchor_ids[np.concatenate([mapped_ids[:0], *neighbours])]]
        return rows_with_fallback(
            pair, tokens, sources, np.concatenate(weights), fallback=self.without_vector
        )

    def _neighbours(self, queries: np.ndarray, anchors: np.ndarray) -> list[np.ndarray]:
        """Indices of each token's neighbours among the anchors."""
        weights = sparsemax_of_cosines(queries, anchors)
        neighbours = np.split(weights.indices, weights.indptr[1:-1]) if len(queries) else []
        minimum = min(self.minimum_neighbours, len(anchors))
        too_few = np.flatnonzero(np.diff(weights.indptr) < minimum)
        for block, scores in score_blocks(queries[too_few], anchors):
            for i, nearest in zip(too_few[block], top_k(scores, minimum), strict=True):
                neighbours[i] = nearest
        return neighbours

    def _weights(self, rows: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, float]:
        """The map of one token as weights [k] on its neighbours' source rows, and its residual.

        `rows` [k, h_plm] and `query` [h_plm] are those of the neighbours and of the token in the
        model. The residual is a share of the query's squared length.
        """
        k, length = len(rows), float(query @ query)
        if self.centred:
            mean = rows.mean(axis=0)
            rows, query = rows - mean, query - mean
        # Least-squares weights w of w @ rows = query, that is query @ pinv(rows). A ridge penalty
        # is equivalent to additional rows that pull the weights towards zero.
        matrix, vector = rows.T, query
        if self.ridge:
            penalty = math.sqrt(self.ridge * float(np.square(rows).sum()) / k)
            matrix = np.concatenate([matrix, penalty * np.eye(k)])
            vector = np.concatenate([vector, np.zeros(k)])
        tolerance = max(matrix.shape) * _RANK_TOLERANCE
        options = {"cond": tolerance, "lapack_driver": "gelsy", "check_finite": False}
        weights = lstsq(matrix, vector, **options)[0]
        residual = query - weights @ rows
        if self.centred:
            weights = weights + (1 - weights.sum()) / k
        return weights, float(residual @ residual) / length
