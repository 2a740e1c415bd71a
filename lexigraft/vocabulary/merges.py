"""A growing set of BPE merges, for the two families of BPE, and segmentation with them.

Byte-level BPE merges a *pair*: the rule (l, r) does not apply to another pair with the same
concatenation. SentencePiece merges into a *piece*: any two adjacent tokens whose concatenation is a
piece merge, with the priority of the piece. `tokenizer.json` has pairs only, so a piece is written
there as all its splits; otherwise the two files of one tokenizer would segment differently.

Both classes have the same interface, so that code that learns or selects tokens works for both.
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

_BEFORE_ALL = -sys.maxsize
_HEAD, _TAIL = slice(2), slice(-2, None)


class PairRules:
    """Merges of byte-level BPE; added merges rank after all existing ones.

    `known` are the tokens of the source that may be merged, `merges` the existing pairs in order of
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

    def touches_new(self, key: Pair) -> bool:
        """Whether the merge applies only to text in which a new token occurs."""
        return not self.new.isdisjoint((*key, "".join(key)))

    def add(self, key: Pair) -> None:
        """Add a merge after all others; an existing pair keeps its rank."""
        self._ranks.setdefault(key, len(self._ranks))
        if "".join(key) not in self.known:
            self.new.add("".join(key))

    def withdraw(self, key: Pair, is_new: bool) -> None:
        """Remove the merge that was added last, and its token if it `is_new`."""
        del self._ranks[key]
        if is_new:
            self.new.remove("".join(key))

    def merges(self) -> list[Pair]:
        """All pairs in order of priority."""
        return list(self._ranks)


class PieceRules:
    """Merges of a SentencePiece model; added merges rank after all existing ones.

    The parameters are those of `PairRules`. A pair with a new token whose concatenation is an old
    piece merges with the priority of that piece, as in SentencePiece.
    """

    def __init__(self, known: Collection[str], merges: list[Pair]):
        self.known = known
        self.new: set[str] = set()
        # A large vocabulary has a million merges: Python loops would take seconds.
        places = range(len(merges))
        self._pairs = dict(zip(merges, places, strict=True))
        self._last = dict(zip(map("".join, merges), places, strict=True))
        self._order: dict[str, int] = {}

    def key(self, left: str, right: str) -> str:
        """The key of the merge of two adjacent tokens: the resulting piece."""
        return left + right

    def keys(self, symbols: Iterable[str]) -> list[str]:
        """The keys of the merges of all adjacent tokens."""
        return [left + right for left, right in pairwise(symbols)]

    def rank(self, left: str, right: str) -> tuple[int, int] | None:
        """Priority of the pair, lowest first; None if it does not merge.

        Among the splits of one piece, the one with the longer left part comes first: if several
        apply, as in an|a|na, it is usually the leftmost one, which SentencePiece merges.
        """
        piece = left + right
        place = self._order.get(piece)
        if place is None and (left in self.new or right in self.new):
            place = self._last.get(piece)
        if place is not None:
            return place, -len(left)
        place = self._pairs.get((left, right))
        return None if place is None else (place, _BEFORE_ALL)

    def touches_new(self, key: str) -> bool:
        """Whether the merge results in a new token; merges into old pieces are implied."""
        return key in self.new

    def add(self, key: str) -> None:
        """Add a piece after all others; a piece that was added before keeps its rank."""
        self._order.setdefault(key, len(self._pairs) + len(self._order))
        if key not in self.known:
            self.new.add(key)

    def withdraw(self, key: str, is_new: bool) -> None:
        """Remove the piece that was added last; it always `is_new`."""
        del self._order[key]
        self.new.remove(key)

    def merges(self) -> list[Pair]:
        """All pairs in order of priority."""
        tokens = self.new.union(self.known)
        # An old piece has further splits only if it begins or ends with a new token.
        heads, tails = ({token[part] for token in self.new} for part in (_HEAD, _TAIL))
        short = {token for token in self.new if len(token) == 1}
        old = [
            piece
            for piece in self._last
            if piece[_HEAD] in heads or piece[_TAIL] in tails or not short.isdisjoint(piece)
        ]
        more = [
            (rank, pair)
            for piece in dict.fromkeys([*old, *self._order])
            for pair in splits(piece, tokens)
            if pair not in self._pairs and (rank := self.rank(*pair)) is not None
        ]
        pairs = list(self._pairs)
        merged: list[Pair] = []
        done = 0
        for (place, _), pair in sorted(more):
            merged += [*pairs[done : place + 1], pair]
            done = max(done, place + 1)
        return merged + pairs[done:]


Rules = PairRules | PieceRules


def segment(symbols: Iterable[str], rank: Rank, places: Iterable[int] | None = None) -> list[str]:
    """Segment a word with BPE: merge adjacent tokens, best rank first, then leftmost.

    `symbols` are the tokens of the word, for example its characters. `rank` is the priority of
    merging two adjacent tokens, lowest first, or None if they do not merge. `places` are the
    initial candidates (the position of the left token of each pair), None for all. In a segmented
    word, these are the positions of a new merge: restricting the search to them makes learning on
    scripts without spaces, whose words are whole sentences, several times faster.
    """
    pieces: list[str] = list(symbols)
    # Positions stay those of the initial tokens: a merged token has that of its first one. A search
    # through all candidates for each merge would be quadratic in a run of one letter.
    after = list(range(1, len(pieces) + 1))
    before = list(range(-1, len(pieces) - 1))
    candidates = [
        (value, place, pieces[place], pieces[place + 1])
        for place in (range(len(pieces) - 1) if places is None else places)
        if (value := rank(pieces[place], pieces[place + 1])) is not None
    ]
    heapify(candidates)
    while candidates:
        _, place, left, right = heappop(candidates)
        merged = after[place]
        # Another merge may have changed one of the two since; an absorbed token is empty.
        if pieces[place] != left or merged == len(pieces) or pieces[merged] != right:
            continue
        # Share one string per token in all words, see `continued`.
        pieces[place] = sys.intern(left + right)
        pieces[merged] = ""
        after[place] = end = after[merged]
        if end < len(pieces):
            before[end] = place
        for first, second in ((before[place], place), (place, end)):
            if first >= 0 and second < len(pieces):
                value = rank(pieces[first], pieces[second])
                if value is not None:
                    heappush(candidates, (value, first, pieces[first], pieces[second]))
    return [piece for piece in pieces if piece]


def merge_once(symbols: tuple[str, ...], rank: Rank, place: int) -> tuple[str, ...] | None:
    """Merge the two tokens at a place of a segmented word: the most frequent case of `segment`.

    None if an adjacent token would merge with the result.
    """
    token = sys.intern(symbols[place] + symbols[place + 1])
    before, after = symbols[:place], symbols[place + 2 :]
    if before and rank(before[-1], token) is not None:
        return None
    if after and rank(token, after[0]) is not None:
        return None
    return (*before, token, *after)
