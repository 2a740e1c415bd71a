"""The plan of each phase: its sequences, in order and mixed in shares, and its learning rate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset
from transformers import PreTrainedTokenizerFast

from lexigraft.corpus.mixture import text_shares
from lexigraft.corpus.sample_file import read_samples
from lexigraft.errors import UserError
from lexigraft.training.data import (
    MixedBlocks,
    SampleSequences,
    SequenceDataset,
    SequenceSource,
    TextBlocks,
    encode_samples,
    interleave,
    mixed_order,
    pack,
    repeated_order,
    visiting_order,
)
from lexigraft.training.settings import MONOLINGUAL, Phase, Strategy
from lexigraft.training.tokenized_corpus import tokenize_corpus


def plan_phases(
    strategy: Strategy, tokenizer: PreTrainedTokenizerFast, job: dict[str, Any]
) -> list[SequenceDataset]:
    """The sequences of each phase, in order.

    The first text of a phase's `data` determines the length of the phase: its share of the
    strategy's `epochs`, which are passes over that text, or of its `tokens`, which are of that
    text; or so many of its own. Phases of one text continue where the one before it ended. The
    other texts are repeated or cut to their share of the sequences.

    Raises a UserError if a text is missing or has no sequence that fits, or if a phase gets none.
    """
    inputs = job["inputs"]

    @cache
    def encoded(name: str) -> Any:
        return encode_samples(tokenizer, read_samples(inputs["samples"][name]))

    @cache
    def text(name: str, length: int) -> SequenceSource:
        if name == MONOLINGUAL:
            return read_blocks(strategy, tokenizer, inputs["corpus"], length)
        return SampleSequences.within(length, encoded(name), name)

    ends = [*accumulate(phase.share for phase in strategy.phases)]
    ends[-1:] = [1.0]  # despite rounding of the shares
    phases = zip(strategy.phases, pairwise([0.0, *ends]), strict=False)
    plan, seed = [], job["seed"]
    for number, (phase, share) in enumerate(phases):
        first, *others = phase.data
        source: Any = text(first, phase.length)
        # Only other texts are named in the seed, which keeps the order of monolingual text stable.
        own = seed if first == MONOLINGUAL else [*seed, first]
        epochs = _epochs(strategy, source)
        if phase.has_own_amount:
            # Of the text that the phases read together, the part after the phases before it.
            amounts = [
                _epochs(one, source) * (first in list(one.data)[:1]) for one in strategy.phases
            ]
            before, epochs = sum(amounts[:number]), sum(amounts)
            share = (before / epochs, (before + amounts[number]) / epochs)
        if isinstance(source, MixedBlocks):
            order = mixed_order(source, epochs, share, own)
        else:
            order = visiting_order(len(source), epochs, share, own)
        if not len(order):
            raise UserError(
                f"strategy: phase {number} gets no sequence of {len(source)} x "
                f"{epochs:g} epochs of '{first}'; raise its share, or the strategy's epochs or "
                "tokens, or give more text"
            )
        if others:
            sources, orders = [source], [order]
            for name, count in sequence_counts(len(order), phase.data).items():
                sources.append(text(name, phase.length))
                orders.append(repeated_order(len(sources[-1]), count, [*seed, name, number]))
            source = ConcatDataset(sources)
            begins = [0, *source.cumulative_sizes[:-1]]
            order = interleave([one + begin for one, begin in zip(orders, begins, strict=True)])
        plan.append(SequenceDataset(source, order))
    return plan


def read_blocks(
    strategy: Strategy, tokenizer: PreTrainedTokenizerFast, corpus: str | Path, length: int
) -> TextBlocks | MixedBlocks:
    """The training text of a corpus in blocks: a language's, or those of each member of a group."""
    shares, apart = text_shares(corpus), strategy.packing == "apart"
    found = {}
    for member, share in shares.items():
        limit = strategy.sentences and max(1, round(strategy.sentences * share))
        encoded = tokenize_corpus(tokenizer, corpus, limit, member)
        found[member] = pack(encoded, length, apart=apart)
    return MixedBlocks(found, shares) if "" not in found else found[""]


def _epochs(amount: Strategy | Phase, source: SequenceSource) -> float:
    """The passes over a text that a strategy, or a phase with an amount of its own, asks for."""
    one_pass, languages = float(source.lengths().sum()), 1
    if isinstance(source, MixedBlocks):
        one_pass, languages = source.one_pass, len(source.members)
    tokens = amount.tokens
    if amount.tokens_per_language is not None:
        tokens = languages * amount.tokens_per_language
    return tokens / one_pass if tokens is not None else amount.epochs or 0.0


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
        for source in getattr(sequences.source, "datasets", [sequences.source]):
            if isinstance(source, SampleSequences):
                counts = {"samples": len(source), "too_long": source.too_long}
                found.setdefault(source.name, counts)
    return found


def sequence_counts(first: int, shares: Mapping[str, float]) -> dict[str, int]:
    """How many sequences of each further text go with `first` ones of the first, at least one.

    `shares` are name -> share of the sequences, the first text first; they add up to one.
    """
    own, *_ = shares.values()
    others = list(shares.items())[1:]
    return {name: max(1, round(first * share / own)) for name, share in others}


@dataclass(frozen=True)
class Schedule:
    """A warm-up and the decay after it, and where in it a phase begins.

    The warm-up rises by equal parts from its first step to the peak after it, which is where
    transformers' schedules have theirs. These begin at a rate of zero: their first step computes
    gradients and changes nothing, and a training of one step learns nothing.

    >>> [Schedule("linear", warmup=3, steps=7).factor(step) for step in range(7)]
    [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25]
    >>> [Schedule("wsd", warmup=1, steps=6, decay=2).factor(step) for step in range(6)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]
    """

    shape: str  # `cosine`, `linear` and `wsd` decay to zero; `constant` does not
    warmup: int  # optimizer steps of the warm-up
    steps: int  # optimizer steps of the whole schedule
    offset: int = 0  # how many of them earlier phases have taken
    decay: int | None = None  # optimizer steps of the decay; by default all after the warm-up

    @property
    def highest(self) -> float:
        """The factor that it reaches: 1, or less where every step belongs to the warm-up."""
        return min(1.0, self.steps / (self.warmup + 1))

    def factor(self, step: int) -> float:
        """The factor of the phase's learning rate after `step` steps of the phase."""
        done = self.offset + step
        if done < self.warmup:
            return (done + 1) / (self.warmup + 1)
        if self.shape == "constant":
            return 1.0
        begin = self.warmup if self.decay is None else max(self.warmup, self.steps - self.decay)
        part = min(1.0, max(0, done - begin) / max(1, self.steps - begin))
        return 1 - part if self.shape == "linear" else 0.5 * (1 + math.cos(math.pi * part))


def schedules(strategy: Strategy, steps: list[int]) -> list[Schedule]:
    """The schedule of each phase, by the optimizer steps of each.

    With `schedule_over: strategy` the phases share one schedule, each continuing where the previous
    one ended: there is no second warm-up where other parameters become trainable (UnifyVocab, §2.3,
    progressive adaptation). Each phase has its own peak learning rate.
    """
    spans = [(count, 0) for count in steps]  # steps of the whole schedule, and before the phase
    if strategy.schedule_over == "strategy":
        spans = [(sum(steps), sum(steps[:number])) for number in range(len(steps))]
    stable = strategy.schedule == "wsd"
    return [
        Schedule(
            strategy.schedule,
            math.ceil(strategy.warmup * whole),
            whole,
            before,
            math.ceil(strategy.decay * whole) if stable else None,
        )
        for whole, before in spans
    ]
