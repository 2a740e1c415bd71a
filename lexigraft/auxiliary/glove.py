"""GloVe vectors of a tokenized corpus, for UnifyVocab.

The objective is the sum over all nonzero cells of the co-occurrence matrix X of
`f(X_ij) (w_i · c_j + a_i + b_j - log X_ij)²`, `f(x) = min(1, (x / x_max)^alpha)` (Pennington,
Socher and Manning 2014, equation 8), in which a pair of tokens at distance d counts 1/d (sections
3.1 and 4.2). AdaGrad minimizes it, one cell after the other.

Tokens are partitioned into blocks, and the cells of X into strata; strata in different blocks of
rows and of columns share no parameter, so that threads can process them at the same time and the
result does not depend on the number of threads (Gemulla, Nijkamp, Haas and Sismanis 2011,
section 4).
"""

import logging
import math
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from tqdm import tqdm

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.tokenized_text import read_token_ids, write_token_ids
from lexigraft.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_PAIRS_AT_ONCE = 1 << 23
# Most pairs are of the few hundred most frequent tokens: these are counted in a dense table, and
# only the others are sorted.
_FREQUENT = 4096
_BLOCKS = 16  # also the maximum number of busy threads
logger = logging.getLogger(__name__)


def train_glove(
    tokenizer: "PreTrainedTokenizerFast",
    corpus: Iterable[str],
    *,
    dimensions: int = 300,
    window: int = 15,
    epochs: int = 15,
    minimum_count: int = 5,
    x_max: float = 10.0,
    alpha: float = 0.75,
    learning_rate: float = 0.05,
    seed: int = 0,
    threads: int = 1,
) -> TokenVectors:
    """Train GloVe vectors [1]_ of the tokens of a tokenizer.

    Each is the sum of a token's two vectors, without biases. Weighting and updates are those of the
    authors' program; the defaults are those of UnifyVocab [2]_ and its code. The corpus is read
    once and tokenized into a temporary file. Special tokens, and tokens that occur less than
    `minimum_count` times, are ignored and get no vector. Same corpus, options and seed on one kind
    of processor: same bits, with any number of threads. A UserError is raised if the corpus is one
    string, no token occurs often enough or has a neighbour, or the learning rate is too large.

    Parameters
    ----------
    window
        Number of context tokens on either side; one at distance d counts 1/d.
    epochs
        Epochs over the nonzero cells of the co-occurrence matrix.
    x_max, alpha
        Cells of at least `x_max` have weight 1 in the objective, smaller ones
        `(x / x_max) ** alpha`.
    learning_rate
        Learning rate of AdaGrad, whose sums of squares start at one.
    seed
        Seed of the initial values and of the order of the cells.
    threads
        At most 16.

    References
    ----------
    .. [1] Pennington, Socher and Manning 2014, "GloVe: Global Vectors for Word Representation".
    .. [2] UnifyVocab, "Unifying Vocabulary of Large Language Model with Statistical Token-level
       Alignment", section 2.1 and appendix A.

    Examples
    --------
    >>> vectors = train_glove(tokenizer, open("train.txt"))  # doctest: +SKIP
    >>> vectors.vectors.shape  # doctest: +SKIP
    (6312, 300)
    """
    with tempfile.TemporaryDirectory(prefix="lexigraft-glove-") as folder:
        file = Path(folder) / "ids"
        counts = write_token_ids(tokenizer, corpus, file)
        tokens = np.flatnonzero(counts >= minimum_count)
        number = np.full(len(counts), -1, dtype=np.int64)
        number[tokens] = np.arange(len(tokens))
        counted = count_cooccurrences(read_token_ids(file), number, window)
    if not len(counted.values):
        raise UserError(
            f"minimum_count: no two tokens that occur {minimum_count} times occur in one sentence; "
            "give more text or a smaller minimum_count"
        )
    logger.info("%d tokens, %d pairs of them co-occur", len(tokens), len(counted.values))
    rng = np.random.default_rng(seed)
    words, contexts = initial_parameters(len(tokens), dimensions, rng)
    cells = stratify(counted, x_max, alpha, rng)
    steps = descend(
        cells, words, contexts, epochs=epochs, learning_rate=learning_rate, rng=rng, threads=threads
    )
    for epoch, cost in enumerate(tqdm(steps, "GloVe", epochs, unit=" epochs", disable=None), 1):
        logger.info("epoch %d: cost %.6f", epoch, cost)
        if not math.isfinite(cost):
            raise UserError(f"learning_rate: {learning_rate} is too large; training diverged")
    vectors = (words + contexts)[:, :-1]
    return TokenVectors(tokens.astype(np.int64), np.ascontiguousarray(vectors))


@dataclass(frozen=True)
class Cooccurrences:
    """The upper triangle of a symmetric matrix X with its diagonal, in row-major order.

    A value is the sum of 1/d over all pairs of the two tokens that are d apart; on the diagonal
    twice that, since such a pair counts in both directions.
    """

    rows: np.ndarray  # int32 [n]
    columns: np.ndarray  # int32 [n], none below its row
    values: np.ndarray  # float64 [n], positive
    size: int  # rows of X


