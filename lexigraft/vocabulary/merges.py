"""A growing set of BPE merges, for the two families of BPE, and segmentation with them.

Byte-level BPE merges a *pair*: the rule (l, r) does not apply to another pair with the same
concatenation. SentencePiece merges into a *piece*: any two adjacent tokens whose concatenation is a
piece merge, with the priority of the piece. `tokenizer.json` has pairs only, so a piece is written
there as all its splits; otherwise the two files of one tokenizer would segment differently.

Both classes have the same interface, so that code that learns or selects tokens works for both.

Continued BPE segments the corpus with the source model, and continues learning merges. Each step
adds the merge that saves the most tokens on the corpus. A merge of two tokens saves one token per
occurrence. A token for a character that SentencePiece represents by bytes saves, per occurrence,
the number of its bytes less one.
"""

import heapq
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, pairwise
from typing import Any

from tqdm import tqdm

from lexigraft.source.sentencepiece import splits
from lexigraft.vocabulary.bpe import BYTE_TOKENS, Bpe, Pair

# A merge: a pair or a piece, depending on the family; joined, it is the token that results.
Key = Any
Rank = Callable[[str, str], Any]

_BEFORE_ALL = -sys.maxsize
# Marks a character without a token. No text contains a lone surrogate.
_UNCOVERED = "\ud800"
# A merge that occurs only once in the corpus is no regularity of the language.
MINIMUM_GAIN = 2


class PairRules:
    """Merges of byte-level BPE; added merges rank after all existing ones.

    `known` are the tokens of the source that may be merged, `merges` the existing pairs in order of
    priority.
    """

    def __init__(self, known: Collection[str], merges: list[Pair]):
        self.known = known
        self.new: set[str] = set()
        self._ranks = {pair: place for place, pair in enumerate(merges)}

    def key(self, left: str, right: str) -> Pair:
        """The key of the merge of two adjacent tokens."""
        return left, right

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
        self._pairs = {pair: (place, _BEFORE_ALL) for place, pair in enumerate(merges)}
        self._last = {left + right: place for place, (left, right) in enumerate(merges)}
        self._order: dict[str, int] = {}

    def key(self, left: str, right: str) -> str:
        """The key of the merge of two adjacent tokens: the resulting piece."""
        return left + right

    def rank(self, left: str, right: str) -> tuple[int, int] | None:
        """Priority of the pair, lowest first; None if it does not merge.

        Among the splits of one piece, the one with the longer left part goes first: where several
        apply, as in an|a|na, it is usually the leftmost one, which SentencePiece merges.
        """
        piece = left + right
        place = self._order.get(piece)
        if place is None and (left in self.new or right in self.new):
            place = self._last.get(piece)
        return self._pairs.get((left, right)) if place is None else (place, -len(left))

    def touches_new(self, key: str) -> bool:
        """Whether the merge results in a new token; merges into old pieces are implied."""
        return key in self.new

    def add(self, key: str) -> None:
        """Add a piece after all others; a piece that was added before keeps its rank."""
        self._order.setdefault(key, len(self._pairs) + len(self._order))
        if key not in self.known:
            self.new.add(key)

    def merges(self) -> list[Pair]:
        """All pairs in order of priority."""
        tokens = self.new.union(self.known)
        ranked = [(rank, pair) for pair, rank in self._pairs.items()]
        for piece in {**self._last, **self._order}:
            for pair in splits(piece, tokens):
                rank = self.rank(*pair)
                if pair not in self._pairs and rank is not None:
                    ranked.append((rank, pair))
        return [pair for _, pair in sorted(ranked)]


Rules = PairRules | PieceRules


def segment(symbols: Iterable[str], rank: Rank, places: Iterable[int] | None = None) -> list[str]:
    """Segment a word with BPE: merge adjacent tokens, best rank first, then leftmost.

    `symbols` are the word as tokens, for example its characters, `rank` is the priority of merging
    two adjacent tokens, lowest first; None if they do not merge. `places` are the initial
    candidates (the position of the left token of each pair); None for all. In a segmented word
    these are the positions of a new merge: restricting the search to them makes learning on scripts
    without spaces, whose words are whole sentences, several times faster.
    """
    symbols = list(symbols)
    candidates = {
        place: value
        for place in (range(len(symbols) - 1) if places is None else places)
        if (value := rank(symbols[place], symbols[place + 1])) is not None
    }
    while candidates:
        _, place = min((value, place) for place, value in candidates.items())
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
        candidates = {
            other - (other > place): value
            for other, value in candidates.items()
            if abs(other - place) > 1
        }
        for adjacent in (place - 1, place):
            if 0 <= adjacent < len(symbols) - 1:
                value = rank(symbols[adjacent], symbols[adjacent + 1])
                if value is not None:
                    candidates[adjacent] = value
    return symbols


def continue_merges(
    words: Counter[str],
    bpe: Bpe,
    rules: Rules,
    new_tokens: int,
    accepts: Callable[[str], bool],
) -> list[str]:
    """Learn merges from the counted words until they result in `new_tokens` tokens.

    Returns the new tokens in the order in which they were learned, fewer if the corpus has no more.
    The merges are added to `rules`; see `learned_tokens`.
    """
    with tqdm(total=new_tokens, desc="merges", disable=None) as progress:
        added = []
        for token in islice(learned_tokens(words, bpe, rules, accepts), new_tokens):
            added.append(token)
            progress.update()
    return added


