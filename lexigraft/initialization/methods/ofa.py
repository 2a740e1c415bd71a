"""OFA: WECHSEL with multilingual word vectors and a low-rank factorization of source rows."""

from dataclasses import replace
from typing import cast

from lexigraft.initialization.interface import Auxiliaries, Corpus
from lexigraft.initialization.options import integer
from lexigraft.initialization.recipe import Recipe
from lexigraft.initialization.similarity import NeighbourInitializer


class OFA(NeighbourInitializer):
    """Softmax over the cosine similarities to the nearest source tokens, at a reduced rank [1]_.

    OFA factorizes the source matrix, `E = F P`, keeps the leading `dimensions` of both, and mixes
    coordinates: `W F P`. This is `W E` with every new row projected onto the leading right singular
    vectors of the matrix. The published models are trained with `F` and `P`; here the model keeps
    its shape.

    The auxiliaries are vectors of the target's tokens (`target`) and of the source's (`source`) in
    one space, such as ColexNet+ (`lexigraft.auxiliary.read_word_vectors`). With `without_vector:
    random`, the coordinates of a token without a vector are drawn. The published code shares tokens
    by `fuzzy` text.

    Parameters
    ----------
    dimensions
        Rank of the factorization: 100, 200 and 400 in the paper. None for the full rank.
    neighbours, temperature
        See `NeighbourInitializer`.

    References
    ----------
    .. [1] Liu, Lin, Wang and Schütze 2024, "OFA: A Framework of Initializing Unseen Subword
       Embeddings for Efficient Large-scale Multilingual Continued Pretraining", section 3.
    """

    title = "OFA"
    version = 2
    needs = ("target", "source")
    dimensions: int | None = integer(None)

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        super()._fit(corpus, auxiliary)
        self.recipe_ = replace(cast(Recipe, self.recipe_), rank=self.dimensions)
