"""GloVe's objective and its minimization by AdaGrad, one cell of X after the other.

The objective is the sum over all nonzero cells of `f(X_ij) (w_i · c_j + a_i + b_j - log X_ij)²`,
`f(x) = min(1, (x / x_max)^alpha)` (Pennington, Socher and Manning 2014, equation 8).

Tokens are partitioned into blocks, and the cells of X into strata; strata in different blocks of
rows and of columns share no parameter, so that threads can process them at the same time and the
result does not depend on the number of threads (Gemulla, Nijkamp, Haas and Sismanis 2011,
section 4).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from lexigraft.auxiliary.glove_counts import Cooccurrences

_BLOCKS = 16  # also the maximum number of busy threads


@dataclass(frozen=True)
class GloveParameters:
    """A vector and a bias for each token, as a word and as a context.

    Attributes
    ----------
    words, contexts
        float32 [size, dimensions + 1]: the vectors of X's rows and of its columns; the last number
        of each is its bias.
    """

    words: np.ndarray
    contexts: np.ndarray


@dataclass(frozen=True)
class GloveCells:
    """The nonzero cells of X, grouped by stratum, in random order.

    Attributes
    ----------
    rows, columns
        int32 [n].
    logs, weights
        float32 [n]: log X_ij and f(X_ij).
    starts
        [blocks² + 1]: start of each stratum; that of blocks i and j has number `i · blocks + j`.
    """

    rows: np.ndarray
    columns: np.ndarray
    logs: np.ndarray
    weights: np.ndarray
    starts: np.ndarray


def initial_parameters(size: int, dimensions: int, rng: np.random.Generator) -> GloveParameters:
    """Uniform values within ± 0.5 / (dimensions + 1), as in the authors' program."""
    values = rng.random((2, size, dimensions + 1), dtype=np.float32)
    words, contexts = (values - np.float32(0.5)) / np.float32(dimensions + 1)
    return GloveParameters(words, contexts)


def stratify(
    counted: Cooccurrences, x_max: float, alpha: float, rng: np.random.Generator
) -> GloveCells:
    """Both triangles of X in strata, shuffled within each. Needs 40 bytes for each cell."""
    above = counted.rows != counted.columns
    rows = np.concatenate([counted.rows, counted.columns[above]])
    columns = np.concatenate([counted.columns, counted.rows[above]])
    values = np.concatenate([counted.values, counted.values[above]]).astype(np.float32)
    # Frequent tokens have most cells: distributed in turn, they fill the strata evenly.
    cells_of_token = np.bincount(rows, minlength=counted.size)
    block = np.empty(counted.size, dtype=np.uint8)
    block[np.argsort(-cells_of_token, kind="stable")] = np.arange(counted.size) % _BLOCKS
    stratum = block[rows] * np.uint8(_BLOCKS) + block[columns]
    starts = np.zeros(_BLOCKS**2 + 1, dtype=np.int64)
    np.cumsum(np.bincount(stratum, minlength=_BLOCKS**2), out=starts[1:])
    order = np.argsort(stratum, kind="stable")
    for start, end in pairwise(starts.tolist()):
        rng.shuffle(order[start:end])
    values = values[order]
    weights = np.minimum(values / np.float32(x_max), 1) ** np.float32(alpha)
    return GloveCells(rows[order], columns[order], np.log(values), weights, starts)


def descend(
    cells: GloveCells,
    parameters: GloveParameters,
    *,
    epochs: int,
    learning_rate: float,
    rng: np.random.Generator,
    threads: int = 1,
) -> Iterator[float]:
    """Update the parameters in place, one epoch over all cells per yielded value.

    Yields
    ------
    float
        The mean over the cells of half their term of the objective before their update, as the
        authors' program reports it.
    """
    words, contexts = parameters.words, parameters.contexts
    # Sums of squared gradients start at one, so that the first steps use the full learning rate.
    squares = np.ones_like(words), np.ones_like(contexts)

    def step(stratum: int) -> float:
        part = slice(cells.starts[stratum], cells.starts[stratum + 1])
        seen = (cells.rows[part], cells.columns[part], cells.logs[part], cells.weights[part])
        return _adagrad(*seen, words, contexts, *squares, np.float32(learning_rate))

    blocks = np.arange(_BLOCKS)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(epochs):
            total = 0.0
            for shift in rng.permutation(_BLOCKS):
                apart = blocks * _BLOCKS + (blocks + shift) % _BLOCKS
                total += sum(pool.map(step, apart.tolist()))
            yield total / len(cells.rows)


# Reassociated sums and reciprocal multiplication make it fast; infinity and NaN keep their meaning,
# so that a divergence is noticed.
@njit(nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")
def _adagrad(rows, columns, logs, weights, words, contexts, word_squares, context_squares, rate):
    """One update for each cell in turn; returns the sum of their halved terms."""
    bias = words.shape[1] - 1
    cost = 0.0
    for at in range(len(rows)):
        word, context = words[rows[at]], contexts[columns[at]]
        word_square, context_square = word_squares[rows[at]], context_squares[columns[at]]
        difference = word[bias] + context[bias] - logs[at]
        for k in range(bias):
            difference += word[k] * context[k]
        pull = weights[at] * difference
        cost += 0.5 * pull * difference
        pull *= rate
        for k in range(bias):
            to_word, to_context = pull * context[k], pull * word[k]
            word[k] -= to_word / np.sqrt(word_square[k])
            context[k] -= to_context / np.sqrt(context_square[k])
            word_square[k] += to_word * to_word
            context_square[k] += to_context * to_context
        word[bias] -= pull / np.sqrt(word_square[bias])
        context[bias] -= pull / np.sqrt(context_square[bias])
        word_square[bias] += pull * pull
        context_square[bias] += pull * pull
    return cost
