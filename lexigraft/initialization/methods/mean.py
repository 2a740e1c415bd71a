"""Mean: a new token is the mean of its source pieces."""

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.decomposition import (
    NewRows,
    check_dense,
    decompose,
    mean_rows,
    tokenize_spelling,
)
from lexigraft.initialization.interface import Auxiliaries, Corpus, RecipeInitializer
from lexigraft.initialization.options import choice
from lexigraft.initialization.pairing import VocabularyPair


class Mean(RecipeInitializer):
    """Uniform weights on the source pieces; a piece that occurs twice counts twice [1]_ [2]_.

    Parameters
    ----------
    without_pieces
        Weights of a token without a known piece: the `mean-of-all` source tokens, or `random`
        weights on all of them, each drawn from (0, 1) and divided by their sum ([2]_, equation 3).
    pieces
        Which source pieces are used: those into which the source tokenizer's model splits the
        `token`; or those of its `spelling`, tokenized as if it were a text, as in the published
        code of [1]_.

    References
    ----------
    .. [1] Yamaguchi, Villavicencio and Aletras, "How Can We Effectively Expand the Vocabulary of
       LLMs with 0.01GB of Target Language Text?", section 4.3.
    .. [2] Han et al. 2025 (VocADT), "Adapters for Altering LLM Vocabularies: What Languages Benefit
       the Most?", equations 2 and 3.
    """

    without_pieces: str = choice("mean-of-all", "random")
    pieces: str = choice("token", "spelling")

    def _new_rows(self, pair: VocabularyPair, corpus: Corpus, auxiliary: Auxiliaries) -> NewRows:
        if self.pieces == "token":
            pieces = decompose(pair, pair.new_ids.tolist())
        else:
            pieces = tokenize_spelling(pair, pair.new_tokens)
        has_no_pieces = np.array([not ids for ids in pieces], dtype=bool)
        rows = mean_rows(pieces, pair.n_source)
        if self.without_pieces == "mean-of-all" or not has_no_pieces.any():
            return rows, has_no_pieces
        # Only these tokens use the last column, the mean of all.
        rows.data[rows.indices == pair.n_source] = 0
        count, size = int(has_no_pieces.sum()), len(pair.source_ids)
        check_dense(self.name, count, size, "set its option 'without_pieces' to mean-of-all")
        weights = self._generator("weights").random((count, size))
        weights /= weights.sum(axis=1, keepdims=True)
        positions = (
            np.repeat(np.flatnonzero(has_no_pieces), size),
            np.tile(pair.source_ids, count),
        )
        random_rows = csr_array((weights.ravel(), positions), shape=rows.shape)
        return csr_array(rows + random_rows), has_no_pieces
