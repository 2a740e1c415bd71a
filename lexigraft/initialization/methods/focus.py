"""FOCUS: a new token is a mixture of the source tokens most similar to it in static vectors."""

from lexigraft.initialization.similarity import AnchorInitializer


class FOCUS(AnchorInitializer):
    """Sparsemax over the cosine similarities of the new token to the shared tokens [1]_ [2]_.

    The auxiliary holds the vectors: fastText vectors of the corpus tokenized with the target
    tokenizer (`lexigraft.auxiliary.train_fasttext`), or pretrained word vectors
    (`read_word_vectors`). All shared tokens with a vector are used, except special tokens.

    A new token without a vector, or with a zero vector, falls back. (The FOCUS paper draws such
    rows from the normal distribution of the source rows, which no recipe describes.)

    References
    ----------
    .. [1] Dobler and de Melo 2023, "FOCUS: Effective Embedding Initialization for Monolingual
       Specialization of Multilingual Models".
    .. [2] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.2.
    """

    needs = ("target",)
    without_anchors = (
        "a vector, so there is nothing to mix; give vectors of more text, or of rarer tokens (a "
        "smaller minimum_count)"
    )
