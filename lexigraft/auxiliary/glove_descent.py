"""GloVe's objective and its descent: AdaGrad, one cell of X after the other.

Pennington, Socher and Manning 2014, equation 8: the sum over all cells that are not zero of
`f(X_ij) (w_i · c_j + a_i + b_j - log X_ij)²`, `f(x) = min(1, (x / x_max)^alpha)`.

Tokens are dealt to blocks, and the cells of X with them to strata; strata in different blocks of
rows and of columns share no parameter, so that threads descend on them at a time and the result is
the same however many there are (Gemulla, Nijkamp, Haas and Sismanis 2011, section 4).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from lexigraft.auxiliary.glove_counts import Cooccurrences

_BLOCKS = 16  # also the most threads that have work


@dataclass(frozen=True)
class Parameters:
    """A vector and a bias for every token in either part that it plays.

    Attributes
    ----------
    words, contexts
        float32 [size, dimensions + 1]: the vectors of X's rows and of its columns; the last number
        of each is its bias.
    """

    words: np.ndarray
    contexts: np.ndarray


@dataclass(frozen=True)
class Cells:
    """The cells of X that are not zero, those of each stratum together, in random order.

    Attributes
    ----------
    rows, columns
        int32 [n].
    logs, weights
        float32 [n]: log X_ij and f(X_ij).
    starts
        [blocks² + 1]: where each stratum starts; that of blocks i and j is number `i · blocks + j`.
    """

    rows: np.ndarray
    columns: np.ndarray
    logs: np.ndarray
    weights: np.ndarray
    starts: np.ndarray


def starting_values(size: int, dimensions: int, draws: np.random.Generator) -> Parameters:
    """Uniform within ± 0.5 / (dimensions + 1), as the authors' program starts."""
    values = draws.random((2, size, dimensions + 1), dtype=np.float32)
    words, contexts = (values - np.float32(0.5)) / np.float32(dimensions + 1)
    return Parameters(words, contexts)


def cells_of(
    counted: Cooccurrences, x_max: float, alpha: float, draws: np.random.Generator
) -> Cells:
    """Both halves of X, dealt to strata and shuffled within each. Takes 40 bytes for each cell."""
    above = counted.rows != counted.columns
    rows = np.concatenate([counted.rows, counted.columns[above]])
    columns = np.concatenate([counted.columns, counted.rows[above]])
    values = np.concatenate([counted.values, counted.values[above]]).astype(np.float32)
    # Frequent tokens have most cells: dealt in turn, they fill the strata alike.
    cells_of_token = np.bincount(rows, minlength=counted.size)
    block = np.empty(counted.size, dtype=np.uint8)
    block[np.argsort(-cells_of_token, kind="stable")] = np.arange(counted.size) % _BLOCKS
    stratum = block[rows] * np.uint8(_BLOCKS) + block[columns]
    starts = np.zeros(_BLOCKS**2 + 1, dtype=np.int64)
    np.cumsum(np.bincount(stratum, minlength=_BLOCKS**2), out=starts[1:])
    order = np.argsort(stratum, kind="stable")
    for start, end in pairwise(starts.tolist()):
        draws.shuffle(order[start:end])
    values = values[order]
    weights = np.minimum(values / np.float32(x_max), 1) ** np.float32(alpha)
    return Cells(rows[order], columns[order], np.log(values), weights, starts)


def descend(
    cells: Cells,
    parameters: Parameters,
    *,
    epochs: int,
    learning_rate: float,
    draws: np.random.Generator,
    threads: int = 1,
) -> Iterator[float]:
    """Change the parameters in place, one pass over all cells for each value that is taken.

    Yields
    ------
    float
        The mean over the cells of half their term of the objective, each taken just before its
        step, as the authors' program reports it.
    """
    words, contexts = parameters.words, parameters.contexts
    # Sums of squared steps start at one, so that the first steps are those of the learning rate.
    squares = np.ones_like(words), np.ones_like(contexts)

    def step(stratum: int) -> float:
        part = slice(cells.starts[stratum], cells.starts[stratum + 1])
        seen = (cells.rows[part], cells.columns[part], cells.logs[part], cells.weights[part])
        return _adagrad(*seen, words, contexts, *squares, np.float32(learning_rate))

    blocks = np.arange(_BLOCKS)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(epochs):
            total = 0.0
            for shift in draws.permutation(_BLOCKS):
                apart = blocks * _BLOCKS + (blocks + shift) % _BLOCKS
                total += sum(pool.map(step, apart.tolist()))
            yield total / len(cells.rows)


# Sums may be taken in another order and quotients by their inverse, which is what makes it fast;
# infinity and what is no number keep their meaning, so that a divergence is seen.
@njit(nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")
def _adagrad(rows, columns, logs, weights, words, contexts, word_squares, context_squares, rate):
    """One step for each cell in turn; returns the sum of their halved terms."""
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
