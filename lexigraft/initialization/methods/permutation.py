"""Permutation: every new token is a copy of a random source token."""

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.decomposition import NewRows
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair


class Permutation(RecipeInitializer):
    """A uniformly random source token for each new token, with replacement [1]_.

    Special tokens are left out, unlike in the paper: a copy of the end-of-text token would end
    texts.

    References
    ----------
    .. [1] UnifyVocab, "Unifying Vocabulary of Large Language Model with Statistical Token-level
       Alignment", section 3.1.
    """

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        k = len(pair.new_ids)
        ordinary = np.setdiff1d(pair.source_ids, list(pair.source_special_ids))
        source_ids = self._generator().choice(ordinary, size=k)
        rows = csr_array((np.ones(k), (np.arange(k), source_ids)), shape=(k, pair.n_source + 1))
        return rows, np.zeros(k, dtype=bool)
