"""SALT: rows of a target-language model, mapped into the source's space token by token.

Paper 002, section 3 and appendix A.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from scipy.sparse import csr_array
from tqdm import tqdm

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles, target_vectors
from lexigraft.initialization.fallback import with_fallback
from lexigraft.initialization.fuzzy import alike_without_space
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.options import whole
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import (
    directions,
    nearest,
    rows_of,
    sparsemax_of_cosines,
)

# Vectors are stored in float32, so that directions of less than this are rounding.
_RANK_TOLERANCE = float(np.finfo(np.float32).eps)


class Salt(RecipeInitializer):
    """The least-squares map of the token's neighbours, applied to the token's own row.

    Two auxiliaries: `target`, static vectors of the target's tokens (the paper: fastText word
    vectors), and `plm`, the embedding rows of a target-language model with this tokenizer. The
    neighbours of a new token are the shared tokens that sparsemax over the cosine similarities to
    it in the static vectors leaves above zero. With their rows `A` [k, h_plm] in the model and `B`
    [k, h] in the source, the map is `X = pinv(A) B`, and the token with row `e` in the model gets
    `e X`. Since that is `(e pinv(A)) B`, it is a recipe: weights on the neighbours' source rows,
    of either sign and any sum, which lean on no source matrix.

    Tokens are shared if they stand for the same text apart from white space; what a source token
    spells with a leading space and the target without is copied too.

    A new token without a static vector or a row in the model, or with one of zeros, falls back to
    the mean of its source pieces, and one of which the source knows no piece to the mean of all
    source tokens. (The paper draws such rows from the normal distribution of the source rows,
    which no recipe describes.)

    Parameters
    ----------
    centred
        Take the neighbours' means out of `A`, `B` and `e` first, and add that of `B` last: an
        affine map, whose weights sum to one.
    ridge
        Weight of a penalty on the map, in units of the mean squared length of the neighbours' rows
        in the model. Few neighbours fix no map of h_plm dimensions; with 0 the smallest is taken.
    minimum_neighbours
        Where sparsemax leaves fewer, the most similar ones are added up to this number.

    Attributes
    ----------
    anchors_ : int
        Shared tokens that could be neighbours.
    alike_ : int
        New tokens that copy a source token which differs from them in white space alone.
    unexplained_ : float
        Mean share of a row of the model, by squared length, that lies outside of what its
        neighbours span: what of the token does not come over. Without mapped tokens not a number.
    """

    needs = ("target", "plm")

    anchors_: int
    alike_: int
    unexplained_: float

    def __init__(
        self, centred: bool = False, ridge: float = 0.0, minimum_neighbours: int = 1
    ) -> None:
        if not isinstance(centred, bool):
            raise UserError(f"option 'centred' of initializer 'salt': {centred!r} is no boolean")
        number = isinstance(ridge, int | float) and not isinstance(ridge, bool)
        if not number or not 0 <= ridge < math.inf:
            raise UserError(
                f"option 'ridge' of initializer 'salt': {ridge!r} is no number from 0 up"
            )
        self.centred = centred
        self.ridge = float(ridge)
        self.minimum_neighbours = whole("salt", "minimum_neighbours", minimum_neighbours)

    def statistics(self) -> dict[str, Any]:
        """What every recipe counts, and: anchors, alike, unexplained."""
        return {
            **super().statistics(),
            "anchors": self.anchors_,
            "alike": self.alike_,
            "unexplained": None if math.isnan(self.unexplained_) else self.unexplained_,
        }

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        words = directions(target_vectors(self.name, auxiliary, pair))
        model = target_vectors(self.name, auxiliary, pair, role="plm")
        alike = alike_without_space(pair, pair.new_ids)
        self.alike_ = int((alike >= 0).sum())
        copied = pair.source_of.copy()
        copied[pair.new_ids] = alike
        with_row = model.tokens[model.vectors.any(axis=1)]
        known = np.intersect1d(words.tokens, with_row, assume_unique=True)
        shared = np.union1d(pair.shared_ids, pair.new_ids[alike >= 0])
        anchors = np.intersect1d(known, shared, assume_unique=True)
        new = np.setdiff1d(np.intersect1d(known, pair.new_ids, assume_unique=True), shared)
        self.anchors_ = len(anchors)
        if not self.anchors_:
            raise UserError(
                "initializer 'salt': no shared token has both a static vector and a row in the "
                "target-language model, so there is no map to fit; give vectors of more tokens"
            )
        at, neighbours, weights = self._mapped(words, model, new, anchors)
        copies = np.flatnonzero(alike >= 0)
        covered = np.union1d(new, pair.new_ids[copies])
        return with_fallback(
            pair,
            covered,
            np.searchsorted(covered, np.concatenate([new[at], pair.new_ids[copies]])),
            np.concatenate([copied[anchors][neighbours], alike[copies]]),
            np.concatenate([weights, np.ones(len(copies))]),
        )

    def _mapped(
        self, words: TokenVectors, model: TokenVectors, new: np.ndarray, anchors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights of the neighbours of all tokens that are mapped.

        Returns
        -------
        at, neighbours, weights : [total number of neighbours]
            Indices into `new` and into `anchors`, and the weight there.
        """
        supports = self._neighbours(rows_of(words, new), rows_of(words, anchors))
        queries, bases = rows_of(model, new), rows_of(model, anchors)
        weights, unexplained = [], np.empty(len(new))
        for i in tqdm(range(len(new)), desc="salt", unit=" tokens", disable=None):
            found, unexplained[i] = self._weights(
                bases[supports[i]].astype(np.float64), queries[i].astype(np.float64)
            )
            weights.append(found)
        self.unexplained_ = float(unexplained.mean()) if len(new) else math.nan
        at = np.repeat(np.arange(len(new)), [len(support) for support in supports])
        return at, np.concatenate([*supports, at[:0]]), np.concatenate([*weights, at[:0]])

    def _neighbours(self, queries: np.ndarray, anchors: np.ndarray) -> list[np.ndarray]:
        """Indices of the anchors that are each token's neighbours."""
        weights = sparsemax_of_cosines(queries, anchors)
        supports = np.split(weights.indices, weights.indptr[1:-1]) if len(queries) else []
        wanted = min(self.minimum_neighbours, len(anchors))
        few = np.flatnonzero(np.diff(weights.indptr) < wanted)
        for i, support in zip(few, nearest(queries[few], anchors, wanted), strict=True):
            supports[i] = support
        return supports

    def _weights(self, rows: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, float]:
        """The map of one token as weights [k] on its neighbours' source rows.

        Parameters
        ----------
        rows, query
            [k, h_plm] and [h_plm]: the rows of the neighbours and of the token in the model.

        Returns
        -------
        weights, unexplained
            And the share of the query's squared length that the weighted rows leave over.
        """
        k, length = len(rows), float(query @ query)
        if self.centred:
            mean = rows.mean(axis=0)
            rows, query = rows - mean, query - mean
        # Weights w that bring w @ rows nearest to the query: query @ pinv(rows). With a penalty,
        # the same with rows below that pull the weights to zero.
        left, right = rows.T, query
        if self.ridge:
            pull = math.sqrt(self.ridge * float(np.square(rows).sum()) / k)
            left = np.concatenate([left, pull * np.eye(k)])
            right = np.concatenate([right, np.zeros(k)])
        tolerance = max(left.shape) * _RANK_TOLERANCE
        weights = lstsq(left, right, cond=tolerance, lapack_driver="gelsy", check_finite=False)[0]
        left_over = query - weights @ rows
        if self.centred:
            weights = weights + (1 - weights.sum()) / k
        return weights, float(left_over @ left_over) / length
