"""WECHSEL: a new token is a mixture of the nearest source tokens in aligned word vectors."""

from lexigraft.initialization.similarity import NeighbourInitializer


class WECHSEL(NeighbourInitializer):
    """Softmax over the cosine similarities to the nearest source tokens [1]_.

    The auxiliaries are word vectors of the target's tokens (`target`) and of the source's
    (`source`) in one space (`lexigraft.auxiliary.read_word_vectors` and `align_vectors`). The
    published code also mixes the tokens that both vocabularies have (`shared: special`), and draws
    the rows of tokens without a vector (`without_vector: random`).

    References
    ----------
    .. [1] Minixhofer, Paischer and Rekabsaz 2022, "WECHSEL: Effective Initialization of Subword
       Embeddings for Cross-lingual Transfer of Monolingual Language Models", section 3.
    """

    title = "WECHSEL"
    needs = ("target", "source")
