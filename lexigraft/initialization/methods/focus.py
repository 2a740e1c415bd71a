"""FOCUS: a new token is a mixture of the source tokens most similar to it in static vectors."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.arguments import Auxiliaries, target_vectors
from lexigraft.initialization.decomposition import rows_with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import sparsemax_of_cosines, unit_vectors, vectors_of


class FOCUS(RecipeInitializer):
    """Sparsemax over the cosine similarities of the new token to the shared tokens [1]_ [2]_.

    The auxiliary holds the vectors: fastText vectors of the corpus tokenized with the target
    tokenizer (`lexigraft.auxiliary.train_fasttext`), or pretrained word vectors
    (`read_word_vectors`). All shared tokens with a vector are used, except special tokens.

    A new token without a vector, or with a zero vector, falls back to the mean of its source
    pieces, and one without source pieces to the mean of all source tokens. (The FOCUS paper draws
    such rows from the normal distribution of the source rows, which no recipe describes.)

    Attributes
    ----------
    anchors_ : int
        Number of shared tokens in use.

    References
    ----------
    .. [1] Dobler and de Melo 2023, "FOCUS: Effective Embedding Initialization for Monolingual
       Specialization of Multilingual Models".
    .. [2] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.2.
    """

    needs = ("target",)

    anchors_: int

    def statistics(self) -> dict[str, Any]:
        """Statistics of the recipe, and anchors."""
        return {**super().statistics(), "anchors": self.anchors_}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Auxiliaries
    ) -> tuple[csr_array, np.ndarray]:
        vectors = unit_vectors(target_vectors(self.name, auxiliary, pair))
        anchors = np.intersect1d(vectors.tokens, pair.shared_ids, assume_unique=True)
        self.anchors_ = len(anchors)
        if not self.anchors_:
            raise UserError(
                "initializer 'focus': no shared token has a vector, so there is nothing to mix; "
                "give vectors of more text, or of rarer tokens (a smaller minimum_count)"
            )
        new = np.intersect1d(vectors.tokens, pair.new_ids, assume_unique=True)
        mixed = sparsemax_of_cosines(vectors_of(vectors, new), vectors_of(vectors, anchors)).tocoo()
        sources = pair.source_of[anchors][mixed.coords[1]]
        return rows_with_fallback(pair, new, mixed.coords[0], sources, mixed.data)
