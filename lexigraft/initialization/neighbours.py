"""Recipes of new tokens over the nearest source tokens, in one space of vectors of both.

WECHSEL (Minixhofer et al. 2022, section 3) and OFA (Liu et al. 2024, section 3.2) weigh them alike.
"""

import numpy as np
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.auxiliaries import Roles, source_vectors, target_vectors
from lexigraft.initialization.highest import highest
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.similarity import directions, rows_of, score_blocks


def neighbour_weights(
    method: str, auxiliary: Roles, pair: VocabularyPair, neighbours: int, temperature: float
) -> tuple[np.ndarray, np.ndarray, csr_array]:
    """Weights of the source tokens nearest to each new token that has a vector.

    Parameters
    ----------
    method
        Name of the initializer, for messages.
    auxiliary
        `target` and `source`: vectors of the tokens of both vocabularies, in one space. Special
        tokens and vectors of zeros take no part.
    neighbours
        How many source tokens a new token leans on; all where there are fewer.
    temperature
        What cosines are divided by before the softmax.

    Returns
    -------
    new_ids : ndarray of int
        [n]: new tokens with a vector, ascending.
    source_ids : ndarray of int
        [m]: source tokens with a vector, ascending.
    weights : csr_array
        [n, m], float64: rows non-negative and summing to one.

    Raises
    ------
    UserError
        One of both is missing or of another tokenizer, they are of different widths, or no source
        token has a vector.
    """
    target = directions(target_vectors(method, auxiliary, pair))
    source = directions(source_vectors(method, auxiliary, pair))
    if target.vectors.shape[1] != source.vectors.shape[1]:
        raise UserError(
            f"initializer '{method}': its auxiliaries have {target.vectors.shape[1]} dimensions "
            f"for the target and {source.vectors.shape[1]} for the source; give vectors of one "
            "space, such as word vectors aligned by a dictionary"
        )
    source_ids = np.setdiff1d(source.tokens, list(pair.source_special_ids))
    if not len(source_ids):
        raise UserError(
            f"initializer '{method}': no source token has a vector, so there is nothing to mix; "
            "give vectors of the source's language"
        )
    new_ids = np.setdiff1d(
        np.intersect1d(target.tokens, pair.new_ids), list(pair.target_special_ids)
    )
    weights = softmax_of_nearest(
        rows_of(target, new_ids), rows_of(source, source_ids), neighbours, temperature
    )
    return new_ids, source_ids, weights


def softmax_of_nearest(
    queries: np.ndarray, anchors: np.ndarray, k: int, temperature: float
) -> csr_array:
    """Softmax over the cosine similarities of each query to the `k` anchors nearest to it.

    Parameters
    ----------
    queries, anchors
        [n, dimensions] and [m, dimensions] with m at least 1, rows of length one.
    k
        All anchors where it is more than these.
    temperature
        What cosines are divided by.

    Returns
    -------
    csr_array
        [n, m], float64: rows of `k` weights that are above zero and sum to one.
    """
    k = min(k, len(anchors))
    chosen = np.empty((len(queries), k), dtype=np.int64)
    weights = np.empty((len(queries), k))
    for block, scores in score_blocks(queries, anchors):
        best = highest(scores, k)
        cosines = np.take_along_axis(scores, best, axis=1).astype(np.float64)
        exponents = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / temperature)
        chosen[block] = best
        weights[block] = exponents / exponents.sum(axis=1, keepdims=True)
    of = np.repeat(np.arange(len(queries)), k)
    return csr_array((weights.ravel(), (of, chosen.ravel())), shape=(len(queries), len(anchors)))
