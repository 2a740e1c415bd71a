"""GloVe vectors of a tokenized corpus, for UnifyVocab (Pennington, Socher and Manning 2014).

Tokens are partitioned into blocks, and the cells of X into strata. Strata in different blocks of
rows and of columns share no parameter, so the result does not depend on the number of threads
(Gemulla, Nijkamp, Haas and Sismanis 2011, section 4).
"""

import logging
import math
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numba import njit
from scipy.sparse import coo_array
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.source.encoding import check_corpus, encoded_batches
from lexigraft.vocabulary.token_bytes import special_ids, vocabulary_size

_PAIRS_AT_ONCE = 1 << 23
# Most pairs consist of the few hundred most frequent tokens: pairs of frequent tokens are counted
# in a dense table, and only the remaining pairs are sorted.
_FREQUENT = 4096
END_OF_SENTENCE = -1  # in files of token ids
_BLOCKS = 16  # also the maximum number of busy threads
logger = logging.getLogger(__name__)


def train_glove(
    tokenizer: PreTrainedTokenizerFast,
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

    A token's vector is the sum of its word and context vectors, without biases. The defaults are
    those of UnifyVocab [2]_. Special tokens, and tokens that occur less than `minimum_count` times,
    are ignored. The same corpus, options and seed give identical bits on one kind of processor,
    with any number of threads. A UserError is raised if no token occurs often enough or has a
    neighbour, or the learning rate is too large.

    Parameters
    ----------
    window
        Number of context tokens on either side; one at distance d counts 1/d.
    epochs
        Epochs over the nonzero cells of the co-occurrence matrix.
    x_max, alpha
        Cells of at least `x_max` have weight 1, smaller ones `(x / x_max) ** alpha`.
    learning_rate
        Learning rate of AdaGrad, whose sums of squares start at one.
    seed
        Seed of the initial values and of the order of the cells.
    threads
        Number of threads, of which at most 16 are busy.

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
        counts[counts < minimum_count] = 0
        token_ids = np.flatnonzero(counts)
        cooccurrences = count_cooccurrences(read_token_ids(file), counts, window)
    if not cooccurrences.nnz:
        raise UserError(
            f"minimum_count: no two tokens that occur {minimum_count} times occur in the same "
            "sentence; give more text or a smaller minimum_count"
        )
    logger.info("%d tokens, %d co-occurring pairs", len(token_ids), cooccurrences.nnz)
    rng = np.random.default_rng(seed)
    word_vectors, context_vectors = initial_parameters(len(token_ids), dimensions, rng)
    strata = stratify(cooccurrences, x_max, alpha, rng)
    costs = descend(strata, word_vectors, context_vectors, epochs, learning_rate, rng, threads)
    for epoch, cost in enumerate(tqdm(costs, "GloVe", epochs, unit=" epochs", disable=None), 1):
        logger.info("epoch %d: cost %.6f", epoch, cost)
        if not math.isfinite(cost):
            raise UserError(f"learning_rate: {learning_rate} is too large; training diverged")
    vectors = (word_vectors + context_vectors)[:, :-1]
    return TokenVectors(token_ids.astype(np.int64), np.ascontiguousarray(vectors))


def write_token_ids(
    tokenizer: PreTrainedTokenizerFast, corpus: Iterable[str], file: str | Path
) -> np.ndarray:
    """Tokenize a corpus into a file of int32 ids, without special tokens, in bounded memory.

    Each sentence ends with `END_OF_SENTENCE`. Returns the occurrences of each token, int64 [ids].
    """
    check_corpus(corpus)
    size = vocabulary_size(tokenizer)
    ordinary = np.ones(size, dtype=bool)
    ordinary[list(special_ids(tokenizer))] = False
    counts = np.zeros(size, dtype=np.int64)
    with Path(file).open("wb") as id_file:
        for batch in encoded_batches(tokenizer, corpus):
            batch_ids = [i for sentence in batch for i in (*sentence, END_OF_SENTENCE)]
            ids = np.array(batch_ids, dtype=np.int32)
            ids = ids[(ids == END_OF_SENTENCE) | ordinary[ids]]
            counts += np.bincount(ids[ids != END_OF_SENTENCE], minlength=size)
            ids.tofile(id_file)
    return counts


def read_token_ids(file: str | Path) -> np.ndarray:
    """The int32 ids that `write_token_ids` wrote, memory-mapped."""
    if not Path(file).stat().st_size:
        return np.empty(0, dtype=np.int32)
    return np.asarray(np.memmap(file, dtype=np.int32, mode="r"))


def count_cooccurrences(ids: np.ndarray, counts: np.ndarray, window: int) -> coo_array:
    """Count weighted pairs of tokens within a window on either side, never across sentences.

    `ids` (int32) are sentences of token ids, each followed by a negative number. `counts` [ids] are
    the occurrences of each token, 0 for tokens that are removed; X has a row for each other token.

    Returns the upper triangle of the symmetric X with its diagonal, float64, in row-major order:
    sums of 1/d over all pairs d apart, on the diagonal twice that. Needs 16 bytes for each nonzero
    cell, twice that at its peak, plus 200 MB.
    """
    token_ids = np.flatnonzero(counts)
    size = len(token_ids)
    row_of_token = np.full(len(counts), -1, dtype=np.int64)  # row of each token, or -1
    row_of_token[token_ids] = np.arange(size)
    frequent = np.sort(np.argsort(-counts[token_ids], kind="stable")[:_FREQUENT])
    table_index = np.full(size, -1, dtype=np.int64)  # index of each row in the table, or -1
    table_index[frequent] = np.arange(len(frequent))
    table = np.zeros((len(frequent), len(frequent)))
    # A pair and its distance are one integer: integers sort ten times faster than pairs of arrays.
    bits = window.bit_length()
    buffer = np.empty(max(_PAIRS_AT_ONCE, window), dtype=np.int64)
    runs: list[tuple[np.ndarray, np.ndarray]] = []
    position = 0
    while position < len(ids):
        position, filled = _pairs(
            ids, row_of_token, table_index, table, window, bits, position, buffer
        )
        pairs = buffer[:filled]
        pairs.sort()
        runs.append(_summed(pairs, bits))
        # Keep each run at least twice as long as the next, so that each cell is merged few times.
        while len(runs) > 1 and len(runs[-2][0]) < 2 * len(runs[-1][0]):
            runs.append(_merged(*runs.pop(-2), *runs.pop()))
    low_index, high_index = np.nonzero(table)  # in ascending order, as the frequent rows are
    runs.append((frequent[low_index] * size + frequent[high_index], table[low_index, high_index]))
    while len(runs) > 1:
        runs.append(_merged(*runs.pop(-2), *runs.pop()))
    cells, values = runs[0]
    rows, columns = (index.astype(np.int32) for index in np.divmod(cells, max(size, 1)))
    values = np.where(rows == columns, 2 * values, values)
    return coo_array((values, (rows, columns)), shape=(size, size))


def initial_parameters(
    size: int, dimensions: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Initial vectors of X's rows and columns, float32 [size, dimensions + 1], with the bias last.

    All are uniform within ± 0.5 / (dimensions + 1), as in the authors' program.
    """
    values = rng.random((2, size, dimensions + 1), dtype=np.float32)
    words, contexts = (values - np.float32(0.5)) / np.float32(dimensions + 1)
    return words, contexts


def stratify(
    cooccurrences: coo_array, x_max: float, alpha: float, rng: np.random.Generator
) -> list[tuple[np.ndarray, ...]]:
    """Split both triangles of X into strata; that of blocks i and j has index `i · blocks + j`.

    Each has its cells in random order: rows, columns (int32), log X_ij, f(X_ij) (float32).
    """
    size, off_diagonal = cooccurrences.shape[0], cooccurrences.row != cooccurrences.col
    rows = np.concatenate([cooccurrences.row, cooccurrences.col[off_diagonal]])
    columns = np.concatenate([cooccurrences.col, cooccurrences.row[off_diagonal]])
    values = np.concatenate([cooccurrences.data, cooccurrences.data[off_diagonal]]).astype(
        np.float32
    )
    # Frequent tokens have most cells: assigned to blocks in turn, they fill the strata evenly.
    cells_of_token = np.bincount(rows, minlength=size)
    block_of_token = np.empty(size, dtype=np.uint8)
    block_of_token[np.argsort(-cells_of_token, kind="stable")] = np.arange(size) % _BLOCKS
    stratum_of_cell = block_of_token[rows] * np.uint8(_BLOCKS) + block_of_token[columns]
    ends = np.cumsum(np.bincount(stratum_of_cell, minlength=_BLOCKS**2))
    order = np.argsort(stratum_of_cell, kind="stable")
    for cells_of_stratum in np.split(order, ends[:-1]):
        rng.shuffle(cells_of_stratum)
    values = values[order]
    weights = np.minimum(values / np.float32(x_max), 1) ** np.float32(alpha)
    arrays = (rows[order], columns[order], np.log(values), weights)
    return list(zip(*(np.split(array, ends[:-1]) for array in arrays), strict=True))


def descend(
    strata: list[tuple[np.ndarray, ...]],
    word_vectors: np.ndarray,
    context_vectors: np.ndarray,
    epochs: int,
    learning_rate: float,
    rng: np.random.Generator,
    threads: int = 1,
) -> Iterator[float]:
    """Update both arrays of vectors in place by AdaGrad, one epoch over all cells per yielded
    value.

    The objective is `f(X_ij) (w_i · c_j + a_i + b_j - log X_ij)²`, summed over the nonzero cells,
    with `f(x) = min(1, (x / x_max)^alpha)` (equation 8). The yielded value is the mean of half
    these terms before their update.
    """
    # Sums of squared gradients start at one, so that the first steps use the full learning rate.
    squares = (np.ones_like(word_vectors), np.ones_like(context_vectors))
    rate = np.float32(learning_rate)

    def step(stratum: int) -> float:
        rows, columns, logs, weights = strata[stratum]
        return _adagrad(rows, columns, logs, weights, word_vectors, context_vectors, *squares, rate)

    blocks, size = np.arange(_BLOCKS), sum(len(rows) for rows, *_ in strata)
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(epochs):
            total = 0.0
            for shift in rng.permutation(_BLOCKS):
                disjoint_strata = blocks * _BLOCKS + (blocks + shift) % _BLOCKS
                total += sum(pool.map(step, disjoint_strata.tolist()))
            yield total / size


@njit(nogil=True)
def _pairs(ids, row_of_token, table_index, table, window, bits, start, buffer):
    """Count the pairs whose second token is at `start` or later, until the buffer is full.

    Pairs of two frequent tokens are added to the table, others are written to the buffer.
    """
    size = len(table_index)
    filled = 0
    position = start
    while position < len(ids) and filled + window <= len(buffer):
        row = row_of_token[ids[position]] if ids[position] >= 0 else -1
        if row >= 0:
            distance = 1
            context_position = position - 1
            while distance <= window and context_position >= 0 and ids[context_position] >= 0:
                context_row = row_of_token[ids[context_position]]
                if context_row >= 0:
                    low, high = min(row, context_row), max(row, context_row)
                    if table_index[low] >= 0 and table_index[high] >= 0:
                        table[table_index[low], table_index[high]] += 1.0 / distance
                    else:
                        buffer[filled] = ((low * size + high) << bits) | distance
                        filled += 1
                    distance += 1
                context_position -= 1
        position += 1
    return position, filled


@njit(nogil=True)
def _summed(pairs, bits):
    """Sum 1/distance over sorted pairs; returns the cells in ascending order and their sums."""
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
    """Merge two runs of cells in ascending order into one, adding the values of equal cells."""
    merged = np.empty(len(cells) + len(more_cells), dtype=np.int64)
    sums = np.empty(len(merged), dtype=np.float64)
    first = second = length = 0
    while first < len(cells) or second < len(more_cells):
        if second == len(more_cells) or (first < len(cells) and cells[first] < more_cells[second]):
            merged[length], sums[length] = cells[first], values[first]
            first += 1
        elif first == len(cells) or more_cells[second] < cells[first]:
            merged[length], sums[length] = more_cells[second], more_values[second]
            second += 1
        else:
            merged[length], sums[length] = cells[first], values[first] + more_values[second]
            first += 1
            second += 1
        length += 1
    return merged[:length].copy(), sums[:length].copy()


# Reassociated sums and reciprocal multiplication make it fast; infinity and NaN keep their meaning,
# so that divergence is detected.
@njit(nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")
def _adagrad(rows, columns, logs, weights, words, contexts, word_squares, context_squares, rate):
    """Update once for each cell in turn; returns the sum of their halved terms."""
    bias = words.shape[1] - 1
    cost = 0.0
    for cell in range(len(rows)):
        word, context = words[rows[cell]], contexts[columns[cell]]
        word_square = word_squares[rows[cell]]
        context_square = context_squares[columns[cell]]
        difference = word[bias] + context[bias] - logs[cell]
        for k in range(bias):
            difference += word[k] * context[k]
        gradient = weights[cell] * difference
        cost += 0.5 * gradient * difference
        gradient *= rate
        for k in range(bias):
            word_step, context_step = gradient * context[k], gradient * word[k]
            word[k] -= word_step / np.sqrt(word_square[k])
            context[k] -= context_step / np.sqrt(context_square[k])
            word_square[k] += word_step * word_step
            context_square[k] += context_step * context_step
        word[bias] -= gradient / np.sqrt(word_square[bias])
        context[bias] -= gradient / np.sqrt(context_square[bias])
        word_square[bias] += gradient * gradient
        context_square[bias] += gradient * gradient
    return cost
