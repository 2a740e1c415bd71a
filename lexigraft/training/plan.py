"""The data of each phase: which sequences it reads, in which order, mixed in which shares."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from lexigraft.corpus.sample_file import read_samples
from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import encode
from lexigraft.randomness import generator
from lexigraft.training.data import (
    SampleSequences,
    SequenceDataset,
    SequenceSource,
    TrainingSequence,
    encode_samples,
    pack,
    read_sentences,
    visiting_order,
)
from lexigraft.training.settings import MONOLINGUAL, Phase, Strategy

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def plan_phases(
    strategy: Strategy, tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> list[SequenceDataset]:
    """The sequences of each phase, in order.

    The first text of a phase's `data` determines the length of the phase: its share of the
    strategy's `epochs`, which are passes over that text. The others are repeated or cut to their
    share of the sequences.

    Raises
    ------
    UserError
        A text is missing or has no sequence that fits, or a phase gets none.
    """
    texts = _Texts(strategy, tokenizer, job)
    plan, begin = [], 0.0
    for number, phase in enumerate(strategy.phases):
        end = begin + phase.share
        if number == len(strategy.phases) - 1:
            end = 1.0  # despite rounding of the shares
        plan.append(
            _phase_sequences(texts, phase, number, strategy.epochs, (begin, end), job["seed"])
        )
        begin = end
    return plan


def cumulative_tokens(plan: list[SequenceDataset], number: int, batch_sequences: int) -> np.ndarray:
    """Training tokens since the cell began, before and after each step of a phase, [steps + 1]."""
    before = sum(int(sequences.tokens().sum()) for sequences in plan[:number])
    own = plan[number].tokens()
    per_step = np.add.reduceat(own, np.arange(0, len(own), batch_sequences))
    return before + np.concatenate([[0], np.cumsum(per_step)])


def sample_counts(plan: list[SequenceDataset]) -> dict[str, dict[str, int]]:
    """Of each entry of samples that the phases read: how many, and how many were too long.

    Keys `samples` and `too_long`; if phases have different lengths, those of the first phase that
    reads the entry.
    """
    found: dict[str, dict[str, int]] = {}
    for sequences in plan:
        source = sequences.source
        sources = source.sources if isinstance(source, ConcatenatedSequences) else [source]
        for source in sources:
            if isinstance(source, SampleSequences):
                counts = {"samples": len(source), "too_long": source.too_long}
                found.setdefault(source.name, counts)
    return found


class ConcatenatedSequences:
    """Several sources one after the other, with consecutive indices."""

    def __init__(self, sources: Sequence[SequenceSource]):
        self.sources = list(sources)
        self._ends = list(accumulate(len(source) for source in self.sources))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> TrainingSequence:
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = bisect_right(self._ends, index)
        return self.sources[number][index - self._begin(number)]

    def indices(self, number: int, order: np.ndarray) -> np.ndarray:
        """Indices in the whole of the sequences `order` [n] of source `number`."""
        return order + self._begin(number)

    def _begin(self, number: int) -> int:
        return self._ends[number] - len(self.sources[number])


def sequence_counts(first: int, shares: Mapping[str, float]) -> dict[str, int]:
    """How many sequences of each further text go with `first` ones of the first text.

    Parameters
    ----------
    first
        Sequences of the first text.
    shares
        Name -> share of the sequences, the first text first; they add up to one.

    Returns
    -------
    dict
        At least one sequence of each.
    """
    own, *_ = shares.values()
    others = list(shares.items())[1:]
    return {name: max(1, round(first * share / own)) for name, share in others}


def repeated_order(sequences: int, count: int, seed: list[Any]) -> np.ndarray:
    """`count` indices below `sequences`, [count]: pass after pass, each a new permutation."""
    passes = [
        generator(*seed, "order", number).permutation(sequences)
        for number in range(-(-count // sequences))
    ]
    return np.concatenate(passes)[:count]


def interleave(orders: Sequence[np.ndarray]) -> np.ndarray:
    """Merge several orders into one, each spread evenly over it, [sum of their lengths].

    Every section has each of them in its share, to within one: no training step lacks a text by
    chance, and the schedule treats all texts alike.
    """
    position = np.concatenate([(np.arange(len(order)) + 0.5) / len(order) for order in orders])
    return np.concatenate(orders)[np.argsort(position, kind="stable")]


class _Texts:
    """The texts of a strategy as sequences, each read and encoded once."""

    def __init__(
        self, strategy: Strategy, tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
    ):
        self.strategy, self.tokenizer, self.inputs = strategy, tokenizer, job["inputs"]
        self.encoded: dict[str, Any] = {}
        self.sources: dict[tuple[str, int], SequenceSource] = {}

    def get(self, name: str, length: int) -> SequenceSource:
        """The text `name` in sequences of at most `length` tokens."""
        if (name, length) not in self.sources:
            self.sources[name, length] = self._read(name, length)
        return self.sources[name, length]

    def _read(self, name: str, length: int) -> SequenceSource:
        if name == MONOLINGUAL:
            if name not in self.encoded:
                sentences = read_sentences(self.inputs["corpus"], "train", self.strategy.sentences)
                self.encoded[name] = list(encode(self.tokenizer, sentences))
            apart = self.strategy.packing == "apart"
            return pack(self.encoded[name], length, apart=apart)
        if name not in self.encoded:
            samples = read_samples(self.inputs["samples"][name])
            self.encoded[name] = encode_samples(self.tokenizer, samples)
        return SampleSequences.within(length, self.encoded[name], name)


def _phase_sequences(
    texts: _Texts,
    phase: Phase,
    number: int,
    epochs: float,
    share: tuple[float, float],
    seed: list[Any],
) -> SequenceDataset:
    """The sequences of one phase, in order."""
    first, *others = phase.data
    text = texts.get(first, phase.length)
    # Only other texts are named in the seed, which keeps the order of monolingual text stable.
    own = seed if first == MONOLINGUAL else [*seed, first]
    order = visiting_order(len(text), epochs, share, own)
    if not len(order):
        raise UserError(
            f"strategy: phase {number} gets no sequence of {len(text)} x {epochs:g} epochs of "
            f"'{first}'; raise its share or epochs, or give more text"
        )
    if not others:
        return SequenceDataset(text, order)
    sources, orders = [text], [order]
    for name, count in sequence_counts(len(order), phase.data).items():
        sources.append(texts.get(name, phase.length))
        orders.append(repeated_order(len(sources[-1]), count, [*seed, name, number]))
    mixture = ConcatenatedSequences(sources)
    indices = [mixture.indices(source, order) for source, order in enumerate(orders)]
    return SequenceDataset(mixture, interleave(indices))
