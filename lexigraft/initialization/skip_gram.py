"""Skip-gram with negative sampling, for trainable rows in the convex hull of source rows (CW2V).

Noise tokens are sampled for a whole batch of text positions, not for each pair: the expected loss
is the same, with fewer rows to compute and less variance.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint
from tqdm import tqdm

from lexigraft.hardware import device
from lexigraft.initialization.matrix import Matrix
from lexigraft.initialization.pairing import VocabularyPair

logger = logging.getLogger(__name__)

_NOISE_POWER = 0.75
_LOGITS_AT_ONCE = 1 << 24  # 64 MiB of float32


@dataclass(frozen=True)
class TokenStream:
    """Concatenated sentences: token ids `tokens` int64 [n], and the `sentence` number of each.

    `centres` bool [n] marks the tokens that are centres of pairs; None marks all.
    """

    tokens: np.ndarray
    sentence: np.ndarray
    centres: np.ndarray | None = None

    @classmethod
    def from_sentences(cls, sentences: Sequence[np.ndarray]) -> "TokenStream":
        """Concatenate sentences, each an array of token ids [length]."""
        lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
        tokens = np.concatenate([*sentences, np.zeros(0, dtype=np.int64)])
        return cls(tokens, np.repeat(np.arange(len(sentences)), lengths))

    def subsampled(
        self, counts: np.ndarray, threshold: float, rng: np.random.Generator
    ) -> "TokenStream":
        """The same text, where a token is a centre with probability √(threshold / its count) [1]_.

        `counts` int64 [token ids] are those of the training text. Centres are drawn once for all
        epochs, as in CW2V's code.

        References
        ----------
        .. [1] Mikolov, Sutskever, Chen, Corrado and Dean 2013, "Distributed Representations of
           Words and Phrases and their Compositionality", section 2.3, with counts for frequencies.
        """
        probability = np.sqrt(threshold / np.maximum(counts[self.tokens], 1))
        return replace(self, centres=rng.random(len(self.tokens)) < probability)

    def neighbours(self, positions: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of each of `positions` with all positions within `window` in its sentence."""
        offsets = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
        centre = np.repeat(positions, len(offsets))
        context = (positions[:, None] + offsets).ravel()
        is_inside = (context >= 0) & (context < len(self.tokens))
        centre, context = centre[is_inside], context[is_inside]
        in_sentence = self.sentence[centre] == self.sentence[context]
        return centre[in_sentence], context[in_sentence]


@dataclass(frozen=True)
class NoiseDistribution:
    """The noise distribution: probabilities `shares` [m] of `tokens` [m], in ascending order."""

    tokens: np.ndarray
    shares: np.ndarray

    @classmethod
    def from_text(cls, text: TokenStream) -> "NoiseDistribution":
        """Counts in a text to the power of 3/4, normalized to sum to one."""
        tokens, counts = np.unique(text.tokens, return_counts=True)
        weights = counts**_NOISE_POWER
        return cls(tokens, weights / weights.sum())

    def sample(self, size: int, rng: np.random.Generator) -> "NoiseDistribution":
        """The distribution of `size` samples; unchanged if it has at most `size` tokens."""
        if len(self.tokens) <= size:
            return self
        indices, counts = np.unique(
            rng.choice(len(self.tokens), size, p=self.shares), return_counts=True
        )
        return NoiseDistribution(self.tokens[indices], counts / size)


@dataclass(frozen=True)
class SkipGramBatch:
    """Counts of positive and negative pairs of distinct tokens, `centres` [c] and `contexts` [o].

    `positives` [c, o] is how often each pair occurs in the text, `negatives` [c, o] how often it is
    expected among noise pairs. The context of a pair is never its noise.
    """

    centres: np.ndarray
    contexts: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray

    def loss(self, scores: torch.Tensor) -> torch.Tensor:
        """Mean over the pairs of -log σ(score) - Σ over noise of log σ(-score), a scalar (equation
        4).

        `scores` [c, o] are the inner products of the centres' input rows and the contexts' output
        rows.
        """
        positives, negatives = (
            torch.from_numpy(counts).to(scores.device)
            for counts in (self.positives, self.negatives)
        )
        loss = positives * softplus(-scores) + negatives * softplus(scores)
        return loss.sum() / positives.sum()


def batches(
    text: TokenStream,
    noise: NoiseDistribution,
    window: int,
    negatives: int,
    size: int,
    rng: np.random.Generator,
) -> Iterator[SkipGramBatch]:
    """Yield the batches of one epoch, with the sentences in random order.

    A batch has `size` centres, each with up to `2 · window` pairs, and `negatives` noise tokens a
    pair.
    """
    ends = np.flatnonzero(np.diff(text.sentence, append=-1)) + 1
    starts = np.concatenate([[0], ends[:-1]])
    order = rng.permutation(len(ends))
    lengths = (ends - starts)[order]
    length_before = np.cumsum(lengths) - lengths
    positions = np.arange(len(text.tokens)) + np.repeat(starts[order] - length_before, lengths)
    if text.centres is not None:
        positions = positions[text.centres[positions]]
    for start in range(0, len(positions), size):
        centre, context = text.neighbours(positions[start : start + size], window)
        if len(centre):
            sampled = noise.sample(negatives * size, rng)
            yield _batch(text.tokens[centre], text.tokens[context], sampled, negatives)


