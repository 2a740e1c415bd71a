"""CLP: a new token is a mixture of shared tokens, weighted by similarity in a helper model.

Ostendorff and Rehm 2023; sparse as CLP+ of Yamaguchi, Villavicencio and Aletras 2024.
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

_MOST_WEIGHTS = 1 << 27  # with its copies on the way to a file, about 5 GB


class Clp(RecipeInitializer):
    """Weights are the cosine similarities to all shared tokens over their sum; some are negative.

    The auxiliary `plm` holds the embedding rows of a helper model with the target tokenizer. A new
    token without a row in it, with one of zeros, or with similarities whose sum is not above zero
    falls back to the mean of its source pieces, and one of which the source knows no piece to the
    mean of all source tokens.

    Parameters
    ----------
    sparse
        Weights are the sparsemax over the similarities instead (CLP+): few, and none negative. As
        published, every new token leans on every shared one, which for two large vocabularies is
        more than memory holds.

    Attributes
    ----------
    anchors_ : int
        Shared tokens that took part.
    """

    needs = ("plm",)

    anchors_: int

    def __init__(self, sparse: bool = False) -> None:
        if not isinstance(sparse, bool):
            raise UserError(f"option 'sparse' of initializer 'clp': {sparse!r} is no boolean")
        self.sparse = sparse

    def statistics(self) -> dict[str, Any]:
        """What every recipe counts, and: anchors."""
        return {**super().statistics(), "anchors": self.anchors_}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        helper = directions(target_vectors(self.name, auxiliary, pair, role="plm"))
        anchors = np.intersect1d(helper.tokens, pair.shared_ids, assume_unique=True)
        new = np.intersect1d(helper.tokens, pair.new_ids, assume_unique=True)
        self.anchors_ = len(anchors)
        if not self.anchors_:
            raise UserError(
                "initializer 'clp': no shared token has a row in the helper model, so there is "
                "nothing to mix; give a helper that has the target tokenizer"
            )
        if not self.sparse and len(new) * len(anchors) > _MOST_WEIGHTS:
            raise UserError(
                f"initializer 'clp': {len(new):,} new tokens that lean on {len(anchors):,} shared "
                "ones each are more weights than memory holds; set its option 'sparse' to true"
            )
        queries, bases = rows_of(helper, new), rows_of(helper, anchors)
        if self.sparse:
            mixed = sparsemax_of_cosines(queries, bases).tocoo()
            made = np.ones(len(new), dtype=bool)
        else:
            cosines = (queries @ bases.T).astype(np.float64)
            total = cosines.sum(axis=1)
            made = total > 0
            cosines *= np.where(made, 1 / np.where(made, total, 1), 0)[:, None]
            mixed = csr_array(cosines).tocoo()
        sources = pair.source_of[anchors][mixed.coords[1]]
        at = np.cumsum(made)[mixed.coords[0]] - 1
        return with_fallback(pair, new[made], at, sources, mixed.data)
