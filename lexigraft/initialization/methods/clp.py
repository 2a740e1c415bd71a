"""CLP: a new token is a mixture of shared tokens, weighted by similarity in a helper model."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.arguments import Auxiliaries, check_boolean, target_vectors
from lexigraft.initialization.decomposition import rows_with_fallback
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import sparsemax_of_cosines, unit_vectors, vectors_of

_MOST_WEIGHTS = 1 << 27  # with its copies on the way to a file, about 5 GB


class CLP(RecipeInitializer):
    """Cosine similarities to all shared tokens, divided by their sum; some are negative [1]_.

    The auxiliary `plm` holds the embedding rows of a helper model with the target tokenizer. A new
    token without a row in it, with a zero row, or with similarities whose sum is not positive falls
    back to the mean of its source pieces, and one without source pieces to the mean of all source
    tokens.

    Parameters
    ----------
    sparse
        Use sparsemax over the similarities instead (CLP+ [2]_): few weights, none negative. As
        published, every new token uses every shared one, which for two large vocabularies does not
        fit into memory.

    Attributes
    ----------
    anchors_ : int
        Number of shared tokens in use.

    References
    ----------
    .. [1] Ostendorff and Rehm 2023, "Efficient Language Model Training through Cross-Lingual and
       Progressive Transfer Learning".
    .. [2] Yamaguchi, Villavicencio and Aletras 2024, "An Empirical Study on Cross-lingual
       Vocabulary Adaptation for Efficient Language Model Inference".
    """

    needs = ("plm",)

    anchors_: int

    def __init__(self, sparse: bool = False) -> None:
        self.sparse = check_boolean("clp", "sparse", sparse)

    def statistics(self) -> dict[str, Any]:
        """Statistics of the recipe, and anchors."""
        return {**super().statistics(), "anchors": self.anchors_}

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Auxiliaries
    ) -> tuple[csr_array, np.ndarray]:
        helper = unit_vectors(target_vectors(self.name, auxiliary, pair, role="plm"))
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
                f"initializer 'clp': {len(new):,} new tokens that use {len(anchors):,} shared "
                "ones each are more weights than fit into memory; set its option 'sparse' to true"
            )
        queries, bases = vectors_of(helper, new), vectors_of(helper, anchors)
        if self.sparse:
            mixed = sparsemax_of_cosines(queries, bases).tocoo()
            valid = np.ones(len(new), dtype=bool)
        else:
            cosines = (queries @ bases.T).astype(np.float64)
            total = cosines.sum(axis=1)
            valid = total > 0
            cosines *= np.where(valid, 1 / np.where(valid, total, 1), 0)[:, None]
            mixed = csr_array(cosines).tocoo()
        sources = pair.source_of[anchors][mixed.coords[1]]
        at = np.cumsum(valid)[mixed.coords[0]] - 1
        return rows_with_fallback(pair, new[valid], at, sources, mixed.data)
