"""Mean of all: every new row is the mean of all source rows. Paper 004, section 4.4."""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.decomposition import mean_rows
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair


class MeanOfAll(RecipeInitializer):
    """Uniform over all tokens of the source vocabulary; padding rows do not count."""

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        k = len(pair.new_ids)
        return mean_rows([[]] * k, pair.n_source), np.zeros(k, dtype=bool)
