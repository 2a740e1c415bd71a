"""Sentences -> blocks of equal length -> the order in which a phase visits them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.randomness import generator

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sequence:
    """What the model reads at once: `tokens` [n] int32, and which of them the loss counts.

    `targets` [n] bool; None counts all of them. `labels` [n] where what is to be said is not what
    is read, as with masked tokens; IGNORED ones count for nothing. `positions` [n] begin anew with
    each document that is kept apart from the others; None is one document, 0 to n - 1.
    """

    tokens: np.ndarray
    targets: np.ndarray | None = None
    labels: np.ndarray | None = None
    positions: np.ndarray | None = None


class Text(Protocol):
    """Training sequences by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sequence: ...


@dataclass(frozen=True)
class Blocks:
    """A text of `tokens` [n] int32, cut into blocks of `length`; the last one may be shorter.

    `starts` are the tokens, in order, at which documents that are kept apart begin; None joins all.
    """

    tokens: np.ndarray
    length: int
    starts: np.ndarray | None = None

    def __len__(self) -> int:
        return -(-len(self.tokens) // self.length)

    def __getitem__(self, index: int) -> Sequence:
        if not 0 <= index < len(self):
            raise IndexError(index)
        begin = index * self.length
        tokens = self.tokens[begin : begin + self.length]
        if self.starts is None:
            return Sequence(tokens)
        inside = np.searchsorted(self.starts, [begin, begin + len(tokens)])
        return _apart(tokens, self.starts[slice(*inside)] - begin)


def read_sentences(corpus: str | Path, name: str, limit: int | None = None) -> list[str]:
    """The first `limit` lines of `train.txt`, `heldout.txt` or `english.txt` of a corpus folder.

    Raises
    ------
    UserError
        The file is missing or has no line.
    """
    file = Path(corpus) / f"{name}.txt"
    # Only "\n" ends a sentence: splitlines() would also split at U+2028 and the like.
    lines = [line for line in file.read_text("utf-8").split("\n") if line] if file.exists() else []
    if not lines:
        raise UserError(f"{file}: no sentences; the corpus stage must write at least one")
    return lines[:limit]


def read_english(corpus: str | Path, limit: int | None = None) -> list[str]:
    """The first `limit` lines of `english.txt`, which say what is forgotten; none without any."""
    file = Path(corpus) / "english.txt"
    return read_sentences(corpus, "english", limit) if file.exists() and file.stat().st_size else []


def pack(encoded: Iterable[list[int]], length: int, *, apart: bool = False) -> Blocks:
    """Concatenate encoded sentences and cut them into blocks of `length` tokens.

    Paper 000 does the same and drops the rest of every 1,000 sentences; here nothing is lost, since
    the rest of a small corpus may be all of it. A last block of one token is left out: it has
    nothing to predict.

    Parameters
    ----------
    apart
        The sentences of a block do not see each other: positions begin anew with each of them, and
        no other one predicts its first token. What a cut leaves of a sentence is one by itself.
    """
    sentences = [ids for ids in encoded if ids]
    tokens = np.fromiter((token for ids in sentences for token in ids), dtype=np.int32)
    if len(tokens) % length == 1:
        tokens = tokens[:-1]
    if not apart:
        return Blocks(tokens, length)
    return Blocks(tokens, length, np.cumsum([0, *map(len, sentences[:-1])]))


def _apart(tokens: np.ndarray, starts: np.ndarray) -> Sequence:
    """A sequence of documents that begin at `starts`, of which the first may lack its beginning."""
    places = np.arange(len(tokens), dtype=np.int32)
    begins = np.zeros_like(places)
    begins[starts] = starts
    targets = np.ones(len(tokens), dtype=bool)
    targets[starts] = False
    return Sequence(tokens, targets, positions=places - np.maximum.accumulate(begins))


def visiting_order(
    blocks: int, epochs: float, share: tuple[float, float], seed: list[Any]
) -> np.ndarray:
    """Indices of the blocks that one phase visits, in order.

    Parameters
    ----------
    blocks
        How many there are.
    epochs
        Passes over them in all phases together; each pass is a fresh permutation.
    share
        Where the phase begins and ends, as parts of all passes: (0, 0.5) is the first half.
    seed
        Names of the study, the stage and the cell.
    """
    passes = [
        generator(*seed, "order", number).permutation(blocks)
        for number in range(int(-(-epochs // 1)))
    ]
    order = np.concatenate(passes)[: max(1, round(epochs * blocks))]
    begin, end = (round(part * len(order)) for part in share)
    return order[begin:end]


class Sequences:
    """A text in visiting order, as the dataset that transformers' Trainer reads."""

    def __init__(self, text: Text, order: np.ndarray):
        self.text, self.order = text, order

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> Sequence:
        return self.text[int(self.order[index])]

    def tokens(self) -> np.ndarray:
        """Tokens of each sequence, [len(self)], padding not counted."""
        return np.array([len(self[index].tokens) for index in range(len(self))], dtype=np.int64)


def collate(sequences: list[Sequence]) -> dict[str, "torch.Tensor"]:
    """Stack sequences as `input_ids` and `labels`, each [batch, longest] int64, and what else a
    model needs to tell them from padding.

    That is `attention_mask`, or `position_ids` where a sequence holds documents that are apart:
    without a mask, transformers' models take positions that do not go on for another document, and
    so padding too, whose positions are all 0.

    Only padding and what a sequence does not count is masked in the labels: masking by a token's id
    would also mask every EOS where the padding token is the EOS token.
    """
    import torch

    shape = (len(sequences), max(len(sequence.tokens) for sequence in sequences))
    input_ids = torch.zeros(shape, dtype=torch.int64)
    labels = torch.full(shape, IGNORED, dtype=torch.int64)
    attention_mask, position_ids = torch.zeros_like(input_ids), torch.zeros_like(input_ids)
    for row, sequence in enumerate(sequences):
        n = len(sequence.tokens)
        said = sequence.tokens if sequence.labels is None else sequence.labels
        input_ids[row, :n] = torch.from_numpy(sequence.tokens.astype(np.int64))
        labels[row, :n] = torch.from_numpy(said.astype(np.int64))
        if sequence.targets is not None:
            labels[row, :n][torch.from_numpy(~sequence.targets)] = IGNORED
        attention_mask[row, :n] = 1
        positions = np.arange(n) if sequence.positions is None else sequence.positions
        position_ids[row, :n] = torch.from_numpy(positions.astype(np.int64))
    if any(sequence.positions is not None for sequence in sequences):
        return {"input_ids": input_ids, "position_ids": position_ids, "labels": labels}
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}