def count_cooccurrences(ids: np.ndarray, number: np.ndarray, window: int) -> Cooccurrences:
    """Count weighted pairs of tokens within a window on either side, never across sentences.

    `ids` (int32) are sentences of token ids, each followed by a negative number. `number` (int64
    [largest id + 1]) is the row of each token in X, without gaps; -1 for tokens that are removed
    from the text. Needs 16 bytes for each nonzero cell of X, at its peak twice that, and 200 MB.
    """
    size = int(number.max(initial=-1)) + 1
    frequent = np.sort(np.argsort(-_counted(ids, number, size), kind="stable")[:_FREQUENT])
    place = np.full(size, -1, dtype=np.int64)  # of each row in the table of frequent ones, or -1
    place[frequent] = np.arange(len(frequent))
    table = np.zeros((len(frequent), len(frequent)))
    # A pair and its distance are one integer: these sort ten times faster than pairs of arrays.
    bits = window.bit_length()
    buffer = np.empty(max(_PAIRS_AT_ONCE, window), dtype=np.int64)
    runs: list[tuple[np.ndarray, np.ndarray]] = []
    position = 0
    while position < len(ids):
        position, filled = _pairs(ids, number, place, table, window, bits, position, buffer)
        found = buffer[:filled]
        found.sort()
        runs.append(_summed(found, bits))
        # Each run is at least twice as long as the next, so that each cell is merged few times.
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            runs.append(_merged(*runs.pop(-2), *runs.pop()))
    low, high = np.nonzero(table)  # in ascending order, as the frequent rows are
    runs.append((frequent[low] * size + frequent[high], table[low, high]))
    while len(runs) > 1:
        runs.append(_merged(*runs.pop(-2), *runs.pop()))
    cells, values = runs[0]
    rows, columns = np.divmod(cells, max(size, 1))
    values = np.where(rows == columns, 2 * values, values)
    return Cooccurrences(rows.astype(np.int32), columns.astype(np.int32), values, size)


@dataclass(frozen=True)
class GloveCells:
    """The nonzero cells of X, grouped by stratum, in random order.

    `starts` is where each stratum begins; that of blocks i and j has number `i · blocks + j`.
    """

    rows: np.ndarray  # int32 [n]
    columns: np.ndarray  # int32 [n]
    logs: np.ndarray  # float32 [n]: log X_ij
    weights: np.ndarray  # float32 [n]: f(X_ij)
    starts: np.ndarray  # [blocks² + 1]


def initial_parameters(
    size: int, dimensions: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Initial vectors of X's rows and of its columns, both float32 [size, dimensions + 1].

    The last number of each vector is its bias. All are uniform within ± 0.5 / (dimensions + 1), as
    in the authors' program.
    """
    values = rng.random((2, size, dimensions + 1), dtype=np.float32)
    words, contexts = (values - np.float32(0.5)) / np.float32(dimensions + 1)
    return words, contexts


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
    words: np.ndarray,
    contexts: np.ndarray,
    *,
    epochs: int,
    learning_rate: float,
    rng: np.random.Generator,
    threads: int = 1,
) -> Iterator[float]:
    """Update `words` and `contexts` in place, one epoch over all cells per yielded value.

    That is the mean over the cells of half their term of the objective before their update, as the
    authors' program reports it.
    """
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


@njit(nogil=True)
def _counted(ids, number, size):
    """Number of occurrences of the token of each row."""
    counts = np.zeros(size, dtype=np.int64)
    for token in ids:
        if token >= 0 and number[token] >= 0:
            counts[number[token]] += 1
    return counts


@njit(nogil=True)
def _pairs(ids, number, place, table, window, bits, start, buffer):
    """Count the pairs whose second token is at `start` or later, until the buffer is full.

    Pairs of two frequent tokens are added to the table, others are written to the buffer.
    Returns the position of the next token, and how many pairs were written.
    """
    size = len(place)
    filled = 0
    position = start
    while position < len(ids) and filled + window <= len(buffer):
        one = number[ids[position]] if ids[position] >= 0 else -1
        if one >= 0:
            distance = 1
            before = position - 1
            while distance <= window and before >= 0 and ids[before] >= 0:
                other = number[ids[before]]
                if other >= 0:
                    low, high = min(one, other), max(one, other)
                    if place[low] >= 0 and place[high] >= 0:
                        table[place[low], place[high]] += 1.0 / distance
                    else:
                        buffer[filled] = ((low * size + high) << bits) | distance
                        filled += 1
                    distance += 1
                before -= 1
        position += 1
    return position, filled


@njit(nogil=True)
def _summed(pairs, bits):
    """Cells in ascending order, and the sum of 1/distance in each, of pairs in ascending order."""
    cells = np.empty(len(pairs), dtype=np.int64)
    values = np.empty(len(pairs), dtype=np.float64)
    last = -1
    for pair in pairs:
        cell = pair >> bits
        if last < 0 or cells[last] != cell:
            last += 1
            cells[last] = cell
            values[last] = 0.0
        values[last] += 1.0 / (pair & ((1 << bits) - 1))
    return cells[: last + 1].copy(), values[: last + 1].copy()


@njit(nogil=True)
def _merged(cells, values, more_cells, more_values):
    """Two runs of cells in ascending order as one, the values of equal cells added."""
    merged = np.empty(len(cells) + len(more_cells), dtype=np.int64)
    sums = np.empty(len(merged), dtype=np.float64)
    one = other = length = 0
    while one < len(cells) or other < len(more_cells):
        if other == len(more_cells) or (one < len(cells) and cells[one] < more_cells[other]):
            merged[length], sums[length] = cells[one], values[one]
            one += 1
        elif one == len(cells) or more_cells[other] < cells[one]:
            merged[length], sums[length] = more_cells[other], more_values[other]
            other += 1
        else:
            merged[length], sums[length] = cells[one], values[one] + more_values[other]
            one += 1
            other += 1
        length += 1
    return merged[:length].copy(), sums[:length].copy()


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
