"""FOCUS: a new token is a mixture of the source tokens most similar to it in static vectors."""

import numpy as np

from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import AnchorInitializer


class FOCUS(AnchorInitializer):
    """Sparsemax over the cosine similarities of the new token to the shared tokens [1]_ [2]_.

    The auxiliary holds fastText vectors of the corpus tokenized with the target tokenizer
    (`lexigraft.auxiliary.train_fasttext`), or pretrained word vectors (`read_word_vectors`). All
    shared tokens with a vector are used, except special tokens and, for two tokenizers of different
    families, bytes. The published code draws the rows of tokens without a vector (`without_vector:
    random`).

    References
    ----------
    .. [1] Dobler and de Melo 2023, "FOCUS: Effective Embedding Initialization for Monolingual
       Specialization of Multilingual Models".
    .. [2] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.2.
    """

    title = "FOCUS"
    needs = ("target",)
    without_anchors = (
        "a vector, so there is nothing to mix; give vectors of more text, or of rarer tokens (a "
        "smaller minimum_count)"
    )

    def _possible_anchors(self, pair: VocabularyPair) -> np.ndarray:
        return np.setdiff1d(pair.shared_ids, pair.byte_ids, assume_unique=True)
