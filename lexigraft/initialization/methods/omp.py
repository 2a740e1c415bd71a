"""OMP: a new token is rebuilt from shared tokens in a donor model's space.

Orthogonal matching pursuit as in mergekit's tokensurgeon; Goddard and Fernandes Neto 2025.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles, target_vectors
from lexigraft.initialization.fallback import with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.matching_pursuit import matching_pursuit
from lexigraft.initialization.options import whole
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import rows_of


class Omp(RecipeInitializer):
    """The few shared tokens, and their weights, that rebuild the token's row in a donor model.

    The auxiliary `plm` holds the embedding rows of a donor model with the target tokenizer. The
    same weights, of either sign and any sum, make the input and the output row.

    A new token without a row in the donor, or with one of zeros, falls back to the mean of its
    source pieces, and one of which the source knows no piece to the mean of all source tokens.

    Parameters
    ----------
    atoms
        Shared tokens for each new one, at most; 64 as in mergekit.
    candidates
        Choose among this many shared tokens only, those with the largest inner products with the
        token's donor row; None for all, as in mergekit. Time grows with vocabulary times width
        times `atoms`: for 50,000 new tokens beside 256,000 shared ones it takes hours on two
        cores, and with 500 candidates minutes.

    Attributes
    ----------
    anchors_ : int
        Shared tokens with a row in the donor.
    unexplained_ : float
        Mean share of a donor row, by squared length, that the chosen tokens leave over. Without
        rebuilt tokens not a number.
    """

    needs = ("plm",)

    anchors_: int
    unexplained_: float

    def __init__(self, atoms: int = 64, candidates: int | None = None) -> None:
        self.atoms = whole("omp", "atoms", atoms)
        self.candidates = None if candidates is None else whole("omp", "candidates", candidates)

    def statistics(self) -> dict[str, Any]:
        """What every recipe counts, and: anchors, unexplained."""
        unexplained = None if np.isnan(self.unexplained_) else self.unexplained_
        return {**super().statistics(), "anchors": self.anchors_, "unexplained": unexplained}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        donor = target_vectors(self.name, auxiliary, pair, role="plm")
        held = donor.vectors.any(axis=1)
        donor = TokenVectors(donor.tokens[held], donor.vectors[held])
        anchors = np.intersect1d(donor.tokens, pair.shared_ids, assume_unique=True)
        new = np.intersect1d(donor.tokens, pair.new_ids, assume_unique=True)
        self.anchors_ = len(anchors)
        if not self.anchors_:
            raise UserError(
                "initializer 'omp': no shared token has a row in the donor model, so there is "
                "nothing to rebuild others from; give a donor that has the target tokenizer"
            )
        rows, atoms = rows_of(donor, new), rows_of(donor, anchors)
        chosen, weights = matching_pursuit(rows, atoms, self.atoms, self.candidates)
        self.unexplained_ = _unexplained(rows, atoms, chosen, weights)
        at, place = np.nonzero(chosen >= 0)
        sources = pair.source_of[anchors][chosen[at, place]]
        return with_fallback(pair, new, at, sources, weights[at, place])


def _unexplained(
    rows: np.ndarray, atoms: np.ndarray, chosen: np.ndarray, weights: np.ndarray
) -> float:
    """Mean share of the rows' squared lengths that the weighted atoms leave over."""
    shares = np.empty(len(rows))
    for i, (row, taken, weight) in enumerate(zip(rows, chosen, weights, strict=True)):
        left_over = row - weight[taken >= 0] @ atoms[taken[taken >= 0]]
        shares[i] = left_over @ left_over / (row @ row)
    return float(shares.mean()) if len(shares) else float("nan")