def _batch(
    centre: np.ndarray, context: np.ndarray, noise: NoiseDistribution, negatives_per_pair: int
) -> SkipGramBatch:
    """Build the batch of all pairs of token ids `centre[i]`, `context[i]`."""
    centres, row = np.unique(centre, return_inverse=True)
    contexts = np.union1d(context, noise.tokens)
    column = np.searchsorted(contexts, context)
    shape = (len(centres), len(contexts))
    counts = np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)
    noise_shares = np.zeros(len(contexts))
    noise_shares[np.searchsorted(contexts, noise.tokens)] = noise.shares
    negatives = negatives_per_pair * noise_shares * (counts.sum(axis=1, keepdims=True) - counts)
    return SkipGramBatch(centres, contexts, counts.astype(np.float32), negatives.astype(np.float32))


class ConvexRows:
    """`softmax(left @ right + offsets) @ matrix`, with trainable factors (CW2V, section 3.4).

    `left` [k, rank] starts at random and `right` [rank, s] at zero, so the weights start as
    `softmax(offsets)`. `matrix` [s, h] holds the source rows, float32, on the computing device, and
    `offsets` [k, s] the initial logits.
    """

    def __init__(
        self, matrix: torch.Tensor, offsets: csr_array, rank: int, rng: np.random.Generator
    ) -> None:
        k, s = offsets.shape
        start = rng.standard_normal((k, rank), dtype=np.float32) / np.sqrt(rank, dtype=np.float32)
        self.matrix, self.offsets = matrix, offsets
        self.left = torch.from_numpy(start).to(matrix.device).requires_grad_()
        self.right = torch.zeros((rank, s), device=matrix.device, requires_grad=True)

    def rows(self, indices: np.ndarray) -> torch.Tensor:
        """The rows of these `indices`, [len(indices), h], with a gradient.

        Many rows are computed one block at a time and recomputed in the backward pass.
        """
        blocks = list(self._blocks(indices))
        if len(blocks) == 1:
            return self._mix_rows(blocks[0])
        return torch.cat(
            [checkpoint(self._mix_rows, block, use_reentrant=False) for block in blocks]
        )

    def weights(self, indices: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of `indices` and their weights [len(block), s], float64, summing to one."""
        for block in self._blocks(indices):
            with torch.no_grad():
                yield block, torch.softmax(self._logits(block).double(), dim=1).cpu().numpy()

    def _blocks(self, indices: np.ndarray) -> list[np.ndarray]:
        height = max(1, _LOGITS_AT_ONCE // self.offsets.shape[1])
        ends = range(height, max(1, len(indices)), height)
        return np.split(indices, list(ends))

    def _mix_rows(self, indices: np.ndarray) -> torch.Tensor:
        return self._logits(indices).softmax(dim=1) @ self.matrix

    def _logits(self, indices: np.ndarray) -> torch.Tensor:
        device_indices = torch.from_numpy(indices).to(self.left.device)
        offsets = self.offsets[indices].tocoo()
        logits = self.left[device_indices] @ self.right
        if not offsets.nnz:
            return logits
        row, column = (torch.from_numpy(part.astype(np.int64)) for part in offsets.coords)
        values = torch.from_numpy(offsets.data.astype(np.float32))
        positions = (row.to(logits.device), column.to(logits.device))
        return logits.index_put(positions, values.to(logits.device), accumulate=True)


def truncate_weights(
    weights: np.ndarray, keep: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Approximate rows of weights by their largest weights and a weight on the mean of all.

    All but the `keep` largest weights of each row of `weights` [n, s] are replaced by their mean.
    Returns the columns and values [n, min(keep, s)] of the largest weights, minus the contribution
    of the mean of all; the weight [n] on the mean of all s; and the mean share of a row's weight
    that has moved to other columns.
    """
    n, s = weights.shape
    if keep >= s:
        return np.tile(np.arange(s), (n, 1)), weights, np.zeros(n), 0.0
    order = np.argpartition(weights, s - keep, axis=1)
    columns, other_columns = order[:, s - keep :], order[:, : s - keep]
    other_weights = np.take_along_axis(weights, other_columns, axis=1)
    mean_weight = other_weights.mean(axis=1, keepdims=True)
    moved_weight = np.abs(other_weights - mean_weight).sum(axis=1) / 2
    values = np.take_along_axis(weights, columns, axis=1) - mean_weight
    moved_share = float(moved_weight.mean()) if n else 0.0
    return columns, np.maximum(values, 0), mean_weight[:, 0] * s, moved_share


def train(
    pair: VocabularyPair,
    matrices: dict[str, Matrix],
    text: TokenStream,
    validation: TokenStream,
    initial_logits: csr_array,
    rng: np.random.Generator,
    options: Any,
) -> tuple[dict[str, ConvexRows], list[float], float | None]:
    """Train the weights of the new tokens' rows; all other rows are fixed.

    `matrices` are `"input"` and `"output"`, each [n_source, h]; the same object twice where they
    are tied. `text` and `validation` are in target ids. `initial_logits` are [len(new_ids),
    len(pair.source_ids)]; `options` are those of `CW2V`.

    Returns the rows of the new tokens, by `"input"` and, unless `options.one_recipe`, `"output"`;
    the validation loss per pair, before training and after each epoch; and the number of text
    tokens per second, None without epochs.
    """
    input_rows = _source_rows(matrices["input"], pair.source_ids)
    tied = matrices["output"] is matrices["input"]
    output_rows = input_rows if tied else _source_rows(matrices["output"], pair.source_ids)
    rows = {"input": ConvexRows(input_rows, initial_logits, options.rank, rng)}
    if not options.one_recipe:
        rows["output"] = ConvexRows(output_rows, initial_logits, options.rank, rng)
    context_rows = rows.get("output", rows["input"])
    factors = [factor for stream in rows.values() for factor in (stream.left, stream.right)]
    optimizer = torch.optim.Adam(
        factors, lr=options.learning_rate, weight_decay=options.weight_decay
    )
    noise = NoiseDistribution.from_text(text)
    if options.subsampling is not None:
        counts = np.bincount(text.tokens, minlength=pair.n_target)
        text, validation = (
            stream.subsampled(counts, options.subsampling, rng) for stream in (text, validation)
        )
    n_centres = len(text.tokens) if text.centres is None else int(text.centres.sum())
    batch_options = (options.window, options.negatives, options.batch_tokens)
    seed = int(rng.integers(2**32))

    def loss_of(batch: SkipGramBatch) -> torch.Tensor:
        inputs = _lookup_rows(pair, rows["input"], batch.centres)
        return batch.loss(inputs @ _lookup_rows(pair, context_rows, batch.contexts).T)

    @torch.no_grad()
    def validation_loss() -> float:
        """The loss per pair of tokens; 0 where there are none."""
        total = pairs = 0.0
        # The same noise each time, so that only training changes the loss.
        for batch in batches(validation, noise, *batch_options, np.random.default_rng(seed)):
            count = float(batch.positives.sum())
            total += float(loss_of(batch)) * count
            pairs += count
        return total / pairs if pairs else 0.0

    losses, seconds = [validation_loss()], 0.0
    for epoch in range(options.epochs):
        epoch_start = time.monotonic()
        epoch_batches = batches(text, noise, *batch_options, rng)
        total = -(-n_centres // options.batch_tokens)
        for batch in tqdm(
            epoch_batches, desc=f"cw2v, epoch {epoch + 1}", total=total, disable=None
        ):
            loss = loss_of(batch)
            if loss.requires_grad:  # a batch may have no new token
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        seconds += time.monotonic() - epoch_start
        losses.append(validation_loss())
        logger.info("epoch %d/%d: validation loss %.4f", epoch + 1, options.epochs, losses[-1])
    tokens = len(text.tokens) * options.epochs
    return rows, losses, tokens / seconds if seconds else None


def _lookup_rows(pair: VocabularyPair, new_rows: ConvexRows, tokens: np.ndarray) -> torch.Tensor:
    """Rows [n, h] of target tokens: trainable for new tokens, fixed for all other tokens."""
    source_ids = pair.source_of[tokens]
    is_new = source_ids < 0
    fixed_rows = np.searchsorted(pair.source_ids, source_ids[~is_new])
    rows = [new_rows.matrix[torch.from_numpy(fixed_rows).to(new_rows.matrix.device)]]
    if is_new.any():
        rows.append(new_rows.rows(np.searchsorted(pair.new_ids, tokens[is_new])))
    # Restore the order of the tokens.
    original_order = np.argsort(np.argsort(is_new, kind="stable"), kind="stable")
    return torch.cat(rows)[torch.from_numpy(original_order).to(new_rows.matrix.device)]


def _source_rows(matrix: Matrix, source_ids: np.ndarray) -> torch.Tensor:
    """The source tokens' rows in float32 on the computing device, copied only where needed."""
    rows = torch.as_tensor(matrix).detach()
    n = len(source_ids)
    rows = rows[:n] if source_ids[-1] == n - 1 else rows[torch.from_numpy(source_ids)]
    return rows.to(device(), torch.float32)
