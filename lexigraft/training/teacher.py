"""The teacher: a frozen source model, and its tokens for the text of training sequences.

Both tokenizations of a text are compared as bytes. A chunk is as short as possible: the text
between two consecutive positions at which both have a token boundary, even inside a character.
"""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path

import numpy as np
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.hardware import device, precision
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.inference.text_encoding import encode, tokenize
from lexigraft.setting_types import MASKED
from lexigraft.source.document_start import document_start
from lexigraft.source.model import load_config, load_model, model_kind, open_source, open_tokenizer
from lexigraft.source.positions import context_length
from lexigraft.training.data import TeacherTokens, TrainingSequence
from lexigraft.training.trainable import check_document_separation
from lexigraft.vocabulary.token_bytes import special_ids, token_bytes

_CONTINUED = bytes(range(0x80, 0xC0))  # the bytes of a character after its first one
_MOST_CONTINUED = 3  # per character


@dataclass(frozen=True)
class Teacher:
    """The source model in the `folder` of the input `teacher`, read when it is needed."""

    folder: str | Path
    separates_documents: bool = False  # whether it must keep the documents of a sequence apart

    @property
    def name(self) -> str:
        """The name of the source model."""
        return open_source(self.folder).name

    @property
    def config(self) -> PretrainedConfig:
        """The configuration of the model."""
        return load_config(open_source(self.folder).folder)

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Load the tokenizer."""
        return open_tokenizer(self.folder)

    def model(self) -> PreTrainedModel:
        """Load the model, frozen, in evaluation mode, on the device and in the job's precision.

        Raises a UserError if it must keep documents apart and does not support this.
        """
        folder = open_source(self.folder).folder
        model = load_model(folder, precision(), device()).requires_grad_(False)
        if self.separates_documents:
            check_document_separation(model)
        return model

    def check(self, key: str, length: int) -> None:
        """Check that the model can read sequences of a length.

        Raises a UserError, which begins with the settings `key`, if the model predicts masked
        tokens or its context is shorter.
        """
        if model_kind(self.config) == MASKED:
            raise UserError(
                f"{key}: {self.name} predicts masked tokens, not the next one; the teacher must be "
                "a causal language model"
            )
        limit = context_length(self.config)
        if limit is not None and limit < length:
            raise UserError(
                f"{key}: the context of {self.name} is {limit} tokens, but a sequence of its phase "
                f"has {length}; lower the phase's length"
            )


class TokenAligner:
    """Aligns training sequences of the tokenizer `own` with the tokens of another one.

    The other tokenizer reads each piece of text between special tokens separately. Special tokens
    have counterparts (`_counterparts`); each forms a chunk with its counterpart if models predict
    both. A document that begins in the middle, because it was split into sequences, still has the
    other tokenizer's start token before it.

    Not part of any chunk are

    - tokens that are not predicted: the first one of a document, and those that a sample does not
      count;
    - the parts of a character that was split at the beginning or the end of a sequence, which the
      other tokenizer does not read;
    - text from the first byte in which the two differ, for example because one normalizes, up to
      the next special token. Spaces before the first word do not count: some tokenizers add one;
    - text beyond the other tokenizer's first `most` tokens, to which its sequence is truncated.
    """

    def __init__(
        self, own: PreTrainedTokenizerFast, other: PreTrainedTokenizerFast, most: int
    ) -> None:
        self._other, self._most = other, most
        self._own_pieces, self._other_pieces = token_bytes(own), token_bytes(other)
        self._own_start, self._other_start = _start(own), _start(other)
        self._counterparts = _counterparts(own, other)
        self._special = np.array(sorted(self._counterparts))
        self._spaced = _begins_with_space(own, self._own_pieces)
        self._other_spaced = _begins_with_space(other, self._other_pieces)

    def align(self, sequence: TrainingSequence) -> TeacherTokens:
        """The tokens of the teacher for the text of a sequence, and the chunks."""
        tokens = np.asarray(sequence.tokens)
        own_chunks = np.full(len(tokens), IGNORED, dtype=np.int32)
        begins = np.array([0])
        if sequence.positions is not None:
            begins = np.flatnonzero(np.asarray(sequence.positions) == 0)
        teacher_ids: list[int] = []
        chunks: list[int] = []
        positions: list[int] = []
        first_tokens: list[int] = []  # the other tokenizer's first token of each document
        for begin, end in zip(begins, [*begins[1:], len(tokens)], strict=True):
            start = len(teacher_ids)
            if tokens[begin] != self._own_start and self._other_start is not None:
                teacher_ids.append(self._other_start)
                chunks.append(IGNORED)
            for run in self._runs(tokens, begin, end):
                ids, own_numbers, teacher_numbers = self._match(run)
                own_chunks[run.begin : run.begin + len(run.tokens)] = own_numbers
                teacher_ids += ids
                chunks += teacher_numbers.tolist()
            positions += range(len(teacher_ids) - start)
            first_tokens += [start] if start < len(teacher_ids) else []
        teacher_chunks = np.array(chunks, dtype=np.int32)
        excluded = [own_chunks[begins], teacher_chunks[first_tokens], teacher_chunks[self._most :]]
        if sequence.targets is not None:
            excluded.append(own_chunks[~np.asarray(sequence.targets)])
        excluded_chunks = np.concatenate(excluded)
        own_chunks[np.isin(own_chunks, excluded_chunks)] = IGNORED
        teacher_chunks[np.isin(teacher_chunks, excluded_chunks)] = IGNORED
        return TeacherTokens(
            np.array(teacher_ids[: self._most], dtype=np.int32),
            teacher_chunks[: self._most],
            own_chunks,
            None if sequence.positions is None else np.array(positions[: self._most]),
        )

    def _runs(self, tokens: np.ndarray, begin: int, end: int) -> "list[_Run]":
        """Split a document into single special tokens and the tokens between them."""
        special = np.isin(tokens[begin:end], self._special)
        edges = {0, end - begin, *np.flatnonzero(special), *(np.flatnonzero(special) + 1)}
        cuts = sorted(int(edge) for edge in edges)
        runs = []
        for first, last in pairwise(cuts):
            run = tokens[begin + first : begin + last].tolist()
            runs.append(_Run(begin + first, run, bool(special[first]), first > 0))
        return runs

    def _match(self, run: "_Run") -> tuple[list[int], np.ndarray, np.ndarray]:
        """The other tokenizer's ids of a run, and the chunk of each own and each other token."""
        if run.is_special:
            counterpart, predicted = self._counterparts[run.tokens[0]]
            ids = [] if counterpart is None else [counterpart]
            number = run.begin if predicted else IGNORED
            return ids, np.array([number]), np.full(len(ids), number)
        pieces = [self._own_pieces[token] for token in run.tokens]
        content = b"".join(pieces)
        # Bytes of a character whose beginning is missing.
        cut = min(_MOST_CONTINUED, len(content) - len(content.lstrip(_CONTINUED)))
        own_bytes = content[cut:]
        try:
            text = getincrementaldecoder("utf-8")().decode(own_bytes)
        except UnicodeDecodeError:  # not the tokens of a text
            text = ""
        # A space that is not part of the text: one tokenizer adds it, or both do.
        if self._other_spaced or (self._spaced and run.after_special):
            text = text.removeprefix(" ")
        [ids] = tokenize(self._other, [text]) if text else [[]]
        other_pieces = [self._other_pieces[token] for token in ids]
        other_bytes = b"".join(other_pieces)
        words, other_words = own_bytes.lstrip(b" "), other_bytes.lstrip(b" ")
        indent = len(own_bytes) - len(words)
        # Ends of tokens, in bytes of the run.
        ends = np.cumsum([len(piece) for piece in pieces])
        other_ends = np.cumsum([len(piece) for piece in other_pieces], dtype=np.int64)
        other_ends += cut + indent - (len(other_bytes) - len(other_words))
        common = commonprefix([words, other_words])  # noqa: RUF071  # these are no paths
        agreed_end = cut + indent + len(common)
        shared = np.intersect1d([0, *ends], [cut, *other_ends])
        shared = shared[(cut <= shared) & (shared <= agreed_end)]
        last = run.begin + np.searchsorted(ends, shared, side="right") - 1
        return ids, _chunk_ends(ends, shared, last), _chunk_ends(other_ends, shared, last)


