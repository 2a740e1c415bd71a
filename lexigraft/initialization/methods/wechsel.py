"""WECHSEL: a new token is a mixture of the source tokens nearest to it across both languages."""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.arguments import Auxiliaries, check_integer, check_number
from lexigraft.initialization.decomposition import rows_with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import neighbour_weights


class WECHSEL(RecipeInitializer):
    """Softmax over the cosine similarities to the nearest source tokens [1]_.

    The auxiliaries are vectors of the target's tokens (`target`) and of the source's (`source`) in
    one space: word vectors of both languages (`lexigraft.auxiliary.read_word_vectors`), the
    target's rotated into the space of the other by a bilingual dictionary
    (`lexigraft.auxiliary.align_vectors`).

    Shared tokens copy their source row, as in every method here; the published code mixes them too,
    except special tokens. A new token without a vector falls back to the mean of its source pieces,
    and one without source pieces to the mean of all source tokens; the published code draws such
    rows from the normal distribution of the source rows, which no recipe describes.

    Parameters
    ----------
    neighbours
        Number of source tokens in a new token's mixture.
    temperature
        Divisor of the cosines: the smaller, the larger the weight of the nearest.

    References
    ----------
    .. [1] Minixhofer, Paischer and Rekabsaz 2022, "WECHSEL: Effective Initialization of Subword
       Embeddings for Cross-lingual Transfer of Monolingual Language Models", section 3.
    """

    needs = ("target", "source")

    def __init__(self, neighbours: int = 10, temperature: float = 0.1) -> None:
        self.neighbours = check_integer("wechsel", "neighbours", neighbours)
        self.temperature = check_number("wechsel", "temperature", temperature, exclusive=True)

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Auxiliaries
    ) -> tuple[csr_array, np.ndarray]:
        new_ids, source_ids, weights = neighbour_weights(
            self.name, auxiliary, pair, self.neighbours, self.temperature
        )
        mixed = weights.tocoo()
        return rows_with_fallback(
            pair, new_ids, mixed.coords[0], source_ids[mixed.coords[1]], mixed.data
        )
