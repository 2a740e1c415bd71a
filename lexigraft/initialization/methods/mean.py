"""Mean: a new token is the mean of the source tokens it consists of.

Paper 000, section 4.3; paper 001, equation 2.
"""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.decomposition import decompose, mean_rows
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair


class Mean(RecipeInitializer):
    """Uniform over the source's pieces of the token; a piece that occurs twice counts twice.

    Pieces that the source does not know (no byte fallback) are left out. A token without a known
    piece falls back to the mean of all source tokens.
    """

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        pieces = decompose(pair, pair.new_ids.tolist())
        unknown = np.array([not ids for ids in pieces], dtype=bool)
        return mean_rows(pieces, pair.n_source), unknown
