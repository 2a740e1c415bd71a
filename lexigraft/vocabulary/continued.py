"""Continued BPE: segment a corpus with the source model, and continue learning merges.

Each step adds the merge that saves the most tokens: one per occurrence of a pair, and for a
character that SentencePiece represents by bytes the number of its bytes minus one.
"""

import heapq
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from lexigraft.vocabulary.bpe import BYTE_TOKENS, Bpe
from lexigraft.vocabulary.merges import Key, Rules, merge_once, segment

# Marks a character without a token. No text contains a lone surrogate.
_UNCOVERED = "\ud800"
# A merge that occurs only once in the corpus is not a regularity of the language.
MINIMUM_GAIN = 2

# A word as tokens. Python's garbage collection skips tuples of strings, but not lists: with lists,
# it takes a fifth of the time.
Word = tuple[str, ...]


def learned_tokens(
    words: Counter[str],
    bpe: Bpe,
    rules: Rules,
    accepts: Callable[[str], bool],
    limit: "SentenceLimit | None" = None,
    postpones: bool = True,
) -> Iterator[str]:
    """Learn merges from the counted words, and yield each new token once its merge is in `rules`.

    Ties are resolved in favour of the smaller pair (byte-level) or piece (SentencePiece) in code
    point order. A merge of old tokens into an old token is not learned; if a new token is part of
    it, it is learned but does not count. Merges that the `limit` does not allow are not learned. A
    merge that uses up all occurrences of another new token is postponed, unless `postpones` is
    false, until the corpus has no other.
    """
    corpus = _Corpus(words, bpe, rules)
    rejected: set[Key] = set()
    postponed: list[Key] | None = [] if postpones else None
    while True:
        key = corpus.best(rejected)
        if key is None:
            if not postponed:
                return
            rejected.difference_update(postponed)
            corpus.restore(postponed)
            postponed = None
            continue
        piece = "".join(key)
        is_new = piece not in rules.known and piece not in rules.new
        allowed = accepts(piece) if is_new else rules.involves_new_token(key)
        if not allowed or (limit is not None and not limit.allows(key)):
            rejected.add(key)
            continue
        rules.add(key)
        changes = corpus.changes(key)
        if postponed is not None and corpus.leaves_unused(changes):
            rules.remove_last(key, is_new)
            rejected.add(key)
            postponed.append(key)
            continue
        corpus.apply(key, changes)
        if limit is not None:
            limit.apply(key)
        if is_new:
            yield piece


class SentenceLimit:
    """Limit the share of sentences of another language that new merges may change.

    At most `share` of the `sentences`, each given as its words in the spelling of the model, may be
    segmented differently than by the source tokenizer.
    """

    def __init__(self, sentences: Sequence[Iterable[str]], bpe: Bpe, rules: Rules, share: float):
        sentences_of_word: defaultdict[str, set[int]] = defaultdict(set)
        for index, words in enumerate(sentences):
            for word in words:
                sentences_of_word[word].add(index)
        self._sentences_of_word = list(sentences_of_word.values())
        self._corpus = _Corpus(Counter(sentences_of_word.keys()), bpe, rules)
        # 0.29 of 100 sentences are 29, although the floating-point product is slightly less.
        self._most_changed = int(share * len(sentences) + 1e-6)
        self._changed: set[int] = set()

    def allows(self, key: Key) -> bool:
        """Whether few enough sentences change with this merge."""
        return len(self._changed | self._sentences(key)) <= self._most_changed

    def apply(self, key: Key) -> None:
        """Segment the sentences with this merge, which the rules already contain."""
        self._changed |= self._sentences(key)
        self._corpus.apply(key, self._corpus.changes(key))

    def _sentences(self, key: Key) -> set[int]:
        return set[int]().union(
            *(self._sentences_of_word[index] for index in self._corpus.words_with(key))
        )


class _Changes(NamedTuple):
    """Changes of a merge to the words, and to the occurrences of each new token."""

    # The index of a word, the word after the merge, and its changed symbols before and after.
    words: list[tuple[int, Word, Word, Word]]
    uses: Counter[str]


