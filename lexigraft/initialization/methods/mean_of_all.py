"""Mean of all: every new row is the mean of all source rows."""

import numpy as np

from lexigraft.initialization.decomposition import NewRows, mean_rows
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair


class MeanOfAll(RecipeInitializer):
    """Uniform weights on all source tokens, without padding rows; `Mean` in CW2V [1]_.

    References
    ----------
    .. [1] Mundra et al. 2024 (CW2V), "An Empirical Comparison of Vocabulary Expansion and
       Initialization Approaches for Language Models", section 4.4.
    """

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        k = len(pair.new_ids)
        return mean_rows([[]] * k, pair.n_source), np.zeros(k, dtype=bool)
