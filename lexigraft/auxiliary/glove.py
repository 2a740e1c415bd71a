"""GloVe vectors of a tokenized corpus, for UnifyVocab."""

import logging
import math
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from lexigraft.auxiliary.glove_counts import count_cooccurrences
from lexigraft.auxiliary.glove_descent import descend, initial_parameters, stratify
from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.tokenized_text import read_token_ids, write_token_ids
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
    """Train GloVe vectors [1]_ of the tokens of a tokenizer.

    Weighting and updates are those of the authors' program; the defaults are those of UnifyVocab
    [2]_ and its code.

    Parameters
    ----------
    tokenizer
        A fast tokenizer.
    corpus
        Sentences, read once; they are tokenized into a temporary file.
    dimensions
        Width of the vectors.
    window
        Number of context tokens on either side; one at distance d counts 1/d.
    epochs
        Epochs over the nonzero cells of the co-occurrence matrix.
    minimum_count
        Tokens that occur less often are ignored and get no vector.
    x_max
        Cells of at least this value have weight 1 in the objective.
    alpha
        Smaller cells have weight `(x / x_max) ** alpha`.
    learning_rate
        Learning rate of AdaGrad, whose sums of squares start at one.
    seed
        Seed of the initial values and of the order of the cells.
    threads
        Number of threads, at most 16. The result does not depend on it.

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
    parameters = initial_parameters(len(tokens), dimensions, rng)
    cells = stratify(counted, x_max, alpha, rng)
    steps = descend(
        cells, parameters, epochs=epochs, learning_rate=learning_rate, rng=rng, threads=threads
    )
    for epoch, cost in enumerate(tqdm(steps, "GloVe", epochs, unit=" epochs", disable=None), 1):
        logger.info("epoch %d: cost %.6f", epoch, cost)
        if not math.isfinite(cost):
            raise UserError(f"learning_rate: {learning_rate} is too large; training diverged")
    vectors = (parameters.words + parameters.contexts)[:, :-1]
    return TokenVectors(tokens.astype(np.int64), np.ascontiguousarray(vectors))
