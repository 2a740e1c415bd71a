"""The plan of each phase: its sequences, in order, from several texts in their shares."""

import math
from collections.abc import Mapping, Sequence, Sized
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from lexigraft.corpus.mixture import text_shares
from lexigraft.corpus.sample_file import read_samples
from lexigraft.errors import UserError
from lexigraft.randomness import generator
from lexigraft.source.document_start import document_start
from lexigraft.training.data import (
    JoinedSources,
    MixedBlocks,
    SampleSequences,
    SequenceDataset,
    Source,
    encode_samples,
    pack,
)
from lexigraft.training.settings import MONOLINGUAL, Phase, Strategy
from lexigraft.training.tokenized_corpus import tokenize_corpus


def plan_phases(
    strategy: Strategy, tokenizer: PreTrainedTokenizerFast, job: dict[str, Any]
) -> list[SequenceDataset]:
    """The sequences of each phase, in order.

    The first text of a phase's `data` determines the length of the phase: its share of the
    strategy's `epochs` or `tokens` of that text, or its own. Phases with the same first text
    continue where the previous one ended. Other texts are repeated or cut to their share of the
    tokens; beside other texts, samples are packed, since sequences of one sample are much shorter.

    Raises a UserError if a text is missing or has no sequence that fits, or if a phase gets none.
    """
    inputs, seed, packing = job["inputs"], job["seed"], strategy.packing

    @cache
    def text(name: str, length: int, packed: bool) -> Source:
        path = inputs["corpus"] if name == MONOLINGUAL else inputs["samples"][name]
        if Path(path).is_dir():
            shares, blocks = text_shares(path), {}
            for member, share in shares.items():  # of a group; otherwise only ""
                limit = strategy.sentences and max(1, round(strategy.sentences * share))
                tokens = tokenize_corpus(tokenizer, path, limit, member)
                blocks[member] = pack(tokens, length, packing)
            return MixedBlocks(blocks, shares) if "" not in blocks else blocks[""]
        encoded = encode_samples(tokenizer, read_samples(path))
        samples = SampleSequences.within(length, encoded, name)
        # Without a token between them, joined samples would read as one text.
        separated = packing == "apart" or document_start(tokenizer)
        if not packed or not separated or packing == "single":
            return samples
        # Both directions of a translation are next to each other in the file.
        order = generator(*seed, name, "packing").permutation(len(samples))
        return samples.packed(length, order, apart=packing == "apart")

    ends = [*accumulate(phase.share for phase in strategy.phases)]
    ends[-1:] = [1.0]  # despite rounding of the shares
    phases = zip(strategy.phases, pairwise([0.0, *ends]), strict=False)
    plan = []
    for number, (phase, share) in enumerate(phases):
        first, *others = phase.data
        source = text(first, phase.length, bool(others))
        # Only other texts are named in the seed, which keeps the order of monolingual text stable.
        order_seed = seed if first == MONOLINGUAL else [*seed, first]
        epochs = _epochs(strategy, source)
        if phase.has_own_amount:
            # The part of the phases' common text that follows the parts of earlier phases.
            amounts = [
                _epochs(other_phase, source) * (first == next(iter(other_phase.data)))
                for other_phase in strategy.phases
            ]
            earlier, epochs = sum(amounts[:number]), sum(amounts)
            share = (earlier / epochs, (earlier + amounts[number]) / epochs)
        order = visiting_order(source, epochs, share, order_seed)
        if not len(order):
            raise UserError(
                f"strategy: phase {number} gets none of the {len(source)} sequences x {epochs:g} "
                f"epochs of '{first}'; raise its share, or the strategy's epochs or tokens, or "
                "give more text"
            )
        if others:
            sources: list[Any] = [source]
            orders = [order]
            tokens = source.lengths()[order].sum() / phase.data[first]
            for name in others:
                sources.append(text(name, phase.length, True))
                other_tokens = tokens * phase.data[name]
                orders.append(order_of_tokens(sources[-1], other_tokens, [*seed, name, number]))
            source = JoinedSources(sources)
            begins = [0, *source.cumulative_sizes[:-1]]
            order = interleave([part + begin for part, begin in zip(orders, begins, strict=True)])
        plan.append(SequenceDataset(source, order))
    return plan


