"""OFA: as WECHSEL, with multilingual word vectors and a low-rank factorization of source rows."""

from dataclasses import replace
from typing import cast

import numpy as np

from lexigraft.initialization.decomposition import NewRows, rows_with_fallback
from lexigraft.initialization.inputs import Auxiliaries, Corpus
from lexigraft.initialization.options import integer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.recipe import Recipe
from lexigraft.initialization.similarity import NeighbourInitializer


class OFA(NeighbourInitializer):
    """Softmax over the cosine similarities to the nearest source tokens, at a reduced rank [1]_.

    OFA factorizes the source matrix into coordinates and primitives, `E = F P`, by a singular value
    decomposition, keeps the leading `dimensions` of both, and mixes coordinates: `W F P`. That is
    `W E` with every new row projected onto the leading right singular vectors of the matrix, which
    `Recipe.apply` does for each matrix separately. The published models continue with `F` and `P`;
    here the model keeps its shape, and source rows do not change.

    The auxiliaries are vectors of the target's tokens (`target`) and of the source's (`source`) in
    one space, such as ColexNet+ (`lexigraft.auxiliary.read_word_vectors`). A new token that differs
    from a source token only in case copies it. One without a vector falls back (the published code
    draws such coordinates at random).

    Parameters
    ----------
    dimensions
        Rank of the factorization: 100, 200 and 400 in the paper. None, or at least the width of
        the matrix, for the full rank.
    neighbours, temperature
        See `NeighbourInitializer`.

    References
    ----------
    .. [1] Liu, Lin, Wang and Schütze 2024, "OFA: A Framework of Initializing Unseen Subword
       Embeddings for Efficient Large-scale Multilingual Continued Pretraining", section 3.
    """

    needs = ("target", "source")
    dimensions: int | None = integer(None)

    def _fit(self, corpus: Corpus, auxiliary: Auxiliaries) -> None:
        super()._fit(corpus, auxiliary)
        self.recipe_ = replace(cast(Recipe, self.recipe_), rank=self.dimensions)

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        tokens, sources, weights = self._neighbour_weights(pair, auxiliary)
        source_of = _equal_ignoring_case(pair)
        copies = np.array(list(source_of), dtype=np.int64)
        others = ~np.isin(tokens, copies)
        return rows_with_fallback(
            pair,
            np.concatenate([tokens[others], copies]),
            np.concatenate([sources[others], np.array(list(source_of.values()), dtype=np.int64)]),
            np.concatenate([weights[others], np.ones(len(copies))]),
        )


def _equal_ignoring_case(pair: VocabularyPair) -> dict[int, int]:
    """New tokens that equal a source token ignoring case, and that source token."""
    texts: dict[bytes, int] = {}
    ordinary = (i for i in pair.source_ids.tolist() if i not in pair.source_special_ids)
    # Of several the one in lower case, which sorts last, is used.
    for source_id in sorted(ordinary, key=lambda i: pair.source_bytes[i]):
        texts[_lower(pair.source_bytes[source_id])] = source_id
    return {
        new_id: texts[text]
        for new_id in pair.new_ids.tolist()
        if new_id not in pair.target_special_ids
        and (text := _lower(pair.target_bytes[new_id])) in texts
    }


def _lower(piece: bytes) -> bytes:
    """The bytes of a token in lower case if they are valid UTF-8."""
    try:
        return piece.decode("utf-8").lower().encode()
    except UnicodeDecodeError:
        return piece
