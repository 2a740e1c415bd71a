"""Shared, new and similar tokens of a source and a target vocabulary.

Tokens are compared by the bytes they represent, not by spelling: `Ġword` and `▁word` are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.vocabulary.token_bytes import is_fallback, special_ids, spelling, token_bytes
from lexigraft.vocabulary.tokenizer_settings import tokenizer_of_rows

# Roles of special tokens, and the source's role that matches each if it lacks that role itself. In
# encoders, [CLS] begins a text and [SEP] ends it. A token with several roles is matched by the
# first of them.
_ROLES = {"eos": "sep", "bos": "cls", "sep": "eos", "cls": "bos"}
_ROLES |= {role: role for role in ("pad", "mask", "unk")}


def pair_vocabularies(
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
    n_source: int | None = None,
) -> "VocabularyPair":
    """Pair a source tokenizer with a target tokenizer that expands or replaces it.

    A target in which every source token keeps its id expands the source: all `n_source` rows (by
    default the source tokenizer's size) keep their positions, including padding rows. Any other
    target replaces the source: shared tokens copy the source token that represents the same bytes.
    Added tokens of the source without a row are new in the target. Raises a `UserError` if other
    source tokens have no row, or if the target's ids have a gap.
    """
    if n_source is not None:
        source_tokenizer = tokenizer_of_rows(source_tokenizer, n_source, f"n_source={n_source}")
    source, target = _Tokens.of(source_tokenizer), _Tokens.of(target_tokenizer)
    source_ids = np.array(sorted(source.vocab.values()), dtype=np.int64)
    target_ids = np.array(sorted(target.vocab.values()), dtype=np.int64)
    source_size = int(source_ids[-1]) + 1
    n_rows = source_size if n_source is None else n_source
    shared = _match(source, target)
    expands = all(shared.get(source_id) == source_id for source_id in source_ids.tolist())
    n_tokens = int(target_ids[-1]) + 1
    source_of = np.full(max(n_rows, n_tokens) if expands else n_tokens, -1, dtype=np.int64)
    if expands:
        source_of[:n_rows] = np.arange(n_rows)
        source_of[target_ids[target_ids >= source_size]] = -1
    else:
        source_of[list(shared)] = list(shared.values())
    gaps = np.setdiff1d(np.flatnonzero(source_of < 0), target_ids, assume_unique=True)
    if len(gaps):
        raise UserError(
            f"target tokenizer: no token has id {gaps[0]}, but the largest id is {n_tokens - 1}; "
            "give a tokenizer whose ids have no gap"
        )
    tokenizers, pieces = (source_tokenizer, target_tokenizer), (source.data, target.data)
    return VocabularyPair(*tokenizers, n_rows, expands, source_ids, source_of, *pieces)


@dataclass(frozen=True)
class VocabularyPair:
    """A source tokenizer, its target tokenizer, and the rows of both matrices.

    `source_bytes` and `target_bytes` are the bytes that each token represents, by id.
    """

    source_tokenizer: PreTrainedTokenizerFast
    target_tokenizer: PreTrainedTokenizerFast
    n_source: int  # rows of the source matrices, including padding; rows are token ids
    expands: bool
    source_ids: np.ndarray  # of all source tokens, ascending: the source rows without padding
    source_of: np.ndarray  # [n_target]: the source row that each target row copies, -1 for new
    source_bytes: list[bytes]
    target_bytes: list[bytes]

    @property
    def n_target(self) -> int:
        """Number of rows of the target matrices; an expansion keeps all rows of the source."""
        return len(self.source_of)

    @cached_property
    def new_ids(self) -> np.ndarray:
        """Ids of the tokens of the target that the source lacks, ascending."""
        return np.flatnonzero(self.source_of < 0)

    @cached_property
    def shared_ids(self) -> np.ndarray:
        """Target ids of the tokens that copy a source token, without special tokens, ascending."""
        target_ids = np.array(sorted(self.target_tokenizer.get_vocab().values()), dtype=np.int64)
        ordinary = np.setdiff1d(target_ids, list(self.target_special_ids))
        copied = self.source_of[ordinary]
        return ordinary[(copied >= 0) & ~np.isin(copied, list(self.source_special_ids))]

    @cached_property
    def byte_ids(self) -> np.ndarray:
        """Target ids of shared tokens of which only one side is a fallback byte, as `<0xC3>`."""
        of_target = np.isin(self.shared_ids, list(self.target_fallback_ids))
        of_source = np.isin(self.source_of[self.shared_ids], list(self.source_fallback_ids))
        return self.shared_ids[of_target != of_source]

    @cached_property
    def new_tokens(self) -> list[str]:
        """Vocabulary strings of the new tokens, in the order of `new_ids`."""
        # `convert_ids_to_tokens` gives the normalized spelling of an added token.
        tokens = {number: token for token, number in self.target_tokenizer.get_vocab().items()}
        return [tokens[number] for number in self.new_ids.tolist()]

    @cached_property
    def source_fallback_ids(self) -> set[int]:
        """Ids of the source's fallback bytes, such as `<0xC3>`."""
        return _fallback_ids(self.source_tokenizer)

    @cached_property
    def target_fallback_ids(self) -> set[int]:
        """Ids of the target's fallback bytes."""
        return _fallback_ids(self.target_tokenizer)

    @cached_property
    def source_special_ids(self) -> set[int]:
        """Ids of the source's special tokens, its unknown token included."""
        return special_ids(self.source_tokenizer)

    @cached_property
    def target_special_ids(self) -> set[int]:
        """Ids of the target's special tokens, its unknown token included."""
        return special_ids(self.target_tokenizer)


def shared_tokens(
    source_tokenizer: PreTrainedTokenizerFast, target_tokenizer: PreTrainedTokenizerFast
) -> dict[int, int]:
    """Map the ids of target tokens to source tokens that represent the same bytes.

    Special tokens match only special tokens: by their string, otherwise by their role. An unknown
    token that also begins, ends or pads texts in the source, as in GPT-2, is not matched. If
    several source tokens represent the same bytes, the one with the same spelling is used,
    otherwise the first that is not a fallback byte.
    """
    return _match(_Tokens.of(source_tokenizer), _Tokens.of(target_tokenizer))


def similar_tokens(
    pair: VocabularyPair, key: Callable[[bytes], str | bytes], rank: Callable[[bytes, bytes], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """New tokens with the same `key` of their bytes as a source token, and these tokens [n].

    Special tokens and tokens with an empty key have none. Of several source tokens, the first with
    the lowest `rank` is used, and a fallback byte only if there is no other.
    """
    ordinary_ids = [i for i in pair.source_ids.tolist() if i not in pair.source_special_ids]
    ids_by_key: dict[str | bytes, list[int]] = {}
    for source_id in ordinary_ids:
        if text := key(pair.source_bytes[source_id]):
            ids_by_key.setdefault(text, []).append(source_id)
    source_of_new = {}
    for new_id in pair.new_ids.tolist():
        data = pair.target_bytes[new_id]
        if new_id not in pair.target_special_ids and (ids := ids_by_key.get(key(data))):
            source_of_new[new_id] = min(
                ids, key=lambda i: (i in pair.source_fallback_ids, rank(pair.source_bytes[i], data))
            )
    return np.array(list(source_of_new), dtype=np.int64), np.array(
        list(source_of_new.values()), dtype=np.int64
    )


def lower_case(piece: bytes) -> bytes:
    """The bytes of a token in lower case if they are valid UTF-8."""
    try:
        return piece.decode("utf-8").lower().encode()
    except UnicodeDecodeError:
        return piece


class _Tokens(NamedTuple):
    """A tokenizer, with the ids, the bytes (by id) and the special ids of its tokens."""

    tokenizer: PreTrainedTokenizerFast
    vocab: dict[str, int]
    data: list[bytes]
    special: set[int]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> "_Tokens":
        vocab = tokenizer.get_vocab()
        return cls(tokenizer, vocab, token_bytes(tokenizer, vocab), special_ids(tokenizer))


def _fallback_ids(
    tokenizer: PreTrainedTokenizerFast, vocab: dict[str, int] | None = None
) -> set[int]:
    token_spelling, vocab = spelling(tokenizer), vocab or tokenizer.get_vocab()
    return {i for token, i in vocab.items() if is_fallback(token, token_spelling)}


def _match(source: _Tokens, target: _Tokens) -> dict[int, int]:
    fallback_ids = _fallback_ids(source.tokenizer, source.vocab)
    # Tokens are equal if both or neither are special, and they have the same bytes.
    source_keys, target_keys = (
        [(number in tokens.special, data) for number, data in enumerate(tokens.data)]
        for tokens in (source, target)
    )
    id_by_key: dict[tuple[bool, bytes], int] = {}
    for source_id in [*sorted({*source.vocab.values()} - fallback_ids), *sorted(fallback_ids)]:
        id_by_key.setdefault(source_keys[source_id], source_id)
    shared: dict[int, int] = {}
    for token, target_id in target.vocab.items():
        key, same_string = target_keys[target_id], source.vocab.get(token)
        if same_string is not None and source_keys[same_string] == key:
            shared[target_id] = same_string
        elif key in id_by_key:
            shared[target_id] = id_by_key[key]
    for role, other_role in _ROLES.items():
        target_id = getattr(target.tokenizer, f"{role}_token_id")
        candidates = [getattr(source.tokenizer, f"{name}_token_id") for name in (role, other_role)]
        candidates = [i for i in candidates if i is not None]
        text_ids = [getattr(source.tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")]
        begins_text = role == "unk" and candidates and candidates[0] in text_ids
        if target_id is not None and candidates and not begins_text:
            shared.setdefault(target_id, candidates[0])
    return shared
