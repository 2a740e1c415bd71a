"""A token of the target as pieces of the source vocabulary.

The source *model* splits what the token stands for, spelled as the source spells it, as it would
split that piece of a text. Tokenizing the token as if it were a text adds a `▁` that is not there,
or writes bytes in the byte alphabet twice.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.vocabulary.token_bytes import byte_alphabet, pre_tokens

# Bytes that are no whole character come out as lone surrogates, each a run of its own.
_RUNS = re.compile("[\udc80-\udcff]|[^\udc80-\udcff]+")
_SURROGATES = 0xDC00


def decompose(pair: VocabularyPair, target_ids: Sequence[int]) -> list[list[int]]:
    """Split target tokens into source tokens.

    The source's normalizer is applied first: a source that lower-cases its text, or composes
    letters, has pieces for nothing else.

    Parameters
    ----------
    target_ids
        Ids in the target vocabulary.

    Returns
    -------
    list
        For each token its source ids in reading order. Pieces that the source does not know (no
        byte fallback) are left out, so that the list may be empty; a WordPiece source knows a word
        as a whole or not at all. Special tokens never occur, and a special token of the target,
        whose string is no text, has no pieces.
    """
    split = _Splitter(pair)
    return [
        [] if i in pair.target_special_ids else split(pair.target_bytes[i])
        for i in map(int, target_ids)
    ]


class _Splitter:
    """The source's model on what a token stands for: bytes in, source ids out."""

    def __init__(self, pair: VocabularyPair) -> None:
        backend = pair.source_tokenizer.backend_tokenizer
        self.tokenizer = pair.source_tokenizer
        self.model = backend.model
        self.normalizer = _within_text(backend.normalizer)
        self.spelling = pair.source_spelling
        self.special = pair.source_special_ids
        self.vocabulary = self.tokenizer.get_vocab()
        self.letters = {byte: letter for letter, byte in byte_alphabet().items()}

    def __call__(self, data: bytes) -> list[int]:
        runs = _RUNS.findall(data.decode("utf-8", errors="surrogateescape"))
        if self.spelling == "byte-level":
            text = "".join(run if _is_byte(run) else self._normalized(run) for run in runs)
            data = text.encode("utf-8", errors="surrogateescape")
            return self._pieces("".join(self.letters[byte] for byte in data))
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

    def _word_pieces(self, text: str) -> list[int]:
        # What stays with a letter before it goes on with that letter's word; the rest begins words.
        first, *others = pre_tokens(self.tokenizer, f"a{text}")
        pieces: list[int] = []
        if first[1:]:
            going_on = self.model.tokenize(f"##{first[1:]}")
            # Without such a piece WordPiece would take the # signs themselves for letters.
            if going_on[0].value[2:]:
                pieces += [piece.id for piece in going_on if piece.id not in self.special]
        return pieces + [i for word in others for i in self._pieces(word)]

    def _pieces(self, string: str) -> list[int]:
        return [piece.id for piece in self.model.tokenize(string) if piece.id not in self.special]


def _is_byte(run: str) -> bool:
    return "\udc80" <= run <= "\udcff"


def _within_text(normalizer: Any) -> Any:
    """A normalizer without what it does at the ends of a text: put a space there, or take it off.

    None where nothing is left of it.
    """
    from tokenizers import Tokenizer, models

    kept = None if normalizer is None else _kept(json.loads(normalizer.__getstate__()))
    if kept is None:
        return None
    # A normalizer is read as a part of a tokenizer only.
    state = json.loads(Tokenizer(models.BPE()).to_str()) | {"normalizer": kept}
    return Tokenizer.from_str(json.dumps(state)).normalizer


def _kept(component: dict[str, Any]) -> dict[str, Any] | None:
    if component["type"] == "Sequence":
        inner = [part for part in map(_kept, component["normalizers"]) if part is not None]
        return {"type": "Sequence", "normalizers": inner} if inner else None
    return None if component["type"] in ("Prepend", "Strip") else component


def mean_rows(pieces: Sequence[Sequence[int]], n_source: int) -> csr_array:
    """Recipe rows of the mean of each list of source ids, as `recipe.assembled` takes them.

    Parameters
    ----------
    pieces
        Source ids for each new token; an empty list stands for the mean of all source tokens.

    Returns
    -------
    csr_array
        [len(pieces), n_source + 1], rows summing to one.
    """
    return weighted_rows(
        [
            {i: count / len(ids) for i, count in Counter(ids).items()} if ids else {n_source: 1.0}
            for ids in pieces
        ],
        n_source,
    )


def weighted_rows(weights: Sequence[Mapping[int, float]], n_source: int) -> csr_array:
    """Recipe rows from one mapping source id -> weight for each new token.

    The key `n_source` stands for the mean of all source tokens.
    """
    of = np.repeat(np.arange(len(weights)), [len(row) for row in weights])
    columns = np.array([i for row in weights for i in row], dtype=np.int64)
    values = np.array([value for row in weights for value in row.values()], dtype=np.float64)
    return csr_array((values, (of, columns)), shape=(len(weights), n_source + 1))
