"""FOCUS: a new token is a mixture of the source tokens most similar to it in static vectors.

Paper 000, section 4.2; Dobler and de Melo 2023.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles, target_vectors
from lexigraft.initialization.fallback import with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import directions, rows_of, sparsemax_of_cosines


class Focus(RecipeInitializer):
    """Sparsemax over the cosine similarities of the new token to the source's tokens.

    The auxiliary holds the vectors: those that fastText learns from the corpus tokenized with the
    target tokenizer (`lexigraft.auxiliary.train_fasttext`), or pretrained word vectors
    (`read_word_vectors`). Every token that the source shares and that has one takes part,
    except special tokens.

    A new token without a vector, or with one of zeros, falls back to the mean of its source pieces,
    and one of which the source knows no piece to the mean of all source tokens. (The FOCUS paper
    draws such rows from the normal distribution of the source rows, which no recipe describes.)

    Attributes
    ----------
    anchors_ : int
        Source tokens that took part.
    """

    needs = ("target",)

    anchors_: int

    def statistics(self) -> dict[str, Any]:
        """What every recipe counts, and: anchors."""
        return {**super().statistics(), "anchors": self.anchors_}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        vectors = directions(target_vectors(self.name, auxiliary, pair))
        anchors = np.intersect1d(vectors.tokens, pair.shared_ids, assume_unique=True)
        self.anchors_ = len(anchors)
        if not self.anchors_:
            raise UserError(
                "initializer 'focus': no shared token has a vector, so there is nothing to mix; "
                "give vectors of more text, or of rarer tokens (a smaller minimum_count)"
            )
        new = np.intersect1d(vectors.tokens, pair.new_ids, assume_unique=True)
        mixed = sparsemax_of_cosines(rows_of(vectors, new), rows_of(vectors, anchors)).tocoo()
        sources = pair.source_of[anchors][mixed.coords[1]]
        return with_fallback(pair, new, mixed.coords[0], sources, mixed.data)
