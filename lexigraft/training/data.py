"""Texts and samples as training sequences: packed, masked, and in micro-batches.

A micro-batch is one forward and backward pass of one process. An optimizer step is the same for any
number of processes and any memory: each of its sequences is in exactly one micro-batch, and its
loss is divided by the number of targets in all of them.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.inference.likelihood import pad_batch
from lexigraft.inference.text_encoding import BATCH, IGNORED
from lexigraft.source.document_start import start_ids

logger = logging.getLogger(__name__)
# Texts that `packing: grouped` joins: a batch of `datasets.map`, as in transformers' `run_clm`.
GROUP = 1000


@dataclass(frozen=True)
class TrainingSequence:
    """One training sequence of n tokens."""

    tokens: np.ndarray  # [n] int32, as the model reads them
    targets: np.ndarray | None = None  # [n] bool: which tokens the loss counts; None means all
    # [n]: the tokens to predict where they differ from `tokens`, as with masked tokens; IGNORED
    # ones do not count.
    labels: np.ndarray | None = None
    # [n], restarting at 0 with each separate document; None means a single document, 0 to n - 1.
    positions: np.ndarray | None = None
    teacher: "TeacherTokens | None" = None  # the same text in a teacher's vocabulary


@dataclass(frozen=True)
class TeacherTokens:
    """The text of a training sequence of n tokens as m tokens of a teacher, and their chunks.

    A chunk is a piece of the text that consists of whole tokens in both. Its number is the index of
    its last token in the training sequence; tokens in no chunk have the number IGNORED.
    """

    tokens: np.ndarray  # [m] int32
    chunks: np.ndarray  # [m] int32: chunk of each token of the teacher
    own_chunks: np.ndarray  # [n] int32: chunk of each token of the training sequence
    positions: np.ndarray | None = None  # [m], like those of the training sequence


@dataclass(frozen=True)
class EncodedTexts:
    """Token ids of texts, concatenated."""

    tokens: np.ndarray  # [n] int32, of all texts
    lengths: np.ndarray  # [texts] int32: number of tokens of each text


# Sources of sequences: each has a length, items by index, and `lengths()`, the tokens of each
# sequence, [number of sequences] int64.


@dataclass(frozen=True)
class TextBlocks:
    """A text of `tokens` [n] int32, read as sequences `begins` to `ends`, both [sequences] int64.

    `length` are the tokens of a sequence that is not cut short; of whole texts, their mean.
    `starts` are the indices, ascending, of the tokens at which separate documents begin; None joins
    all documents of a sequence.
    """

    tokens: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    length: float
    starts: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, index: int) -> TrainingSequence:
        begin, end = self.begins[index], self.ends[index]
        tokens = np.array(self.tokens[begin:end])  # a copy: torch warns about read-only memory
        if self.starts is None:
            return TrainingSequence(tokens)
        inside = np.searchsorted(self.starts, [begin, end])
        starts = self.starts[slice(*inside)] - begin
        # The first document may be the rest of a split one.
        positions = np.arange(len(tokens), dtype=np.int32)
        begins = np.zeros_like(positions)
        begins[starts] = starts
        targets = np.ones(len(tokens), dtype=bool)
        targets[starts] = False
        positions -= np.maximum.accumulate(begins)
        return TrainingSequence(tokens, targets, positions=positions)

    def lengths(self) -> np.ndarray:
        """Tokens of each sequence."""
        return self.ends - self.begins


class JoinedSources(ConcatDataset[TrainingSequence]):
    """Several sources, one after the other."""

    def lengths(self) -> np.ndarray:
        """Tokens of each sequence."""
        sources: Any = self.datasets
        return np.concatenate([source.lengths() for source in sources])


class MixedBlocks(JoinedSources):
    """The blocks of the members of a group, one member after the other, and their shares of tokens.

    One pass reads as many blocks in these shares as possible without repeating one: all blocks of
    one member, and a part of those of each other member.
    """

    def __init__(self, members: dict[str, TextBlocks], shares: dict[str, float]):
        blocks: Any = members.values()
        super().__init__(blocks)
        self.members, self.shares = members, shares
        self.length = next(iter(members.values())).length
        # Tokens of a pass.
        self.one_pass = min(part.lengths().sum() / shares[name] for name, part in members.items())


@dataclass(frozen=True)
class SampleSequences:
    """The `samples` of one entry, alone or packed, without those that are `too_long`."""

    sequences: list[TrainingSequence]
    name: str
    samples: int
    too_long: int = 0

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: int) -> TrainingSequence:
        return self.sequences[index]

    def lengths(self) -> np.ndarray:
        """Tokens of each sequence."""
        return np.array([len(sequence.tokens) for sequence in self.sequences], dtype=np.int64)

    @classmethod
    def within(cls, length: int, sequences: list[TrainingSequence], name: str) -> "SampleSequences":
        """Select samples of at most `length` tokens; raise a UserError if there are none.

        Longer samples are left out, not truncated: a truncated answer teaches the model to stop in
        the middle or not at all, and a truncated prompt has another answer.
        """
        fitting = [sequence for sequence in sequences if len(sequence.tokens) <= length]
        if not fitting:
            shortest = min(len(sequence.tokens) for sequence in sequences)
            raise UserError(
                f"samples '{name}': the shortest of {len(sequences)} has {shortest} tokens but a "
                f"sequence of its phase has {length}; raise the phase's length"
            )
        if too_long := len(sequences) - len(fitting):
            logger.info(
                "samples '%s': %d of %d are longer than %d tokens and are left out",
                name, too_long, len(sequences), length,
            )  # fmt: skip
        return cls(fitting, name, len(fitting), too_long)

    def packed(self, length: int, order: np.ndarray, *, apart: bool = False) -> "SampleSequences":
        """Join whole samples, in an order of their indices, to sequences of up to `length` tokens.

        A special token at the beginning or the end of each separates them. With `apart`, samples
        do not attend to each other.
        """
        groups: list[list[TrainingSequence]] = []
        room = 0
        for sample in (self.sequences[index] for index in order):
            if len(sample.tokens) > room:
                groups.append([])
                room = length
            groups[-1].append(sample)
            room -= len(sample.tokens)
        joined = []
        for group in groups:
            lengths = [len(sample.tokens) for sample in group]
            targets = np.concatenate([sample.targets for sample in group])
            # The first token of a sample does not follow from the sample before it.
            targets[np.cumsum([0, *lengths[:-1]])] = False
            positions = [np.arange(count, dtype=np.int32) for count in lengths]
            joined.append(
                TrainingSequence(
                    np.concatenate([sample.tokens for sample in group]),
                    targets,
                    positions=np.concatenate(positions) if apart else None,
                )
            )
        return replace(self, sequences=joined)


Source = TextBlocks | JoinedSources | SampleSequences


def concatenate(encoded: Iterable[Sequence[int]]) -> EncodedTexts:
    """Concatenate encoded texts."""
    texts = list(encoded)
    lengths = np.array([len(ids) for ids in texts], dtype=np.int32)
    return EncodedTexts(np.fromiter(chain.from_iterable(texts), dtype=np.int32), lengths)


def pack(texts: EncodedTexts, length: int, packing: str = "joined") -> TextBlocks:
    """Cut texts into sequences of at most `length` tokens, as the key `packing` of a strategy says.

    With `apart`, positions restart at 0 with each text, also with the rest of a split one, and its
    first token is not predicted. Sequences of one token, which predict nothing, are left out.
    """
    text_ends = np.cumsum(texts.lengths, dtype=np.int64)
    text_begins = text_ends - texts.lengths
    if packing == "single":
        begins, ends = text_begins, np.minimum(text_ends, text_begins + length)
    else:
        size = GROUP if packing == "grouped" else max(1, len(text_ends))
        bounds = [0, *text_ends[size - 1 : -1 : size], len(texts.tokens)]
        parts = []
        for first, last in pairwise(bounds):
            part = np.arange(first, last, length)
            is_cut = packing == "grouped" and len(part) > 1 and (last - first) % length
            parts.append(part[:-1] if is_cut else part)
        begins = np.concatenate(parts)
        ends = np.minimum(begins + length, np.repeat(bounds[1:], [len(part) for part in parts]))
    predicting = ends - begins > 1
    begins, ends = begins[predicting], ends[predicting]
    usual = float((ends - begins).mean()) if packing == "single" else length
    starts = text_begins if packing == "apart" else None
    return TextBlocks(texts.tokens, begins, ends, usual, starts)


def encode_samples(
    tokenizer: PreTrainedTokenizerFast, samples: Iterable[tuple[str, str]]
) -> list[TrainingSequence]:
    """Encode samples as prompt, answer and end-of-text token; the loss counts the latter two.

    Both are tokenized as one text; a space between them is part of the answer. A token that spans
    both belongs to the answer, since the prompt alone does not have it. (ALMA masks as many tokens
    as the prompt alone has, which is the same unless a token spans both.)
    """
    start, end = start_ids(tokenizer), tokenizer.eos_token_id
    encoded, pairs = [], list(samples)
    for first in range(0, len(pairs), BATCH):
        batch = pairs[first : first + BATCH]
        joined = [prompt + answer for prompt, answer in batch]
        texts = tokenizer(joined, return_offsets_mapping=True, verbose=False)
        for (prompt, _), ids, offsets in zip(
            batch, texts["input_ids"], texts["offset_mapping"], strict=True
        ):
            tokens = start + ids
            # Special tokens have no characters: their offsets are (0, 0).
            targets = [False] * len(start) + [upto > len(prompt) for _, upto in offsets]
            if end is not None and tokens[-1] != end:
                tokens.append(end)
                targets.append(True)
            targets[-1] = True  # also an end-of-text token that the tokenizer itself appends
            encoded.append(TrainingSequence(np.array(tokens, dtype=np.int32), np.array(targets)))
    return encoded


class SequenceDataset:
    """Sequences of a source in visiting order: the dataset that transformers' Trainer reads.

    `prepare` maps a sequence and the index of its visit to a sequence with the same number of
    tokens: it may mask tokens, or add those of a teacher.
    """

    def __init__(
        self,
        source: Source,
        order: np.ndarray,
        prepare: Callable[[TrainingSequence, int], TrainingSequence] | None = None,
    ):
        self.source, self.order, self._prepare = source, order, prepare

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> TrainingSequence:
        sequence = self.source[int(self.order[index])]
        return sequence if self._prepare is None else self._prepare(sequence, index)

    def tokens(self) -> np.ndarray:
        """Tokens of each sequence, [len(self)], padding not counted."""
        return self.source.lengths()[self.order]


def collate(sequences: list[TrainingSequence]) -> dict[str, torch.Tensor]:
    """Pad and stack sequences as `input_ids` and `labels`, each [batch, longest] int64.

    The batch also has an `attention_mask`, or `position_ids` if a sequence holds separate
    documents: without a mask, transformers treats positions that do not continue as another
    document, and so padding too, whose positions are all 0. If sequences have tokens of a teacher,
    their inputs have the prefix `teacher_`, and there are `chunks` and `teacher_chunks`, whose
    padding is IGNORED.

    Padding is masked by its place: its token may be EOS. Without sequences, as for a process that
    has none left while others do, nothing counts.
    """
    sequences = sequences or [TrainingSequence(np.zeros(2, np.int32), np.zeros(2, bool))]
    labels = [
        sequence.tokens if sequence.labels is None else sequence.labels for sequence in sequences
    ]
    counted = [True if sequence.targets is None else sequence.targets for sequence in sequences]
    labels = [np.where(*pair, IGNORED) for pair in zip(counted, labels, strict=True)]
    batch = _stack(sequences, labels)
    if teacher_rows := [sequence.teacher for sequence in sequences if sequence.teacher is not None]:
        teacher_batch = _stack(teacher_rows, [sequence.chunks for sequence in teacher_rows])
        teacher_batch["chunks"] = teacher_batch.pop("labels")
        batch |= {f"teacher_{name}": tensor for name, tensor in teacher_batch.items()}
        own_chunks = [sequence.own_chunks for sequence in teacher_rows]
        batch["chunks"] = pad_batch(own_chunks, own_chunks)["labels"]
    return batch


def _stack(
    rows: Sequence[TrainingSequence] | Sequence[TeacherTokens], labels: Sequence[np.ndarray]
) -> dict[str, torch.Tensor]:
    """Rows of tokens and their labels, padded, with a mask or positions."""
    batch = pad_batch([row.tokens for row in rows], labels)
    if any(row.positions is not None for row in rows):
        positions = [
            np.arange(len(row.tokens)) if row.positions is None else row.positions for row in rows
        ]
        del batch["attention_mask"]
        batch["position_ids"] = pad_batch(positions, positions)["input_ids"]
    return batch
