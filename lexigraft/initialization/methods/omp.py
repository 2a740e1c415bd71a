"""OMP: a new token is approximated by shared tokens in a donor model's embedding space."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.arguments import Auxiliaries, check_integer, target_vectors
from lexigraft.initialization.decomposition import rows_with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.matching_pursuit import matching_pursuit
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import vectors_of


class OMP(RecipeInitializer):
    """Orthogonal matching pursuit of the token's donor row over the shared tokens' rows [1]_.

    The auxiliary `plm` holds the embedding rows of a donor model with the target tokenizer. The
    same weights, of either sign and any sum, give the input and the output row, as in mergekit's
    tokensurgeon.

    A new token without a row in the donor, or with a zero row, falls back to the mean of its source
    pieces, and one without source pieces to the mean of all source tokens.

    Parameters
    ----------
    atoms
        Maximum number of shared tokens per new token; 64 as in mergekit.
    candidates
        Consider only this many shared tokens, those with the largest inner products with the
        token's donor row; None for all, as in mergekit. The time is proportional to vocabulary
        size times width times `atoms`: for 50,000 new and 256,000 shared tokens it takes hours on
        two cores, and minutes with 500 candidates.

    Attributes
    ----------
    anchors_ : int
        Number of shared tokens with a row in the donor.
    unexplained_ : float
        Mean share of a donor row's squared length that the approximation misses; NaN if no token
        is approximated.

    References
    ----------
    .. [1] Goddard and Fernandes Neto 2025, "Training-Free Tokenizer Transplantation via Orthogonal
       Matching Pursuit".
    """

    needs = ("plm",)

    anchors_: int
    unexplained_: float

    def __init__(self, atoms: int = 64, candidates: int | None = None) -> None:
        self.atoms = check_integer("omp", "atoms", atoms)
        self.candidates = (
            None if candidates is None else check_integer("omp", "candidates", candidates)
        )

    def statistics(self) -> dict[str, Any]:
        """Statistics of the recipe, anchors and unexplained."""
        unexplained = None if np.isnan(self.unexplained_) else self.unexplained_
        return {**super().statistics(), "anchors": self.anchors_, "unexplained": unexplained}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Auxiliaries
    ) -> tuple[csr_array, np.ndarray]:
        donor = target_vectors(self.name, auxiliary, pair, role="plm")
        nonzero = donor.vectors.any(axis=1)
        donor = TokenVectors(donor.tokens[nonzero], donor.vectors[nonzero])
        anchors = np.intersect1d(donor.tokens, pair.shared_ids, assume_unique=True)
        new = np.intersect1d(donor.tokens, pair.new_ids, assume_unique=True)
        self.anchors_ = len(anchors)
        if not self.anchors_:
            raise UserError(
                "initializer 'omp': no shared token has a row in the donor model, so there is "
                "nothing to approximate others with; give a donor that has the target tokenizer"
            )
        rows, atoms = vectors_of(donor, new), vectors_of(donor, anchors)
        chosen, weights = matching_pursuit(rows, atoms, self.atoms, self.candidates)
        self.unexplained_ = _unexplained(rows, atoms, chosen, weights)
        at, place = np.nonzero(chosen >= 0)
        sources = pair.source_of[anchors][chosen[at, place]]
        return rows_with_fallback(pair, new, at, sources, weights[at, place])


def _unexplained(
    rows: np.ndarray, atoms: np.ndarray, chosen: np.ndarray, weights: np.ndarray
) -> float:
    """Mean share of the rows' squared lengths that the weighted atoms miss."""
    shares = np.empty(len(rows))
    for i, (row, taken, weight) in enumerate(zip(rows, chosen, weights, strict=True)):
        residual = row - weight[taken >= 0] @ atoms[taken[taken >= 0]]
        shares[i] = residual @ residual / (row @ row)
    return float(shares.mean()) if len(shares) else float("nan")
