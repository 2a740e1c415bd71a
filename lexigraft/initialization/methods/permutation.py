"""Permutation: every new token is a copy of a random source token. Paper 003, section 3.1."""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair


class Permutation(RecipeInitializer):
    """One source token for each new token, all equally likely; one may serve several.

    The paper draws from the source vocabulary; special tokens are left out here, since a copy of
    the end of a text ends texts. Both matrices get the same token.
    """

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        k = len(pair.new_ids)
        ordinary = np.setdiff1d(pair.source_ids, list(pair.source_special_ids))
        drawn = self._draws().choice(ordinary, size=k)
        rows = csr_array((np.ones(k), (np.arange(k), drawn)), shape=(k, pair.n_source + 1))
        return rows, np.zeros(k, dtype=bool)
