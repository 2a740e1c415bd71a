"""Text that methods learn from: token ids of sentences, a validation split, and snippets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.source.encoding import encoded_batches
from lexigraft.vocabulary.token_bytes import special_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_VALIDATION_EVERY = 20

Item = TypeVar("Item")


def tokenized_sentences(
    tokenizer: "PreTrainedTokenizerFast", corpus: Iterable[str]
) -> Iterator[np.ndarray]:
    """Yield the token ids of each sentence, int64 [n], without special tokens; skip empty ones."""
    ordinary = np.ones(max(tokenizer.get_vocab().values()) + 1, dtype=bool)
    ordinary[list(special_ids(tokenizer))] = False
    for batch in encoded_batches(tokenizer, corpus):
        for sentence in batch:
            ids = np.array(sentence, dtype=np.int64)
            ids = ids[ordinary[ids]]
            if len(ids):
                yield ids


def validation_split(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Hold out every twentieth item for validation; fewer than 20 items are used for both."""
    if len(items) < _VALIDATION_EVERY:
        return list(items), list(items)
    training = [item for i, item in enumerate(items, 1) if i % _VALIDATION_EVERY]
    return training, list(items[_VALIDATION_EVERY - 1 :: _VALIDATION_EVERY])


@dataclass(frozen=True)
class Snippet:
    """A stretch of text, tokenized in two ways."""

    source: np.ndarray  # source ids, with every new token as its source pieces
    target: np.ndarray  # [n]: source ids, and -1 - i for new token i, an index into `new_ids`
    ends: np.ndarray  # [n]: number of `source` tokens up to the end of each `target` token


def find_snippets(
    sentences: Iterable[np.ndarray],
    pair: VocabularyPair,
    pieces: Mapping[int, Sequence[int]],
    *,
    per_token: int,
    length: int,
    context: int,
) -> list[Snippet]:
    """Find the first snippets of the text with each new token, without overlap.

    A snippet counts for every new token in it, and contains no tokens without source pieces.
    `sentences` are target ids [n] without special tokens, `pieces` the source ids of each new token
    to find; other new tokens are ignored. Each token gets `per_token` snippets, and more only if
    another token needs them. A snippet has at most `length` target tokens and `context` source
    tokens, with the token for which it was extracted in its middle.
    """
    sizes = np.zeros(pair.n_target, dtype=np.int64)
    sizes[pair.source_of >= 0] = 1
    sizes[list(pieces)] = [len(ids) for ids in pieces.values()]
    missing = np.zeros(pair.n_target, dtype=np.int64)
    missing[list(pieces)] = per_token
    remaining = int(missing.sum())
    found: list[Snippet] = []
    for ids in sentences:
        covered, sentence_sizes = 0, sizes[ids]
        for position in np.flatnonzero(missing[ids]).tolist():
            if position < covered or not missing[ids[position]]:
                continue
            begin, end = _stretch(sentence_sizes, position, covered, length, context)
            covered = end
            if begin < end:
                found.append(_snippet(ids[begin:end], pair, pieces))
                new = np.unique(ids[begin:end])
                new = new[missing[new] > 0]
                missing[new] -= 1
                remaining -= len(new)
                if not remaining:
                    return found  # without reading the rest of the text
    return found


def _stretch(
    sizes: np.ndarray, position: int, covered: int, length: int, context: int
) -> tuple[int, int]:
    """Begin and end of the snippet around a token; empty if the token alone exceeds `context`.

    `sizes` are the numbers of source tokens of each target token, 0 if it has none; tokens before
    `covered` are in other snippets. Half of `length` and `context` is for the preceding tokens.
    """
    if sizes[position] > context:
        return position + 1, position + 1
    begin, used = position, int(sizes[position])
    lowest = max(covered, position - length // 2)
    while begin > lowest and sizes[begin - 1] and used + sizes[begin - 1] <= context // 2:
        begin -= 1
        used += int(sizes[begin])
    end, highest = position + 1, min(len(sizes), begin + length)
    while end < highest and sizes[end] and used + sizes[end] <= context:
        used += int(sizes[end])
        end += 1
    return begin, end


def _snippet(ids: np.ndarray, pair: VocabularyPair, pieces: Mapping[int, Sequence[int]]) -> Snippet:
    copied = pair.source_of[ids]
    target = np.where(copied >= 0, copied, -1 - np.searchsorted(pair.new_ids, ids))
    parts = [
        [source] if source >= 0 else list(pieces[token])
        for token, source in zip(ids.tolist(), copied.tolist(), strict=True)
    ]
    source = np.array([i for part in parts for i in part], dtype=np.int64)
    return Snippet(source, target, np.cumsum([len(part) for part in parts]))
