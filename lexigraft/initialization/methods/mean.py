"""Mean: a new token is the mean of the source tokens it consists of.

Paper 000, section 4.3; paper 001, equations 2 and 3.
"""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles
from lexigraft.initialization.decomposition import decompose, mean_rows
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.pairing import VocabularyPair

_WITHOUT_PIECES = ("mean-of-all", "random")


class Mean(RecipeInitializer):
    """Uniform over the source's pieces of the token; a piece that occurs twice counts twice.

    Pieces that the source does not know (no byte fallback) are left out. A token without a known
    piece falls back.

    Parameters
    ----------
    without_pieces
        What such a token is: the `mean-of-all` source tokens, or `random` weights on all of them,
        each drawn from (0, 1) and divided by their sum (paper 001, equation 3).
    """

    def __init__(self, without_pieces: str = "mean-of-all") -> None:
        if without_pieces not in _WITHOUT_PIECES:
            raise UserError(
                f"option 'without_pieces' of initializer 'mean': {without_pieces!r} is none of "
                f"{', '.join(_WITHOUT_PIECES)}"
            )
        self.without_pieces = without_pieces

    def _new_rows(
        self, pair: VocabularyPair, corpus: Iterable[str] | None, auxiliary: Roles
    ) -> tuple[csr_array, np.ndarray]:
        pieces = decompose(pair, pair.new_ids.tolist())
        unknown = np.array([not ids for ids in pieces], dtype=bool)
        rows = mean_rows(pieces, pair.n_source)
        if self.without_pieces == "mean-of-all" or not unknown.any():
            return rows, unknown
        # These tokens alone lean on the mean of all, which is the last column.
        rows.data[rows.indices == pair.n_source] = 0
        return csr_array(rows + self._random(pair, unknown)), unknown

    def _random(self, pair: VocabularyPair, unknown: np.ndarray) -> csr_array:
        """Random rows of some new tokens, of which all other rows are empty."""
        count, size = int(unknown.sum()), len(pair.source_ids)
        weights = self._draws("weights").random((count, size))
        weights /= weights.sum(axis=1, keepdims=True)
        place = (np.repeat(np.flatnonzero(unknown), size), np.tile(pair.source_ids, count))
        return csr_array((weights.ravel(), place), shape=(len(unknown), pair.n_source + 1))