def validation_set(
    phase: Phase, tokenizer: PreTrainedTokenizerFast, samples: Mapping[str, str]
) -> SequenceDataset | None:
    """The sequences of a phase's `validation`, one sample each; None if it has none."""
    if phase.validation is None:
        return None
    encoded = encode_samples(tokenizer, read_samples(samples[phase.validation]))
    source = SampleSequences.within(phase.length, encoded, phase.validation)
    return SequenceDataset(source, np.arange(len(source)))


def _epochs(amount: Strategy | Phase, source: Source) -> float:
    """The passes over a text that a strategy, or a phase with its own amount, specifies."""
    one_pass, languages = float(source.lengths().sum()), 1
    if isinstance(source, MixedBlocks):
        one_pass, languages = source.one_pass, len(source.members)
    tokens = amount.tokens
    if amount.tokens_per_language is not None:
        tokens = languages * amount.tokens_per_language
    return tokens / one_pass if tokens is not None else amount.epochs or 0.0


def cumulative_tokens(plan: list[SequenceDataset], number: int, batch_sequences: int) -> np.ndarray:
    """Training tokens of the cell so far, before and after each step of a phase, [steps + 1]."""
    earlier = sum(int(sequences.tokens().sum()) for sequences in plan[:number])
    tokens = plan[number].tokens()
    per_step = np.add.reduceat(tokens, np.arange(0, len(tokens), batch_sequences))
    return earlier + np.concatenate([[0], np.cumsum(per_step)])


def sample_counts(plan: list[SequenceDataset]) -> dict[str, dict[str, int]]:
    """Count the `samples` of each entry, and those `too_long`, in the first phase that reads it."""
    counts: dict[str, dict[str, int]] = {}
    for sequences in plan:
        for source in getattr(sequences.source, "datasets", [sequences.source]):
            if isinstance(source, SampleSequences):
                of_source = {"samples": source.samples, "too_long": source.too_long}
                counts.setdefault(source.name, of_source)
    return counts


def order_of_tokens(source: Source, tokens: float, seed: list[Any]) -> np.ndarray:
    """Indices of the sequences of a source with about `tokens` tokens, at least one sequence."""
    lengths = source.lengths()
    if isinstance(source, MixedBlocks):
        return repeated_order(source, tokens / source.length, seed)
    passes = int(tokens // lengths.sum()) + 1
    order = repeated_order(source, passes * len(lengths), seed)
    ends = np.cumsum(lengths[order])
    return order[: int(np.abs(ends - tokens).argmin()) + 1]


def visiting_order(
    source: Sized, epochs: float, share: tuple[float, float], seed: list[Any]
) -> np.ndarray:
    """Indices of the sequences of a source that one phase visits, in order.

    `epochs` is the number of passes in all phases together; `share` is where the phase begins and
    ends in these: (0, 0.5) is the first half.
    """
    one_pass = source.one_pass / source.length if isinstance(source, MixedBlocks) else len(source)
    order = repeated_order(source, epochs * one_pass, seed)
    begin, end = (round(part * len(order)) for part in share)
    return order[begin:end]


def repeated_order(source: Sized, count: float, seed: list[Any]) -> np.ndarray:
    """About `count` indices of the sequences of a source; each pass over it is a new permutation.

    In a mixture, each member has its share of the tokens, spread evenly over the order, and `count`
    is the number of sequences as long as those of the first member.
    """
    if isinstance(source, MixedBlocks):
        orders, first = [], 0
        for name, blocks in source.members.items():
            share = source.shares[name] * (source.length / blocks.length)  # of the sequences
            member_order = repeated_order(blocks, count * share, [*seed, name])
            orders.append(first + member_order)
            first += len(blocks)
        return interleave(orders)
    length = max(1, round(count))
    passes = [
        generator(*seed, "order", number).permutation(len(source))
        for number in range(math.ceil(length / max(1, len(source))))
    ]
    return np.concatenate(passes)[:length]


def interleave(orders: Sequence[np.ndarray]) -> np.ndarray:
    """Merge several orders into one, each spread evenly over it, [sum of their lengths]."""
    position = np.concatenate([(np.arange(len(order)) + 0.5) / len(order) for order in orders])
    return np.concatenate(orders)[np.argsort(position, kind="stable")]
