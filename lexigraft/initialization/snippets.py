"""Stretches of text that hold new tokens, cut by the target tokenizer and into source pieces."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lexigraft.initialization.pairing import VocabularyPair


@dataclass(frozen=True)
class Snippet:
    """A stretch of text, cut in both ways.

    Attributes
    ----------
    source
        Source ids: every new token as its source pieces.
    target
        [n]: source ids, and -1 - i in the place of new token i, an index into `new_ids`.
    ends
        [n]: how many tokens of `source` there are up to the end of each of `target`.
    """

    source: np.ndarray
    target: np.ndarray
    ends: np.ndarray


def find_snippets(
    sentences: Iterable[np.ndarray],
    pair: VocabularyPair,
    pieces: Mapping[int, Sequence[int]],
    *,
    per_token: int,
    length: int,
    context: int,
) -> list[Snippet]:
    """Snippets of each new token, the first ones of the text; no two overlap.

    A snippet counts for every new token in it. It holds no token of which the source knows no
    piece, but begins or ends there.

    Parameters
    ----------
    sentences
        Target ids [n] of each sentence, without special tokens.
    pieces
        Source ids of each new token to find; the others are left out.
    per_token
        Snippets of one token, at most as long as no other token needs more.
    length
        Target tokens of a snippet, at most; the token that it is taken for is in its middle.
    context
        Source tokens of a snippet, at most.
    """
    sizes = np.zeros(pair.n_target, dtype=np.int64)
    sizes[pair.source_of >= 0] = 1
    sizes[list(pieces)] = [len(ids) for ids in pieces.values()]
    lacking = np.zeros(pair.n_target, dtype=np.int64)
    lacking[list(pieces)] = per_token
    found: list[Snippet] = []
    for ids in sentences:
        covered, here = 0, sizes[ids]
        for at in np.flatnonzero(lacking[ids]).tolist():
            if at < covered or not lacking[ids[at]]:
                continue
            begin, end = _stretch(here, at, covered, length, context)
            covered = end
            if begin < end:
                found.append(_snippet(ids[begin:end], pair, pieces))
                new = np.unique(ids[begin:end])
                lacking[new] = np.maximum(0, lacking[new] - 1)
    return found


def _stretch(
    sizes: np.ndarray, at: int, covered: int, length: int, context: int
) -> tuple[int, int]:
    """Where the snippet around token `at` begins and ends; nowhere if the token is too long.

    `sizes` are source tokens of each target token, 0 where there is none; what lies before
    `covered` is taken. Half of the length and of the context are for what is before the token.
    """
    if sizes[at] > context:
        return at + 1, at + 1
    begin, used = at, int(sizes[at])
    lowest = max(covered, at - length // 2)
    while begin > lowest and sizes[begin - 1] and used + sizes[begin - 1] <= context // 2:
        begin -= 1
        used += int(sizes[begin])
    end, highest = at + 1, min(len(sizes), begin + length)
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
