"""GloVe on a tokenized corpus: the vectors of paper 003, section 2.1.

Pennington, Socher and Manning 2014, with the weighting and the steps of the authors' program.
"""

import logging
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from lexigraft.auxiliary.glove_counts import count_cooccurrences
from lexigraft.auxiliary.glove_descent import cells_of, descend, starting_values
from lexigraft.auxiliary.token_ids import read_ids, write_ids
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

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
    """Vectors of the tokens of a tokenizer, learned from how often they stand near each other.

    The defaults are those of paper 003, appendix A, and of its code.

    Parameters
    ----------
    tokenizer
        A fast tokenizer.
    corpus
        Sentences, read once; they are tokenized into a temporary file.
    dimensions
        Width of the vectors.
    window
        Neighbours on either side; one that is d tokens away counts 1/d.
    epochs
        Passes over the cells of the co-occurrence matrix that are not zero.
    minimum_count
        Tokens that occur less often get no vector, and are passed over.
    x_max
        Cells from this value up weigh 1 in the objective.
    alpha
        Power of `x / x_max` by which smaller cells weigh less.
    learning_rate
        Of AdaGrad, whose sums of squares start at one.
    seed
        Seed of the starting values and of the order of the cells.
    threads
        How many descend at a time, at most 16. The result does not depend on it.

    Returns
    -------
    TokenVectors
        The sum of a token's two vectors, without biases. Same corpus, options and seed on one kind
        of processor: same bits. Special tokens have no vector.

    Raises
    ------
    UserError
        The corpus is one string, no token occurs `minimum_count` times or has a neighbour, or the
        learning rate is too large.

    Examples
    --------
    >>> vectors = train_glove(tokenizer, open("train.txt"))  # doctest: +SKIP
    >>> vectors.vectors.shape  # doctest: +SKIP
    (6312, 300)
    """
    if isinstance(corpus, str):
        raise UserError("corpus: give an iterable of sentences, not one string")
    with tempfile.TemporaryDirectory(prefix="lexigraft-glove-") as folder:
        file = Path(folder) / "ids"
        counts = write_ids(tokenizer, corpus, file)
        tokens = np.flatnonzero(counts >= minimum_count)
        number = np.full(len(counts), -1, dtype=np.int64)
        number[tokens] = np.arange(len(tokens))
        counted = count_cooccurrences(read_ids(file), number, window)
    if not len(counted.values):
        raise UserError(
            f"minimum_count: no two tokens that occur {minimum_count} times stand in a sentence; "
            "give more text or a smaller minimum_count"
        )
    logger.info("%d tokens, %d pairs of them co-occur", len(tokens), len(counted.values))
    draws = np.random.default_rng(seed)
    parameters = starting_values(len(tokens), dimensions, draws)
    cells = cells_of(counted, x_max, alpha, draws)
    steps = descend(
        cells, parameters, epochs=epochs, learning_rate=learning_rate, draws=draws, threads=threads
    )
    for epoch, cost in enumerate(tqdm(steps, "GloVe", epochs, unit=" epochs", disable=None), 1):
        logger.info("epoch %d: cost %.6f", epoch, cost)
        if not math.isfinite(cost):
            raise UserError(f"learning_rate: {learning_rate} is too large; training diverged")
    vectors = (parameters.words + parameters.contexts)[:, :-1]
    return TokenVectors(tokens.astype(np.int64), np.ascontiguousarray(vectors))
