"""Skip-gram with negative sampling (Mikolov et al. 2013, equation 4) as a weighted logistic loss.

Noise tokens are drawn for a batch of text positions together, not for each pair by itself: the
same loss in expectation, with fewer rows to compute and less variance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

_NOISE_POWER = 0.75


@dataclass(frozen=True)
class Text:
    """Running text: `tokens` int64 [n], and the number of the sentence of each, `sentence` [n]."""

    tokens: np.ndarray
    sentence: np.ndarray

    @classmethod
    def of(cls, sentences: Sequence[np.ndarray]) -> "Text":
        """Sentences, each token ids [length], laid end to end."""
        lengths = np.array([len(ids) for ids in sentences], dtype=np.int64)
        tokens = np.concatenate([*sentences, np.zeros(0, dtype=np.int64)])
        return cls(tokens, np.repeat(np.arange(len(sentences)), lengths))

    def neighbours(self, positions: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of positions: each of `positions` with all within `window` in its sentence."""
        steps = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
        centre = np.repeat(positions, len(steps))
        context = (positions[:, None] + steps).ravel()
        inside = (context >= 0) & (context < len(self.tokens))
        centre, context = centre[inside], context[inside]
        same = self.sentence[centre] == self.sentence[context]
        return centre[same], context[same]


@dataclass(frozen=True)
class Noise:
    """The noise distribution: `shares` [m] of `tokens` [m], which ascend."""

    tokens: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, text: Text) -> "Noise":
        """Counts in a text to the power of 3/4, made to sum to one."""
        tokens, counts = np.unique(text.tokens, return_counts=True)
        weights = counts**_NOISE_POWER
        return cls(tokens, weights / weights.sum())

    def drawn(self, size: int, draws: np.random.Generator) -> "Noise":
        """The distribution of `size` draws; this one itself if it has no more tokens than that."""
        if len(self.tokens) <= size:
            return self
        at, counts = np.unique(
            draws.choice(len(self.tokens), size, p=self.shares), return_counts=True
        )
        return Noise(self.tokens[at], counts / size)


@dataclass(frozen=True)
class Batch:
    """Which pairs of tokens to pull together, which to push apart, and how hard.

    Attributes
    ----------
    centres, others
        Distinct token ids [c] and [o]; scores are input rows of the former times output rows of
        the latter.
    near
        [c, o] float32, how often each pair stands together in the text.
    far
        [c, o] float32, how often noise is expected to pair them. A pair's own context is not its
        noise.
    """

    centres: np.ndarray
    others: np.ndarray
    near: np.ndarray
    far: np.ndarray

    def loss(self, scores: "torch.Tensor") -> "torch.Tensor":
        """Mean over the pairs of -log σ(score) - Σ over noise of log σ(-score), a scalar.

        `scores` [c, o] are on any device.
        """
        import torch
        from torch.nn.functional import softplus

        near, far = (torch.from_numpy(part).to(scores.device) for part in (self.near, self.far))
        return (near * softplus(-scores) + far * softplus(scores)).sum() / near.sum()


def batches(
    text: Text, noise: Noise, window: int, negatives: int, size: int, draws: np.random.Generator
) -> Iterator[Batch]:
    """One pass over a text, its sentences in random order, cut into batches.

    Parameters
    ----------
    window
        Neighbours on either side that count as context.
    negatives
        Noise tokens for each pair.
    size
        Text positions in a batch; each is the centre of up to `2 · window` pairs.
    """
    ends = np.flatnonzero(np.diff(text.sentence, append=-1)) + 1
    starts = np.concatenate([[0], ends[:-1]])
    order = draws.permutation(len(ends))
    lengths = (ends - starts)[order]
    before = np.cumsum(lengths) - lengths
    positions = np.arange(len(text.tokens)) + np.repeat(starts[order] - before, lengths)
    for begin in range(0, len(positions), size):
        centre, context = text.neighbours(positions[begin : begin + size], window)
        if len(centre):
            drawn = noise.drawn(negatives * size, draws)
            yield _batch(text.tokens[centre], text.tokens[context], drawn, negatives)


def _batch(centre: np.ndarray, context: np.ndarray, noise: Noise, negatives: int) -> Batch:
    """The batch of all pairs `centre[i]`, `context[i]`, token ids."""
    centres, row = np.unique(centre, return_inverse=True)
    others = np.union1d(context, noise.tokens)
    column = np.searchsorted(others, context)
    shape = (len(centres), len(others))
    near = np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)
    share = np.zeros(len(others))
    share[np.searchsorted(others, noise.tokens)] = noise.shares
    far = negatives * share * (near.sum(axis=1, keepdims=True) - near)
    return Batch(centres, others, near.astype(np.float32), far.astype(np.float32))