class _Corpus:
    """The words of the corpus as tokens, and how many tokens each merge would save."""

    def __init__(self, words: Counter[str], bpe: Bpe, rules: Rules):
        model = bpe.model
        # All words share one string per token: in scripts without spaces, there are as many tokens
        # in memory as in the text.
        tokens = {number: sys.intern(token) for token, number in bpe.vocab.items()}
        self._rules = rules
        self._byte_fallback = bpe.byte_fallback  # only then can characters be uncovered
        self._words: list[Word] = [
            _symbols([tokens[token.id] for token in model.tokenize(word)], bpe) for word in words
        ]
        self._counts = list(words.values())
        self._gains: defaultdict[Key, int] = defaultdict(int)
        # Words to which the merge applies, or once applied; may have duplicates.
        self._words_of_merge: defaultdict[Key, array[int]] = defaultdict(lambda: array("i"))
        self._uses: Counter[str] = Counter()  # occurrences of new tokens; there are none yet
        for index, symbols in enumerate(self._words):
            self._count(symbols, index)
        self._heap = [(-gain, key) for key, gain in self._gains.items()]
        heapq.heapify(self._heap)

    def best(self, rejected: set[Key]) -> Key | None:
        """The merge that saves the most tokens; None if none saves enough."""
        while self._heap:
            gain, key = heapq.heappop(self._heap)
            current_gain = self._gains.get(key, 0)
            if key in rejected or current_gain < MINIMUM_GAIN:
                continue
            if current_gain == -gain:
                return key
            # The heap may have outdated entries with higher gains: reinsert with the current gain.
            if current_gain < -gain:
                heapq.heappush(self._heap, (-current_gain, key))
        return None

    def restore(self, keys: Iterable[Key]) -> None:
        """Let `best` return merges again that it returned before and that were not applied."""
        for key in keys:
            heapq.heappush(self._heap, (-self._gains.get(key, 0), key))

    def words_with(self, key: Key) -> list[int]:
        """The positions of the words to which the merge applies."""
        indices = []
        for index in set(self._words_of_merge.get(key, ())):
            positions, symbols = self._positions(self._words[index], key)
            if positions or symbols is not self._words[index]:
                indices.append(index)
        return indices

    def changes(self, key: Key) -> _Changes:
        """How the merge `key`, which the rules already contain, changes the words."""
        changes = []
        uses: Counter[str] = Counter()
        new_tokens = self._rules.new
        for index in set(self._words_of_merge.get(key, ())):
            word = self._words[index]
            positions, symbols = self._positions(word, key)
            if not positions and symbols is word:
                continue
            merged = None
            if len(positions) == 1 and symbols is word:
                merged = merge_once(symbols, self._rules.rank, positions[0])
            if merged is not None:
                first, end = max(positions[0] - 1, 0), positions[0] + 2
                old, new = word[first : end + 1], merged[first:end]
            else:
                old, new = word, tuple(segment(symbols, self._rules.rank, positions))
                merged = new
            changes.append((index, merged, old, new))
            count = self._counts[index]
            for symbol in old:
                if symbol in new_tokens:
                    uses[symbol] -= count
            for symbol in new:
                if symbol in new_tokens:
                    uses[symbol] += count
        return _Changes(changes, uses)

    def leaves_unused(self, changes: _Changes) -> bool:
        """Whether these changes remove the last occurrences of a new token from the words."""
        return any(self._uses[token] + count <= 0 for token, count in changes.uses.items())

    def apply(self, key: Key, changes: _Changes) -> None:
        """Apply the changes of the merge `key`."""
        changed_keys: set[Key] = set()
        self._words_of_merge.pop(key, None)
        for index, word, old, new in changes.words:
            self._discount(old, index)
            changed_keys.update(self._count(new, index))
            self._words[index] = word
        self._uses.update(changes.uses)
        self._gains.pop(key, None)
        for changed_key in changed_keys:
            heapq.heappush(self._heap, (-self._gains[changed_key], changed_key))

    def _positions(self, symbols: Word, key: Key) -> tuple[list[int], Word]:
        """Where the merge may apply, and the symbols, in which a character may become a token."""
        if not isinstance(key, str):
            return _positions_of_pair(symbols, *key), symbols
        if len(key) > 1:
            pairs = enumerate(pairwise(symbols))
            return [position for position, (left, right) in pairs if left + right == key], symbols
        marked = _UNCOVERED + key
        covered = tuple(key if symbol == marked else symbol for symbol in symbols)
        positions = {
            position + offset
            for position, symbol in enumerate(symbols)
            if symbol == marked
            for offset in (-1, 0)
        }
        return sorted(positions & set(range(len(symbols) - 1))), covered

    def _count(self, symbols: Word, index: int) -> list[Key]:
        """Add the savings of merging adjacent symbols of a word; returns these merges."""
        keys, count = self._merges(symbols), self._counts[index]
        for key in keys:
            self._gains[key] += count * _saved_tokens(key)
            words = self._words_of_merge[key]
            if not words or words[-1] != index:
                words.append(index)
        return keys

    def _discount(self, symbols: Word, index: int) -> None:
        """Subtract the savings of merging adjacent symbols of a word."""
        count = self._counts[index]
        for key in self._merges(symbols):
            self._gains[key] -= count * _saved_tokens(key)

    def _merges(self, symbols: Word) -> list[Key]:
        """The merges of adjacent symbols, and the characters that could become tokens."""
        if not self._byte_fallback or _UNCOVERED not in "".join(symbols):
            return self._rules.keys(symbols)
        keys: list[Key] = []
        for uncovered, run in groupby(symbols, lambda symbol: symbol[0] == _UNCOVERED):
            part = list(run)
            keys += [symbol[1:] for symbol in part] if uncovered else self._rules.keys(part)
        return keys


def _saved_tokens(key: Key) -> int:
    """Number of tokens that a merge saves; a token for a character replaces all its bytes."""
    return 1 if len(key) > 1 else len(key.encode()) - 1


def _positions_of_pair(symbols: Word, left: str, right: str) -> list[int]:
    """Where the two tokens are adjacent; much faster than a comparison of every pair."""
    positions = []
    position, last = -1, len(symbols) - 1
    for _ in range(symbols.count(left)):
        position = symbols.index(left, position + 1)
        if position < last and symbols[position + 1] == right:
            positions.append(position)
    return positions


def _symbols(tokens: list[str], bpe: Bpe) -> Word:
    """Restore the characters that SentencePiece represents by bytes."""
    if bpe.unk_token in tokens:
        return ()
    if not bpe.byte_fallback:
        return tuple(tokens)
    symbols: list[str] = []
    pending_bytes = bytearray()
    for token in [*tokens, ""]:
        if token in BYTE_TOKENS:
            pending_bytes.append(int(token[3:5], 16))
            continue
        symbols += [sys.intern(_UNCOVERED + character) for character in pending_bytes.decode()]
        pending_bytes.clear()
        if token:
            symbols.append(token)
    return tuple(symbols)
