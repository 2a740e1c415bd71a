"""The teacher: a frozen source model, and its tokens for the text of training sequences.

Both tokenizations of a text are compared as bytes. A chunk is as short as possible: the text
between two consecutive positions at which both have a token boundary, even inside a character.
"""

from codecs import getincrementaldecoder
from dataclasses import dataclass
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path

import numpy as np
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.hardware import device, precision
from lexigraft.inference.text_encoding import IGNORED, encode, tokenize
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
        """Raise a UserError about `key` if the model is no causal one for this sequence length."""
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

    The other tokenizer reads each piece of text between special tokens separately. A special token
    forms a chunk with its counterpart if models predict both. A document that begins in the middle,
    because it was split into sequences, still has the other tokenizer's start token before it.

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
        self._spaced, self._other_spaced = (
            pieces[next(tokenize(tokenizer, ["a"]))[0]].startswith(b" ")  # as SentencePiece adds it
            for tokenizer, pieces in ((own, self._own_pieces), (other, self._other_pieces))
        )
        # Special token -> its counterpart in the other tokenizer, if any, and if they are a chunk.
        # The start tokens are counterparts; otherwise, tokens of the same spelling are, then the
        # end-of-text tokens. No model predicts a token that only begins texts.
        self._counterparts: dict[int, tuple[int | None, bool]] = {}
        other_ids = {other.convert_ids_to_tokens(number): number for number in special_ids(other)}
        only_begin, others_only_begin = (
            {tokenizer.bos_token_id} - {tokenizer.eos_token_id} for tokenizer in (own, other)
        )
        for token in special_ids(own):
            end = other.eos_token_id if token == own.eos_token_id else None
            counterpart = other_ids.get(own.convert_ids_to_tokens(token), end)
            if token == self._own_start:
                counterpart = self._other_start
            predicted = counterpart is not None and counterpart not in others_only_begin
            self._counterparts[token] = counterpart, predicted and token not in only_begin

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
        is_special = np.isin(tokens, list(self._counterparts))
        edges = {*begins, len(tokens), *np.flatnonzero(is_special), *np.flatnonzero(is_special) + 1}
        for begin, end in pairwise([*begins, len(tokens)]):
            start = len(teacher_ids)
            if tokens[begin] != self._own_start and self._other_start is not None:
                teacher_ids.append(self._other_start)
                chunks.append(IGNORED)
            # Single special tokens, and the text between them.
            for first, last in pairwise(sorted(edge for edge in edges if begin <= edge <= end)):
                if is_special[first]:
                    counterpart, predicted = self._counterparts[int(tokens[first])]
                    own_chunks[first] = first if predicted else IGNORED
                    ids = [] if counterpart is None else [counterpart]
                    numbers = len(ids) * [own_chunks[first]]
                else:
                    ids, own_numbers, other_numbers = self._match(
                        tokens[first:last].tolist(), begins_text=first > begin
                    )
                    own_chunks[first:last] = np.where(own_numbers < 0, IGNORED, own_numbers + first)
                    numbers = np.where(other_numbers < 0, IGNORED, other_numbers + first).tolist()
                teacher_ids += ids
                chunks += numbers
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

    def _match(
        self, tokens: list[int], begins_text: bool
    ) -> tuple[list[int], np.ndarray, np.ndarray]:
        """The other tokenizer's ids of a text, and the chunk of each own and each other token.

        A chunk has the index of its last own token as its number, and -1 is no chunk. `begins_text`
        says that the text begins here, and not in an earlier sequence.
        """
        pieces = [self._own_pieces[token] for token in tokens]
        content = b"".join(pieces)
        # Bytes of a character whose beginning is missing.
        cut = min(_MOST_CONTINUED, len(content) - len(content.lstrip(_CONTINUED)))
        own_bytes = content[cut:]
        try:
            text = getincrementaldecoder("utf-8")().decode(own_bytes)
        except UnicodeDecodeError:  # not the tokens of a text
            text = ""
        # A space that is not part of the text: one tokenizer adds it, or both do.
        if self._other_spaced or (self._spaced and begins_text):
            text = text.removeprefix(" ")
        [ids] = tokenize(self._other, [text]) if text else [[]]
        other_pieces = [self._other_pieces[token] for token in ids]
        other_bytes = b"".join(other_pieces)
        words, other_words = own_bytes.lstrip(b" "), other_bytes.lstrip(b" ")
        indent = len(own_bytes) - len(words)
        # Ends of tokens, in bytes of the text.
        ends = np.cumsum([len(piece) for piece in pieces])
        other_ends = np.cumsum([len(piece) for piece in other_pieces], dtype=np.int64)
        other_ends += cut + indent - (len(other_bytes) - len(other_words))
        common = commonprefix([words, other_words])  # noqa: RUF071  # these are no paths
        agreed_end = cut + indent + len(common)
        shared = np.intersect1d([0, *ends], [cut, *other_ends])
        shared = shared[(cut <= shared) & (shared <= agreed_end)]
        last = np.searchsorted(ends, shared, side="right") - 1  # own token at each shared end

        def numbers_of(ends: np.ndarray) -> np.ndarray:
            chunk = np.searchsorted(shared, ends)
            inside = (chunk > 0) & (chunk < len(shared))
            numbers = np.full(len(ends), -1)
            numbers[inside] = last[chunk[inside]]
            return numbers

        return ids, numbers_of(ends), numbers_of(other_ends)


def _start(tokenizer: PreTrainedTokenizerFast) -> int | None:
    """The special token that texts begin with, if any."""
    return next(encode(tokenizer, [""]))[0] if document_start(tokenizer) else None