def learned_tokens(
    words: Counter[str], bpe: Bpe, rules: Rules, accepts: Callable[[str], bool]
) -> Iterator[str]:
    """Learn merges from the counted words, and yield each new token once its merge is in `rules`.

    Ties are resolved in favour of the smaller pair (byte-level) or piece (SentencePiece) in code
    point order. A merge of old tokens into an old token is not learned: it would change how text is
    segmented without adding a token. If a new token is a part of the merge, it is added and does
    not count.
    """
    corpus = _Corpus(words, bpe, rules)
    rejected: set[Key] = set()
    while (key := corpus.best(rejected)) is not None:
        piece = "".join(key)
        is_new = piece not in rules.known and piece not in rules.new
        if not (accepts(piece) if is_new else rules.touches_new(key)):
            rejected.add(key)
            continue
        rules.add(key)
        corpus.update(key)
        if is_new:
            yield piece


class _Corpus:
    """The words of the corpus as tokens, and how many tokens each merge would save."""

    def __init__(self, words: Counter[str], bpe: Bpe, rules: Rules):
        model = bpe.model()
        self._rules = rules
        self._words = [
            _as_symbols([token.value for token in model.tokenize(word)], bpe) for word in words
        ]
        self._counts = list(words.values())
        self._gains: defaultdict[Key, int] = defaultdict(int)
        # Words in which the merge applies, or once applied.
        self._where: defaultdict[Key, set[int]] = defaultdict(set)
        for index, symbols in enumerate(self._words):
            self._record(symbols, index, 1)
        self._heap = [(-gain, key) for key, gain in self._gains.items()]
        heapq.heapify(self._heap)

    def best(self, rejected: set[Key]) -> Key | None:
        """The merge that saves most; None if none saves enough."""
        while self._heap:
            gain, key = heapq.heappop(self._heap)
            now = self._gains.get(key, 0)
            if key in rejected or now < MINIMUM_GAIN:
                continue
            if now == -gain:
                return key
            # The heap may have outdated entries with higher gains: reinsert with the current one.
            if now < -gain:
                heapq.heappush(self._heap, (-now, key))
        return None

    def update(self, key: Key) -> None:
        """Update the segmentation of the words to which the merge `key` applies."""
        grown: set[Key] = set()
        for index in self._where.pop(key, ()):
            old = self._words[index]
            places, symbols = self._places(old, key)
            if not places and symbols is old:
                continue
            new = segment(symbols, self._rules.rank, places)
            first, last = _unchanged(old, new, places)
            self._record(old[first : len(old) - last], index, -1)
            grown |= self._record(new[first : len(new) - last], index, 1)
            self._words[index] = new
        self._gains.pop(key, None)
        for grown_key in grown:
            heapq.heappush(self._heap, (-self._gains[grown_key], grown_key))

    def _places(self, symbols: list[str], key: Key) -> tuple[list[int], list[str]]:
        """Where the merge may apply, and the symbols with a character that has become a token."""
        pairs = pairwise(symbols)
        if not isinstance(key, str):
            return [place for place, pair in enumerate(pairs) if pair == key], symbols
        if len(key) > 1:
            return [place for place, (one, two) in enumerate(pairs) if one + two == key], symbols
        marked = _UNCOVERED + key
        covered = [key if symbol == marked else symbol for symbol in symbols]
        places = {
            place + shift
            for place, symbol in enumerate(symbols)
            if symbol == marked
            for shift in (-1, 0)
        }
        return sorted(places & set(range(len(symbols) - 1))), covered

    def _record(self, symbols: list[str], index: int, sign: int) -> set[Key]:
        """Add the savings of merging adjacent symbols to the gains (or, with sign -1, subtract)."""
        key: Key
        keys: set[Key] = set()
        count = sign * self._counts[index]
        for place, symbol in enumerate(symbols):
            if symbol[0] == _UNCOVERED:
                key, saved = symbol[1:], len(symbol[1:].encode()) - 1
            elif place and symbols[place - 1][0] != _UNCOVERED:
                key, saved = self._rules.key(symbols[place - 1], symbol), 1
            else:
                continue
            self._gains[key] += saved * count
            keys.add(key)
            if sign > 0:
                self._where[key].add(index)
        return keys


def _unchanged(old: list[str], new: list[str], places: list[int]) -> tuple[int, int]:
    """How many symbols at the start and at the end are not part of any changed pair."""
    first, last = (places[0], len(old) - places[-1] - 2) if places else (0, 0)
    # Changes outside the places are rare: old merges that become possible with a new piece.
    if old[:first] != new[:first]:
        first = _common(old, new)
    if old[len(old) - last :] != new[max(len(new) - last, 0) :]:
        last = _common(old[::-1], new[::-1])
    return max(first - 1, 0), max(last - 1, 0)


def _common(one: list[str], other: list[str]) -> int:
    """Length of the common prefix of two lists."""
    unequal = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unequal, min(len(one), len(other)))


def _as_symbols(tokens: list[str], bpe: Bpe) -> list[str]:
    """Restore the characters that SentencePiece represents by bytes.

    A word with unknown tokens is ignored.
    """
    if bpe.unk_token in tokens:
        return []
    if not bpe.byte_fallback:
        return tokens
    symbols: list[str] = []
    held = bytearray()
    for token in [*tokens, ""]:
        if token in BYTE_TOKENS:
            held.append(int(token[3:5], 16))
            continue
        symbols += [_UNCOVERED + character for character in held.decode()]
        held.clear()
        if token:
            symbols.append(token)
    return symbols
