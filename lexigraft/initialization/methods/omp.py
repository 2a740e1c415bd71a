"""OMP: a new token is approximated by shared tokens in a donor model's embedding space."""

import numpy as np
from scipy.sparse import coo_array

from lexigraft.initialization.matching_pursuit import matching_pursuit
from lexigraft.initialization.options import integer
from lexigraft.initialization.similarity import AnchorInitializer


class OMP(AnchorInitializer):
    """Orthogonal matching pursuit of the token's donor row over the shared tokens' rows [1]_.

    The auxiliary `plm` holds the embedding rows of a donor model with the target tokenizer. The
    same weights, of either sign and any sum, are used for input and output rows, as in mergekit.
    `unexplained_` is the
    mean share of a donor row's squared length that the approximation misses.

    Parameters
    ----------
    atoms
        Maximum number of shared tokens per new token; 64 as in mergekit.
    candidates
        Consider only this many shared tokens, those with the largest absolute inner products with
        the token's donor row: minutes instead of hours for large vocabularies. None for all, as in
        mergekit.

    References
    ----------
    .. [1] Goddard and Fernandes Neto 2025, "Training-Free Tokenizer Transplantation via Orthogonal
       Matching Pursuit".
    """

    title = "OMP"
    needs = ("plm",)
    normalized = False
    without_anchors = (
        "a row in the donor model, so there is nothing to approximate others from; give a donor "
        "that has the target tokenizer"
    )
    counted = ("anchors", "unexplained")
    atoms: int = integer(64)
    candidates: int | None = integer(None)

    def _weights(self, queries: np.ndarray, anchors: np.ndarray) -> coo_array:
        chosen, weights, residuals = matching_pursuit(queries, anchors, self.atoms, self.candidates)
        self.unexplained_ = float(residuals.mean()) if len(residuals) else float("nan")
        rows, columns = np.nonzero(chosen >= 0)
        shape = (len(queries), len(anchors))
        return coo_array((weights[rows, columns], (rows, chosen[rows, columns])), shape=shape)
