"""Text that methods learn from: token ids of sentences, a validation split, and snippets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from transformers import PreTrainedTokenizerFast

from lexigraft.initialization.pairing import VocabularyPair
from lexigraft.source.encoding import encoded_batches
from lexigraft.vocabulary.token_bytes import special_ids, vocabulary_size

_VALIDATION_EVERY = 20

Item = TypeVar("Item")


def tokenized_sentences(
    tokenizer: PreTrainedTokenizerFast, corpus: Iterable[str]
) -> Iterator[np.ndarray]:
    """Yield the token ids of each sentence, int64 [n], without special tokens; skip empty ones."""
    ordinary = np.ones(vocabulary_size(tokenizer), dtype=bool)
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

    `sentences` are target ids [n] without special tokens, `pieces` the source ids of each new token
    to find. Each token gets `per_token` snippets, and more only if another token needs them. A
    snippet has at most `length` target tokens and `context` source tokens, with its token in the
    middle, and contains no tokens without source pieces.
    """
    sizes = np.zeros(pair.n_target, dtype=np.int64)
    sizes[pair.source_of >= 0] = 1
    sizes[list(pieces)] = [len(ids) for ids in pieces.values()]
    open_snippets = np.zeros(pair.n_target, dtype=np.int64)
    open_snippets[list(pieces)] = per_token
    remaining = int(open_snippets.sum())
    snippets: list[Snippet] = []
    for ids in sentences:
        position_after_last, sentence_sizes = 0, sizes[ids]
        for position in np.flatnonzero(open_snippets[ids]).tolist():
            if position < position_after_last or not open_snippets[ids[position]]:
                continue
            start, end = _snippet_range(
                sentence_sizes, position, position_after_last, length, context
            )
            position_after_last = end
            if start < end:
                snippets.append(_snippet(ids[start:end], pair, pieces))
                new_tokens = np.unique(ids[start:end])
                new_tokens = new_tokens[open_snippets[new_tokens] > 0]
                open_snippets[new_tokens] -= 1
                remaining -= len(new_tokens)
                if not remaining:
                    return snippets  # without reading the rest of the text
    return snippets


def _snippet_range(
    sizes: np.ndarray, position: int, first_free: int, length: int, context: int
) -> tuple[int, int]:
    """Begin and end of the snippet around a token; empty if the token alone exceeds `context`.

    `sizes` are the numbers of source tokens of each target token, 0 if it has none; tokens before
    `first_free` are in other snippets. Half of `length` and `context` is for the preceding tokens.
    """
    if sizes[position] > context:
        return position + 1, position + 1
    start, n_source_tokens = position, int(sizes[position])
    first_start = max(first_free, position - length // 2)
    while (
        start > first_start
        and sizes[start - 1]
        and n_source_tokens + sizes[start - 1] <= context // 2
    ):
        start -= 1
        n_source_tokens += int(sizes[start])
    end, last_end = position + 1, min(len(sizes), start + length)
    while end < last_end and sizes[end] and n_source_tokens + sizes[end] <= context:
        n_source_tokens += int(sizes[end])
        end += 1
    return start, end


def _snippet(ids: np.ndarray, pair: VocabularyPair, pieces: Mapping[int, Sequence[int]]) -> Snippet:
    source_ids = pair.source_of[ids]
    target = np.where(source_ids >= 0, source_ids, -1 - np.searchsorted(pair.new_ids, ids))
    pieces_of_tokens = [
        [source_id] if source_id >= 0 else list(pieces[token])
        for token, source_id in zip(ids.tolist(), source_ids.tolist(), strict=True)
    ]
    source = np.array([*chain.from_iterable(pieces_of_tokens)], dtype=np.int64)
    return Snippet(source, target, np.cumsum([*map(len, pieces_of_tokens)]))
