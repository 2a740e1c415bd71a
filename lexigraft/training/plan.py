"""What each phase of a strategy reads, and in which order: texts by name, mixed by their shares."""

from typing import TYPE_CHECKING, Any

import numpy as np

from lexigraft.corpus.sample_file import read_samples
from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import encode
from lexigraft.training.data import Sequences, Text, pack, read_sentences, visiting_order
from lexigraft.training.mixture import Joined, counts_for, mixed, more_of
from lexigraft.training.samples import Samples, encode_samples
from lexigraft.training.settings import MONOLINGUAL, Phase, Strategy

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def plan_phases(
    strategy: Strategy, tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
) -> list[Sequences]:
    """What each phase visits.

    The first text of a phase's `data` sets how long the phase is: its share of the strategy's
    `epochs`, which are passes over that text. The others are repeated or cut until they have their
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
            end = 1.0  # shares are floats; the last one takes what is left
        plan.append(_visits(texts, phase, number, strategy.epochs, (begin, end), job["seed"]))
        begin = end
    return plan


def tokens_after(plan: list[Sequences], number: int, batch_sequences: int) -> np.ndarray:
    """Training tokens since the cell began, before and after each step of a phase, [steps + 1]."""
    before = sum(int(sequences.tokens().sum()) for sequences in plan[:number])
    own = plan[number].tokens()
    per_step = np.add.reduceat(own, np.arange(0, len(own), batch_sequences))
    return before + np.concatenate([[0], np.cumsum(per_step)])


def samples_read(plan: list[Sequences]) -> dict[str, dict[str, int]]:
    """Of each entry of samples that the phases read: how many, and how many were too long.

    Keys `samples` and `too_long`; of phases with different lengths, what the first one to read the
    entry makes of it.
    """
    found: dict[str, dict[str, int]] = {}
    for sequences in plan:
        parts = sequences.text.texts if isinstance(sequences.text, Joined) else [sequences.text]
        for part in parts:
            if isinstance(part, Samples):
                facts = {"samples": len(part), "too_long": part.too_long}
                found.setdefault(part.name, facts)
    return found


class _Texts:
    """The texts of a strategy as sequences, each read and encoded once."""

    def __init__(
        self, strategy: Strategy, tokenizer: "PreTrainedTokenizerFast", job: dict[str, Any]
    ):
        self.strategy, self.tokenizer, self.inputs = strategy, tokenizer, job["inputs"]
        self.encoded: dict[str, Any] = {}
        self.made: dict[tuple[str, int], Text] = {}

    def of(self, name: str, length: int) -> Text:
        """The text `name` in sequences of at most `length` tokens."""
        if (name, length) not in self.made:
            self.made[name, length] = self._make(name, length)
        return self.made[name, length]

    def _make(self, name: str, length: int) -> Text:
        if name == MONOLINGUAL:
            if name not in self.encoded:
                sentences = read_sentences(self.inputs["corpus"], "train", self.strategy.sentences)
                self.encoded[name] = list(encode(self.tokenizer, sentences))
            apart = self.strategy.packing == "apart"
            return pack(self.encoded[name], length, apart=apart)
        if name not in self.encoded:
            samples = read_samples(self.inputs["samples"][name])
            self.encoded[name] = encode_samples(self.tokenizer, samples)
        return Samples.within(length, self.encoded[name], name)


def _visits(
    texts: _Texts,
    phase: Phase,
    number: int,
    epochs: float,
    share: tuple[float, float],
    seed: list[Any],
) -> Sequences:
    """The sequences of one phase, in order."""
    first, *others = phase.data
    text = texts.of(first, phase.length)
    # Monolingual text is visited as it was before there were other texts to name.
    own = seed if first == MONOLINGUAL else [*seed, first]
    order = visiting_order(len(text), epochs, share, own)
    if not len(order):
        raise UserError(
            f"strategy: phase {number} gets no sequence of {len(text)} x {epochs} epochs of "
            f"'{first}'; raise its share or epochs, or give more text"
        )
    if not others:
        return Sequences(text, order)
    parts, orders = [text], [order]
    for name, count in counts_for(len(order), phase.data).items():
        parts.append(texts.of(name, phase.length))
        orders.append(more_of(len(parts[-1]), count, [*seed, name, number]))
    joined = Joined(parts)
    return Sequences(joined, mixed([joined.places(*pair) for pair in enumerate(orders)]))
