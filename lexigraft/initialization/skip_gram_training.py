"""Trains the convex rows of new tokens by skip-gram, beside the fixed rows of all others."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from tqdm import tqdm

from lexigraft.hardware import device
from lexigraft.initialization.convex_rows import ConvexRows
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.initialization.skip_gram import Batch, Noise, Text, batches

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Neighbours on either side, noise tokens a pair, width of the factors, passes over the text,
    Adam's learning rate, and text tokens in an update."""

    window: int
    negatives: int
    rank: int
    epochs: int
    learning_rate: float
    batch_tokens: int


@dataclass(frozen=True)
class Learned:
    """What `train` found.

    Attributes
    ----------
    rows
        By `"input"` and `"output"`: the rows of the new tokens.
    losses
        Per pair of neighbours of the watched text, before training and after each epoch.
    tokens_per_second
        Text tokens that training went through in a second; None where it made no pass.
    """

    rows: dict[str, ConvexRows]
    losses: list[float]
    tokens_per_second: float | None

    def weights(self, which: str, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See `ConvexRows.weights`."""
        return self.rows[which].weights(numbers)


def train(
    pair: VocabularyPair,
    matrices: dict[str, Matrix],
    text: Text,
    watched: Text,
    start: csr_array,
    settings: Settings,
    draws: np.random.Generator,
) -> Learned:
    """Learn the weights of the new tokens' rows.

    Parameters
    ----------
    matrices
        `"input"` and `"output"`, each [n_source, h]; the same object twice where they are tied.
    text, watched
        What is learned from, and what the loss is watched on, in target ids.
    start
        Logits [len(new_ids), number of source tokens] to start from, the same for both matrices.
    draws
        Of starting values, of the order of sentences, and of noise.
    """
    import torch

    input_rows = _source_rows(matrices["input"], pair.source_ids)
    tied = matrices["output"] is matrices["input"]
    output_rows = input_rows if tied else _source_rows(matrices["output"], pair.source_ids)
    rows = {
        "input": ConvexRows(input_rows, start, settings.rank, draws),
        "output": ConvexRows(output_rows, start, settings.rank, draws),
    }
    learned = [factor for part in rows.values() for factor in part.parameters]
    optimizer = torch.optim.Adam(learned, lr=settings.learning_rate)
    noise = Noise.of(text)
    cut = (settings.window, settings.negatives, settings.batch_tokens)
    seed = int(draws.integers(2**32))

    def watch() -> float:
        # The same draws each time, so that the loss differs by what was learned alone.
        passed = batches(watched, noise, *cut, np.random.default_rng(seed))
        return _mean_loss(pair, rows, passed)

    losses, seconds = [watch()], 0.0
    for epoch in range(settings.epochs):
        begun = time.monotonic()
        passed = batches(text, noise, *cut, draws)
        total = -(-len(text.tokens) // settings.batch_tokens)
        for batch in tqdm(passed, desc=f"cw2v, epoch {epoch + 1}", total=total, disable=None):
            loss = batch.loss(_scores(pair, rows, batch))
            if loss.requires_grad:  # a batch may hold no new token
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        seconds += time.monotonic() - begun
        losses.append(watch())
        logger.info("epoch %d of %d: watched loss %.4f", epoch + 1, settings.epochs, losses[-1])
    tokens = len(text.tokens) * settings.epochs
    return Learned(rows, losses, tokens / seconds if seconds else None)


def _mean_loss(
    pair: VocabularyPair, rows: dict[str, ConvexRows], watching: Iterator[Batch]
) -> float:
    """The watched loss per pair of neighbours; 0 where the watched text has none."""
    import torch

    total = pairs = 0.0
    with torch.no_grad():
        for batch in watching:
            here = float(batch.near.sum())
            total += float(batch.loss(_scores(pair, rows, batch))) * here
            pairs += here
    return total / pairs if pairs else 0.0


def _scores(pair: VocabularyPair, rows: dict[str, ConvexRows], batch: Batch) -> "torch.Tensor":
    """Input rows of the centres times output rows of the others, [c, o]."""
    centres = _rows_of(pair, rows["input"], batch.centres)
    return centres @ _rows_of(pair, rows["output"], batch.others).T


def _rows_of(pair: VocabularyPair, new: ConvexRows, tokens: np.ndarray) -> "torch.Tensor":
    """Rows [n, h] of target tokens: those of new ones as they are learned, the others fixed."""
    import torch

    copied = pair.source_of[tokens]
    is_new = copied < 0
    fixed = np.searchsorted(pair.source_ids, copied[~is_new])
    parts = [new.matrix[torch.from_numpy(fixed).to(new.matrix.device)]]
    if is_new.any():
        parts.append(new.rows(np.searchsorted(pair.new_ids, tokens[is_new])))
    # The parts lie one after the other; back in the order of the tokens.
    place = np.argsort(np.argsort(is_new, kind="stable"), kind="stable")
    return torch.cat(parts)[torch.from_numpy(place).to(new.matrix.device)]


def _source_rows(matrix: Matrix, source_ids: np.ndarray) -> "torch.Tensor":
    """The source tokens' rows, float32, on the device; not copied where they are that already."""
    import torch

    held = torch.as_tensor(matrix).detach()
    n = len(source_ids)
    held = held[:n] if source_ids[-1] == n - 1 else held[torch.from_numpy(source_ids)]
    return held.to(device(), torch.float32)
