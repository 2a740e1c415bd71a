"""Recipe rows of all new tokens, from those of the tokens that a method covers."""

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.decomposition import decompose, mean_rows
from lexigraft.initialization.pairing import VocabularyPair


def with_fallback(
    pair: VocabularyPair,
    covered: np.ndarray,
    at: np.ndarray,
    source_ids: np.ndarray,
    weights: np.ndarray,
) -> tuple[csr_array, np.ndarray]:
    """The rows of covered tokens, and for each other new token the mean of its source pieces.

    Parameters
    ----------
    covered
        Target ids of the new tokens that the method covers, ascending.
    at, source_ids, weights
        [n]: one weight each, of a covered token (an index into `covered`) on a source row. Weights
        of one token on the same row are added up.

    Returns
    -------
    rows : csr_array
        [len(new_ids), n_source + 1], as `recipe.assembled` takes them. A token of which the source
        knows no piece is the mean of all source tokens.
    fallback : ndarray of bool
        [len(new_ids)], true where the token is not covered.
    """
    missing = ~np.isin(pair.new_ids, covered)
    rest = mean_rows(decompose(pair, pair.new_ids[missing].tolist()), pair.n_source).tocoo()
    of = [np.searchsorted(pair.new_ids, covered)[at], np.flatnonzero(missing)[rest.coords[0]]]
    columns = np.concatenate([source_ids, rest.coords[1]])
    values = np.concatenate([weights, rest.data])
    shape = (len(pair.new_ids), pair.n_source + 1)
    return csr_array((values, (np.concatenate(of), columns)), shape=shape), missing
