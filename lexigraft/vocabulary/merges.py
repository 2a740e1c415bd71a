"""A growing set of BPE merges, for the two families of BPE, and segmentation with them.

Byte-level BPE merges a *pair*: the rule (l, r) does not apply to another pair with the same
concatenation. SentencePiece merges any two adjacent tokens into a *piece*, with its priority.
`tokenizer.json` has pairs only, so a piece is written there as all its splits.
"""

import sys
from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

from lexigraft.source.sentencepiece import splits
from lexigraft.vocabulary.bpe import Pair

# A merge: a pair or a piece, depending on the family; `"".join(key)` is the resulting token.
Key = Any
Rank = Callable[[str, str], Any]

# In ranks of equal priority, a merge of the source comes before those that a new token adds.
_OF_SOURCE = -sys.maxsize
_FIRST_TWO, _LAST_TWO = slice(2), slice(-2, None)


class PairRules:
    """Merges of byte-level BPE; added merges rank after all existing ones.

    `known` are the tokens of the source that may be merged, `merges` its pairs in order of
    priority.
    """

    def __init__(self, known: Collection[str], merges: list[Pair]):
        self.known = known
        self.new: set[str] = set()
        self._ranks = dict(zip(merges, range(len(merges)), strict=True))

    def key(self, left: str, right: str) -> Pair:
        """The key of the merge of two adjacent tokens."""
        return left, right

    def keys(self, symbols: Iterable[str]) -> list[Pair]:
        """The keys of the merges of all adjacent tokens."""
        return list(pairwise(symbols))

    def rank(self, left: str, right: str) -> int | None:
        """Priority of the pair, lowest first; None if it does not merge."""
        return self._ranks.get((left, right))

    def involves_new_token(self, key: Pair) -> bool:
        """Whether the merge applies only to text in which a new token occurs."""
        return not self.new.isdisjoint((*key, "".join(key)))

    def add(self, key: Pair) -> None:
        """Add a merge after all others; an existing pair keeps its rank."""
        self._ranks.setdefault(key, len(self._ranks))
        if "".join(key) not in self.known:
            self.new.add("".join(key))

    def remove_last(self, key: Pair, is_new: bool) -> None:
        """Remove the merge that was added last, and its token if it `is_new`."""
        del self._ranks[key]
        if is_new:
            self.new.remove("".join(key))

    def merges(self) -> list[Pair]:
        """All pairs in order of priority."""
        return list(self._ranks)