@dataclass(frozen=True)
class _Run:
    """Consecutive tokens of a sequence, from index `begin`: a special one, or text."""

    begin: int
    tokens: list[int]
    is_special: bool
    after_special: bool  # whether its text begins here, and not in an earlier sequence


def _chunk_ends(ends: np.ndarray, shared: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The chunk numbers of tokens with these ends; `last` has the number of each `shared` end."""
    chunk = np.searchsorted(shared, ends)
    inside = (chunk > 0) & (chunk < len(shared))
    numbers = np.full(len(ends), IGNORED)
    numbers[inside] = last[chunk[inside]]
    return numbers


def _start(tokenizer: PreTrainedTokenizerFast) -> int | None:
    """The special token that texts begin with, if any."""
    return next(encode(tokenizer, [""]))[0] if document_start(tokenizer) else None


def _begins_with_space(tokenizer: PreTrainedTokenizerFast, pieces: Sequence[bytes]) -> bool:
    """Whether a tokenizer adds a space before a text, as SentencePiece does."""
    [[first, *_]] = tokenize(tokenizer, ["a"])
    return pieces[first].startswith(b" ")


def _counterparts(
    own: PreTrainedTokenizerFast, other: PreTrainedTokenizerFast
) -> dict[int, tuple[int | None, bool]]:
    """Special token -> its counterpart in the other tokenizer, if any, and if they are a chunk.

    The start tokens are counterparts; otherwise, tokens of the same spelling are, then the
    end-of-text tokens. No model predicts a token that only begins texts.
    """
    other_ids = {other.convert_ids_to_tokens(number): number for number in special_ids(other)}

    def is_predicted(tokenizer: PreTrainedTokenizerFast, token: int) -> bool:
        return token != tokenizer.bos_token_id or token == tokenizer.eos_token_id

    counterparts, own_start, other_start = {}, _start(own), _start(other)
    for token in special_ids(own):
        end = other.eos_token_id if token == own.eos_token_id else None
        counterpart = other_ids.get(own.convert_ids_to_tokens(token), end)
        if token == own_start:
            counterpart = other_start
        both_predicted = counterpart is not None and is_predicted(other, counterpart)
        counterparts[token] = counterpart, both_predicted and is_predicted(own, token)
    return counterparts
