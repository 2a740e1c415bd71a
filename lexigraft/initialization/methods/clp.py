"""CLP: a new token is a mixture of shared tokens, weighted by similarity in a helper model."""

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.decomposition import check_dense
from lexigraft.initialization.options import boolean
from lexigraft.initialization.similarity import AnchorInitializer


class CLP(AnchorInitializer):
    """Cosine similarities to all shared tokens, divided by their sum; some are negative [1]_.

    The auxiliary `plm` holds the embedding rows of a helper model with the target tokenizer. A new
    token without a row in it, or with similarities whose sum is not positive, falls back.

    Parameters
    ----------
    sparse
        Use sparsemax over the similarities instead (CLP+ [2]_): few weights, none negative. In CLP
        as published, every new token uses every shared token, which does not fit into memory for
        two large vocabularies.

    References
    ----------
    .. [1] Ostendorff and Rehm 2023, "Efficient Language Model Training through Cross-Lingual and
       Progressive Transfer Learning".
    .. [2] Yamaguchi, Villavicencio and Aletras 2024, "An Empirical Study on Cross-lingual
       Vocabulary Adaptation for Efficient Language Model Inference".
    """

    title = "CLP"
    needs = ("plm",)
    without_anchors = (
        "a row in the helper model, so there is nothing to mix; give a helper that has the target "
        "tokenizer"
    )
    sparse: bool = boolean(False)

    def _weights(self, queries: np.ndarray, anchors: np.ndarray) -> csr_array:
        if self.sparse:
            return super()._weights(queries, anchors)
        check_dense(self.name, len(queries), len(anchors), "set its option 'sparse' to true")
        cosines = (queries @ anchors.T).astype(np.float64)
        total = cosines.sum(axis=1)
        valid = total > 0
        cosines *= np.where(valid, 1 / np.where(valid, total, 1), 0)[:, None]
        return csr_array(cosines)
