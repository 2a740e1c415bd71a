"""Decompose target tokens into source tokens, and build recipe rows from these pieces.

The source tokenizer's *model* splits the text of a token as it would within a longer text:
tokenizing it as a complete text would add a `▁`, or encode bytes in the byte alphabet twice.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from tokenizers import Tokenizer, models

from lexigraft.errors import UserError
from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.source.encoding import encoded_batches, tokenizer_faults
from lexigraft.vocabulary.marks import cuts_at_marks
from lexigraft.vocabulary.token_bytes import byte_alphabet, pre_tokens, spelling

# Recipe rows of the new tokens [len(new_ids), n_source + 1], see `recipe.assemble_recipe`, and
# which of them fell back, boolean [len(new_ids)].
NewRows = tuple[csr_array, np.ndarray]

# Bytes of incomplete characters are decoded to lone surrogates, each of which is a separate run.
_RUNS = re.compile("[\udc80-\udcff]|[^\udc80-\udcff]+")
_SURROGATES = 0xDC00
_MOST_WEIGHTS = 1 << 27  # in dense rows: about 5 GB with the copies made to store them


def decompose(pair: VocabularyPair, target_ids: Sequence[int]) -> list[list[int]]:
    """Split target tokens into source tokens; returns the source ids of each in reading order.

    The source's normalizer is applied first. Pieces unknown to the source (no byte fallback) and
    special tokens are left out, so a list may be empty; a special token of the target has no
    pieces.
    """
    split = _Splitter(pair)
    with tokenizer_faults():
        return [
            [] if i in pair.target_special_ids else split(pair.target_bytes[i])
            for i in map(int, target_ids)
        ]


def tokenize_spelling(pair: VocabularyPair, tokens: Sequence[str]) -> list[list[int]]:
    """Tokenize the vocabulary strings of tokens as if they were texts; returns their source ids.

    Published code does so. A SentencePiece tokenizer adds `▁`; a byte-level one encodes `Ġ` again.
    """
    batches = encoded_batches(pair.source_tokenizer, tokens)
    special = pair.source_special_ids
    return [[i for i in ids if i not in special] for batch in batches for ids in batch]


class _Splitter:
    """Splits bytes into source ids with the model of the source tokenizer."""

    def __init__(self, pair: VocabularyPair) -> None:
        self.tokenizer = pair.source_tokenizer
        self.backend = self.tokenizer.backend_tokenizer
        self.model = self.backend.model
        self.normalizer = _within_text(self.backend.normalizer)
        self.cuts_at_marks = cuts_at_marks(self.backend)
        self.spelling = spelling(self.tokenizer)
        self.special = pair.source_special_ids
        self.vocabulary = self.tokenizer.get_vocab()
        self.letters = {byte: letter for letter, byte in byte_alphabet().items()}

    def __call__(self, data: bytes) -> list[int]:
        runs = _RUNS.findall(data.decode("utf-8", errors="surrogateescape"))
        if self.spelling == "byte-level":
            text = "".join(run if _is_byte(run) else self._normalized(run) for run in runs)
            data = text.encode("utf-8", errors="surrogateescape")
            letters = "".join(self.letters[byte] for byte in data)
            return [piece for word in self._cut(text, letters) for piece in self._pieces(word)]
        pieces: list[int] = []
        for run in runs:
            if _is_byte(run):
                fallback = self.vocabulary.get(f"<0x{ord(run) - _SURROGATES:02X}>")
                pieces += [] if fallback is None else [fallback]
            elif self.spelling == "wordpiece":
                pieces += self._word_pieces(run)
            else:
                pieces += self._pieces(self._normalized(run).replace(" ", "▁"))
        return pieces

    def _normalized(self, text: str) -> str:
        return text if self.normalizer is None else self.normalizer.normalize_str(text)

    def _cut(self, text: str, letters: str) -> list[str]:
        """Split the byte letters of a token where the source splits words at combining marks."""
        if self.cuts_at_marks and any(
            unicodedata.category(character)[0] == "M" for character in text
        ):
            with suppress(UnicodeEncodeError):  # incomplete characters cannot be pre-tokenized
                words = pre_tokens(self.backend, text)
                return words if "".join(words) == letters else [letters]
        return [letters]

    def _word_pieces(self, text: str) -> list[int]:
        # Text that stays attached to a preceding letter continues a word; the rest begins words.
        first_word, *other_words = pre_tokens(self.backend, f"a{text}")
        pieces: list[int] = []
        if first_word[1:]:
            continuation = self.model.tokenize(f"##{first_word[1:]}")
            # Without a matching piece, WordPiece would split the # signs themselves.
            if continuation[0].value[2:]:
                pieces += [piece.id for piece in continuation if piece.id not in self.special]
        return pieces + [i for word in other_words for i in self._pieces(word)]

    def _pieces(self, string: str) -> list[int]:
        return [piece.id for piece in self.model.tokenize(string) if piece.id not in self.special]


def _is_byte(run: str) -> bool:
    return "\udc80" <= run <= "\udcff"


def _within_text(normalizer: Any) -> Any:
    """A normalizer without the steps that change the ends of a text; None if no step remains."""
    state_within_text = (
        None if normalizer is None else _without_ends(json.loads(normalizer.__getstate__()))
    )
    if state_within_text is None:
        return None
    # A normalizer can be deserialized only as part of a tokenizer.
    state = json.loads(Tokenizer(models.BPE()).to_str()) | {"normalizer": state_within_text}
    return Tokenizer.from_str(json.dumps(state)).normalizer


def _without_ends(component: dict[str, Any]) -> dict[str, Any] | None:
    if component["type"] == "Sequence":
        kept = [part for part in map(_without_ends, component["normalizers"]) if part]
        return {"type": "Sequence", "normalizers": kept} if kept else None
    return None if component["type"] in ("Prepend", "Strip") else component


def mean_rows(pieces: Sequence[Sequence[int]], n_source: int) -> csr_array:
    """Recipe rows [len(pieces), n_source + 1] of the mean of each list of source ids, or of all if
    empty.
    """
    return weighted_rows([piece_shares(ids) or {n_source: 1.0} for ids in pieces], n_source)


def piece_shares(pieces: Sequence[int]) -> dict[int, float]:
    """The share of each source id in the pieces of a token; empty without pieces."""
    return {i: count / len(pieces) for i, count in Counter(pieces).items()}


def weighted_rows(weights: Sequence[Mapping[int, float]], n_source: int) -> csr_array:
    """Recipe rows from one mapping source id -> weight for each new token; `n_source` is the mean
    of all.
    """
    rows = np.repeat(np.arange(len(weights)), [len(row) for row in weights])
    columns = np.array([i for row in weights for i in row], dtype=np.int64)
    values = np.array([value for row in weights for value in row.values()], dtype=np.float64)
    return csr_array((values, (rows, columns)), shape=(len(weights), n_source + 1))


def check_dense(method: str, tokens: int, sources: int, advice: str) -> None:
    """Raise a `UserError` if a dense matrix of weights [tokens, sources] is too large."""
    if tokens * sources > _MOST_WEIGHTS:
        raise UserError(
            f"initializer '{method}': {tokens:,} × {sources:,} weights are too many; {advice}"
        )


def row_shares(counts: csr_array) -> csr_array:
    """Divide non-negative rows by their sums; a single weight becomes exactly 1, zero rows stay."""
    sums = counts.sum(axis=1)
    divisors = np.repeat(np.where(sums > 0, sums, 1), np.diff(counts.indptr))
    return csr_array((counts.data / divisors, counts.indices, counts.indptr), shape=counts.shape)


def rows_with_fallback(
    pair: VocabularyPair,
    tokens: np.ndarray,
    source_ids: np.ndarray,
    weights: np.ndarray,
    *,
    fallback: str = "pieces",
) -> NewRows:
    """Recipe rows of all new tokens, from the weights [n] of `tokens` [n] (target ids) on source
    rows.

    Weights of a token on the same row are summed. A token without a weight gets the mean of its
    source pieces or, without pieces or for the fallback `random`, of all source tokens.
    """
    row_of_weight = np.searchsorted(pair.new_ids, tokens)
    is_missing = np.bincount(row_of_weight, minlength=len(pair.new_ids)) == 0
    ids = pair.new_ids[is_missing].tolist()
    pieces = decompose(pair, ids) if fallback == "pieces" else [[] for _ in ids]
    fallback_rows = mean_rows(pieces, pair.n_source).tocoo()
    rows = np.concatenate([row_of_weight, np.flatnonzero(is_missing)[fallback_rows.coords[0]]])
    columns = np.concatenate([source_ids, fallback_rows.coords[1]])
    values = np.concatenate([weights, fallback_rows.data])
    shape = (len(pair.new_ids), pair.n_source + 1)
    return csr_array((values, (rows, columns)), shape=shape), is_missing
