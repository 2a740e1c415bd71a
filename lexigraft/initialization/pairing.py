"""Shared and new tokens of a source and a target vocabulary."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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

# Rules by which a source and a target token count as the same, see `pair_vocabularies`.
SHARED = ("bytes", "spelling", "without-space", "fuzzy", "special")


def pair_vocabularies(
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
    n_source: int | None = None,
    shared: str = "bytes",
) -> "VocabularyPair":
    """Pair a source tokenizer with a target tokenizer that expands or replaces it.

    A target in which every source token keeps its id expands the source: all `n_source` rows (by
    default the source tokenizer's size) keep their positions, including padding rows. Any other
    target replaces the source: shared tokens copy their source token. Added tokens of the source
    without a row are new in the target. Raises a `UserError` if other source tokens have no row, or
    if the target's ids have a gap.

    Parameters
    ----------
    shared
        Which tokens are shared: those with the same `bytes` (`Ġword` and `▁word`); the same
        `spelling` as vocabulary strings; the same bytes `without-space` (SALT, appendix A); the
        same lower-case text without white space (`fuzzy`, as in FOCUS; CW2V, appendix E); or only
        `special` tokens, so that the rows of all others are computed.
    """
    if n_source is not None:
        source_tokenizer = tokenizer_of_rows(source_tokenizer, n_source, f"n_source={n_source}")
    source, target = _Tokens.of(source_tokenizer), _Tokens.of(target_tokenizer)
    source_ids = np.array(sorted(source.vocab.values()), dtype=np.int64)
    target_ids = np.array(sorted(target.vocab.values()), dtype=np.int64)
    source_size = int(source_ids[-1]) + 1
    n_rows = source_size if n_source is None else n_source
    copied = _shared_tokens(source, target, shared)
    expands = all(copied.get(source_id) == source_id for source_id in source_ids.tolist())
    n_tokens = int(target_ids[-1]) + 1
    source_of = np.full(max(n_rows, n_tokens) if expands else n_tokens, -1, dtype=np.int64)
    if expands:
        source_of[:n_rows] = np.arange(n_rows)
        for target_id in target_ids[target_ids >= source_size].tolist():
            is_similar = shared in ("without-space", "fuzzy") and target_id not in target.special
            source_of[target_id] = copied.get(target_id, -1) if is_similar else -1
    else:
        source_of[list(copied)] = list(copied.values())
    gaps = np.setdiff1d(np.flatnonzero(source_of < 0), target_ids, assume_unique=True)
    if len(gaps):
        raise UserError(
            f"target tokenizer: no token has id {gaps[0]}, but the largest id is {n_tokens - 1}; "
            "give a tokenizer whose ids have no gap"
        )
    return VocabularyPair(
        source_tokenizer,
        target_tokenizer,
        n_rows,
        expands,
        source_ids,
        source_of,
        source.data,
        source.special,
        source.fallback,
        target.data,
        target.special,
        target.fallback,
    )


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
    source_special_ids: set[int]  # with the unknown token
    source_fallback_ids: set[int]  # of fallback bytes, such as `<0xC3>`
    target_bytes: list[bytes]
    target_special_ids: set[int]
    target_fallback_ids: set[int]

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


class _Tokens(NamedTuple):
    """A tokenizer, with the ids, the bytes (by id), the special ids and the fallback bytes."""

    tokenizer: PreTrainedTokenizerFast
    vocab: dict[str, int]
    data: list[bytes]
    special: set[int]
    fallback: set[int]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> "_Tokens":
        vocab, token_spelling = tokenizer.get_vocab(), spelling(tokenizer)
        fallback = {i for token, i in vocab.items() if is_fallback(token, token_spelling)}
        data = token_bytes(tokenizer, vocab)
        return cls(tokenizer, vocab, data, special_ids(tokenizer), fallback)

    def key(self, token: str, shared: str) -> tuple[bool, str]:
        """What two shared tokens have in common by a rule: whether they are special, and a text."""
        token_id = self.vocab[token]
        text = self.data[token_id].decode("utf-8", errors="surrogateescape")
        if token_id in self.special or shared == "bytes":
            return token_id in self.special, text
        if shared == "spelling":
            return False, token
        # A token of nothing but white space keeps it.
        return False, "".join((text.lower() if shared == "fuzzy" else text).split()) or text


def _shared_tokens(source: _Tokens, target: _Tokens, shared: str) -> dict[int, int]:
    """Map the ids of target tokens to the source tokens that they share, by a rule of `SHARED`.

    Special tokens match only special tokens: by their string, otherwise by their role. An unknown
    token that also begins, ends or pads texts in the source, as in GPT-2, is not matched. Of
    several source tokens, that with the same spelling is used, and a fallback byte only if there is
    no other; then that with the same bytes, with the same leading space, the shortest, that in
    lower case, and the first.
    """
    source_tokens: dict[tuple[bool, str], list[str]] = {}
    for token in source.vocab:
        source_tokens.setdefault(source.key(token, shared), []).append(token)

    def rank(source_token: str, token: str) -> tuple[int, ...]:
        source_id = source.vocab[source_token]
        text, target_text = source.key(source_token, "bytes")[1], target.key(token, "bytes")[1]
        return (
            source_token != token,
            source_id in source.fallback,
            text != target_text,
            text[:1].isspace() != target_text[:1].isspace(),
            len(text),
            text != text.lower(),
            source_id,
        )

    matches: dict[int, int] = {}
    for token, target_id in target.vocab.items():
        key = target.key(token, shared)
        if (key[0] or shared != "special") and (tokens := source_tokens.get(key)):
            matches[target_id] = min(rank(source_token, token) for source_token in tokens)[-1]
    for role, other_role in _ROLES.items():
        target_id = getattr(target.tokenizer, f"{role}_token_id")
        candidates = [getattr(source.tokenizer, f"{name}_token_id") for name in (role, other_role)]
        candidates = [i for i in candidates if i is not None]
        text_ids = [getattr(source.tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")]
        begins_text = role == "unk" and candidates and candidates[0] in text_ids
        if target_id is not None and candidates and not begins_text:
            matches.setdefault(target_id, candidates[0])
    return matches
