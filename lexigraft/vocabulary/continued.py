"""Continued BPE: segment the corpus with the source model, and continue learning merges.

Each step adds the merge that saves the most tokens on the corpus. A merge of two tokens saves one
token per occurrence. A token for a character that SentencePiece represents by bytes saves, per
occurrence, the number of its bytes less one.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from tqdm import tqdm

from lexigraft.vocabulary.bpe import BYTE_TOKENS, Bpe
from lexigraft.vocabulary.merge_rules import Key, Rules, segment

# Marks a character without a token. No text contains a lone surrogate.
_UNCOVERED = "\ud800"
# A merge that occurs only once in the corpus is no regularity of the language.
MINIMUM_GAIN = 2


def continue_merges(
    words: Counter[str],
    bpe: Bpe,
    rules: Rules,
    new_tokens: int,
    accepts: Callable[[str], bool],
) -> list[str]:
    """Learn merges from the counted words until they result in `new_tokens` tokens.

    Ties are resolved in favour of the smaller pair (byte-level) or piece (SentencePiece) in code
    point order. A merge of old tokens into an old token is not learned: it would change how text is
    segmented without adding a token. If a new token is a part of the merge, it is added and does
    not count.

    Returns
    -------
    list[str]
        The new tokens in the order in which they were learned; fewer than `new_tokens` if the
        corpus has no more. The merges are added to `rules`.
    """
    corpus = _Corpus(words, bpe, rules)
    added: list[str] = []
    rejected: set[Key] = set()
    with tqdm(total=new_tokens, desc="merges", disable=None) as progress:
        while len(added) < new_tokens and (key := corpus.best(rejected)) is not None:
            piece = rules.piece(key)
            if piece not in rules.known and piece not in rules.new:
                if not accepts(piece):
                    rejected.add(key)
                    continue
                added.append(piece)
                progress.update()
            elif not rules.touches_new(key):
                rejected.add(key)
                continue
            rules.add(key)
            corpus.update(key)
    return added


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
        keys = set()
        count = sign * self._counts[index]
        for key, saved in self._merges_in(symbols):
            self._gains[key] += saved * count
            keys.add(key)
            if sign > 0:
                self._where[key].add(index)
        return keys

    def _merges_in(self, symbols: list[str]) -> Iterator[tuple[Key, int]]:
        for place, symbol in enumerate(symbols):
            if symbol[0] == _UNCOVERED:
                yield symbol[1:], len(symbol[1:].encode()) - 1
            elif place and symbols[place - 1][0] != _UNCOVERED:
                yield self._rules.key(symbols[place - 1], symbol), 1


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
