"""WECHSEL: a new token is a mixture of the source tokens nearest to it across both languages.

Minixhofer, Paischer and Rekabsaz 2022; a baseline of papers 002 and 003.
"""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.fallback import with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.neighbours import neighbour_weights
from lexigraft.initialization.options import above_zero, whole
from lexigraft.initialization.pairing import VocabularyPair


class Wechsel(RecipeInitializer):
    """Softmax over the cosine similarities to the nearest source tokens.

    The auxiliaries are vectors of the target's tokens (`target`) and of the source's (`source`) in
    one space: word vectors of both languages (`lexigraft.auxiliary.read_word_vectors`), the
    target's rotated into the space of the other by a bilingual dictionary
    (`lexigraft.auxiliary.align_vectors`).

    Shared tokens copy their source row, as in every method here; published code mixes these too,
    special tokens apart. A new token without a vector falls back to the mean of its source pieces,
    and one of which the source knows no piece to the mean of all source tokens; published code
    draws such rows from the normal distribution of the source rows, which no recipe describes.

    Parameters
    ----------
    neighbours
        Source tokens that a new token leans on.
    temperature
        What cosines are divided by: the smaller, the more weighs the nearest.
    """

    needs = ("target", "source")

    def __init__(self, neighbours: int = 10, temperature: float = 0.1) -> None:
        self.neighbours = whole("wechsel", "neighbours", neighbours)
        self.temperature = above_zero("wechsel", "temperature", temperature)

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        new_ids, source_ids, weights = neighbour_weights(
            self.name, auxiliary, pair, self.neighbours, self.temperature
        )
        mixed = weights.tocoo()
        return with_fallback(
            pair, new_ids, mixed.coords[0], source_ids[mixed.coords[1]], mixed.data
        )