class PieceRules:
    """Merges of a SentencePiece model, with the interface of `PairRules`.

    A pair with a new token whose concatenation is an old piece has the priority of that piece.
    """

    def __init__(self, known: Collection[str], merges: list[Pair]):
        self.known = known
        self.new: set[str] = set()
        # A large vocabulary has a million merges: Python loops would take seconds.
        ranks = range(len(merges))
        self._pairs = dict(zip(merges, ranks, strict=True))
        self._last_rank = dict(zip(map("".join, merges), ranks, strict=True))
        self._added_rank: dict[str, int] = {}

    def key(self, left: str, right: str) -> str:
        """The key of the merge of two adjacent tokens: the resulting piece."""
        return left + right

    def keys(self, symbols: Iterable[str]) -> list[str]:
        """The keys of the merges of all adjacent tokens."""
        return [left + right for left, right in pairwise(symbols)]

    def rank(self, left: str, right: str) -> tuple[int, int] | None:
        """Priority of the pair, lowest first; None if it does not merge.

        Of the splits of one piece, that with the longer left part comes first: SentencePiece merges
        the leftmost pair, an|a rather than a|na in an|a|na.
        """
        piece = left + right
        rank = self._added_rank.get(piece)
        if rank is None and (left in self.new or right in self.new):
            rank = self._last_rank.get(piece)
        if rank is not None:
            return rank, -len(left)
        rank = self._pairs.get((left, right))
        return None if rank is None else (rank, _OF_SOURCE)

    def involves_new_token(self, key: str) -> bool:
        """Whether the merge results in a new token; merges into old pieces are implied."""
        return key in self.new

    def add(self, key: str) -> None:
        """Add a piece after all others; a piece that was added before keeps its rank."""
        self._added_rank.setdefault(key, len(self._pairs) + len(self._added_rank))
        if key not in self.known:
            self.new.add(key)

    def remove_last(self, key: str, is_new: bool) -> None:
        """Remove the piece that was added last; it always `is_new`."""
        del self._added_rank[key]
        self.new.remove(key)

    def merges(self) -> list[Pair]:
        """All pairs in order of priority."""
        tokens = self.new.union(self.known)
        # An old piece has further splits only if it begins or ends with a new token.
        beginnings, endings = (
            {token[part] for token in self.new} for part in (_FIRST_TWO, _LAST_TWO)
        )
        characters = {token for token in self.new if len(token) == 1}
        extended_pieces = [
            piece
            for piece in self._last_rank
            if piece[_FIRST_TWO] in beginnings
            or piece[_LAST_TWO] in endings
            or not characters.isdisjoint(piece)
        ]
        added = [
            (priority, pair)
            for piece in dict.fromkeys([*extended_pieces, *self._added_rank])
            for pair in splits(piece, tokens)
            if pair not in self._pairs and (priority := self.rank(*pair)) is not None
        ]
        pairs = list(self._pairs)
        all_pairs: list[Pair] = []
        n_source_pairs = 0
        for (rank, _), pair in sorted(added):
            all_pairs += [*pairs[n_source_pairs : rank + 1], pair]
            n_source_pairs = max(n_source_pairs, rank + 1)
        return all_pairs + pairs[n_source_pairs:]


Rules = PairRules | PieceRules


def segment(
    symbols: Iterable[str], rank: Rank, positions: Iterable[int] | None = None
) -> list[str]:
    """Segment a word with BPE: merge adjacent tokens, best rank first, then leftmost.

    `symbols` are the tokens of the word. `rank` is the priority of merging two adjacent tokens,
    lowest first, or None. `positions` are those of the left tokens of the pairs to try first, None
    for all: with those that a new merge applies to, learning on scripts without spaces is several
    times faster.
    """
    pieces: list[str] = list(symbols)
    # Positions stay those of the initial tokens: a merged token has that of its first one. A search
    # through all candidates for each merge would be quadratic in a run of one letter.
    next_positions = list(range(1, len(pieces) + 1))
    previous_positions = list(range(-1, len(pieces) - 1))
    candidates = [
        (priority, position, pieces[position], pieces[position + 1])
        for position in (range(len(pieces) - 1) if positions is None else positions)
        if (priority := rank(pieces[position], pieces[position + 1])) is not None
    ]
    heapify(candidates)
    while candidates:
        _, position, left, right = heappop(candidates)
        right_position = next_positions[position]
        # Another merge may have changed one of the two since; an absorbed token is empty.
        if (
            pieces[position] != left
            or right_position == len(pieces)
            or pieces[right_position] != right
        ):
            continue
        # All words of a corpus share one string per token, which saves memory.
        pieces[position] = sys.intern(left + right)
        pieces[right_position] = ""
        next_positions[position] = following = next_positions[right_position]
        if following < len(pieces):
            previous_positions[following] = position
        for first, second in ((previous_positions[position], position), (position, following)):
            if first >= 0 and second < len(pieces):
                priority = rank(pieces[first], pieces[second])
                if priority is not None:
                    heappush(candidates, (priority, first, pieces[first], pieces[second]))
    return [piece for piece in pieces if piece]


def merge_once(symbols: tuple[str, ...], rank: Rank, position: int) -> tuple[str, ...] | None:
    """Merge the tokens at `position` and after it, the most frequent case of `segment`.

    Returns None if an adjacent token would then merge with the result.
    """
    token = sys.intern(symbols[position] + symbols[position + 1])
    before, after = symbols[:position], symbols[position + 2 :]
    if before and rank(before[-1], token) is not None:
        return None
    if after and rank(token, after[0]) is not None:
        return None
    return (*before, token, *after)
