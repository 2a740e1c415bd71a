"""OFA: as WECHSEL, in multilingual word vectors, and in fewer coordinates of the source rows.

Liu, Lin, Wang and Schütze 2024; a baseline of papers 001 to 004.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.fallback import with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.neighbours import neighbour_weights
from lexigraft.initialization.options import above_zero, whole
from lexigraft.initialization.pairing import VocabularyPair


class Ofa(RecipeInitializer):
    """Softmax over the cosine similarities to the nearest source tokens, in `dimensions` only.

    OFA writes the source matrix as coordinates times primitives, `E = F P`, by a singular value
    decomposition, keeps the leading `dimensions` of both, and mixes coordinates: `W F P`. That is
    `W E` with every new row projected onto the leading right singular vectors of the matrix, which
    `Recipe.apply` does for each matrix by itself. As published, a model then goes on in `F` and
    `P`; here it keeps its shape, and source rows stay what they are.

    The auxiliaries are vectors of the target's tokens (`target`) and of the source's (`source`) in
    one space, such as ColexNet+ (`lexigraft.auxiliary.read_word_vectors`). A new token that differs
    in case alone from a source token is that token. One without a vector falls back to the mean of
    its source pieces, and one of which the source knows no piece to the mean of all source tokens
    (published code draws such coordinates at random).

    Parameters
    ----------
    dimensions
        Coordinates that are kept: 100, 200 and 400 in the paper. None, or the width of the matrix
        and more, keeps all.
    neighbours
        Source tokens that a new token leans on.
    temperature
        What cosines are divided by: the smaller, the more weighs the nearest.
    """

    needs = ("target", "source")

    def __init__(
        self, dimensions: int | None = None, neighbours: int = 10, temperature: float = 0.1
    ) -> None:
        number = isinstance(dimensions, int) and not isinstance(dimensions, bool)
        if dimensions is not None and not (number and dimensions >= 1):
            raise UserError(
                f"option 'dimensions' of initializer 'ofa': {dimensions!r} is no whole number from "
                "1 up; null keeps all"
            )
        self.dimensions = dimensions
        self.neighbours = whole("ofa", "neighbours", neighbours)
        self.temperature = above_zero("ofa", "temperature", temperature)

    def _fit(self, corpus: Iterable[str] | None, auxiliary: Roles) -> None:
        super()._fit(corpus, auxiliary)
        self.recipe_ = replace(self.recipe_, rank=self.dimensions)

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        new_ids, source_ids, weights = neighbour_weights(
            self.name, auxiliary, pair, self.neighbours, self.temperature
        )
        copied = _alike_in_lower_case(pair)
        mixed = weights[~np.isin(new_ids, list(copied))].tocoo()
        new_ids = np.setdiff1d(new_ids, list(copied))
        covered = np.sort(np.concatenate([new_ids, np.array(list(copied), dtype=np.int64)]))
        of = np.concatenate(
            [
                np.searchsorted(covered, new_ids)[mixed.coords[0]],
                np.searchsorted(covered, list(copied)),
            ]
        )
        sources = np.concatenate([source_ids[mixed.coords[1]], list(copied.values())])
        weights_of = np.concatenate([mixed.data, np.ones(len(copied))])
        return with_fallback(pair, covered, of, sources.astype(np.int64), weights_of)


def _alike_in_lower_case(pair: VocabularyPair) -> dict[int, int]:
    """New tokens whose text is that of a source token but for case, and that token."""
    texts: dict[bytes, int] = {}
    ordinary = (i for i in pair.source_ids.tolist() if i not in pair.source_special_ids)
    # Of several the one in lower case, which sorts last.
    for source_id in sorted(ordinary, key=lambda i: pair.source_bytes[i]):
        texts[_lower(pair.source_bytes[source_id])] = source_id
    return {
        new_id: texts[text]
        for new_id in pair.new_ids.tolist()
        if new_id not in pair.target_special_ids
        and (text := _lower(pair.target_bytes[new_id])) in texts
    }


def _lower(piece: bytes) -> bytes:
    """What a token stands for, in lower case where it is text."""
    try:
        return piece.decode("utf-8").lower().encode()
    except UnicodeDecodeError:
        return piece
