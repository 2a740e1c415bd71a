"""Test texts in training text: which sentences contain one, and how much of each test set is found.

Two sentences count as the same if their letters are equal: case, digits, punctuation and white
space are ignored. Longer texts are also compared in pieces, runs of letters without spaces, as
OpenAI (2023, GPT-4 Technical Report, Appendix C) compares texts. A text is `mostly_found` if
training text contains the share of its pieces that Chowdhery et al. (2022, PaLM, Section 8) regard
as contamination.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Tests with at least this many letters must not occur inside a longer sentence either. Shorter ones
# are common phrases, which long sentences contain by chance.
CONTAINED = 12
# Length of the letter runs by which tests are found. Only every third position of a text is looked
# up, so that splitting a text takes a third of the time (benchmarks/stream.py).
_RUN = 10
_STRIDE = CONTAINED - _RUN + 1
# Length of a piece in letters. Unrelated texts share shorter runs.
PIECE = 50
# Pieces begin at every tenth letter of a test, which takes a tenth of the memory (about 10 bytes
# per letter of the tests): a passage shared with a test is found if it has at least 59 letters.
_STEP = 10
# The share of a test's pieces from which it counts as `mostly_found`.
MOSTLY = 0.7


def letters(sentence: str) -> str:
    """The case-folded letters and marks of a sentence, by which sentences are compared.

    A sentence without letters is returned unchanged.
    """
    return sentence.casefold().translate(_LETTERS) or sentence


class Overlap:
    """Test texts indexed by runs of their first letters: lookups are linear in a sentence's length.

    `sentence in Overlap(tests)` is true if the sentence has the same letters as a test, or contains
    the letters of a test with twelve or more.
    """

    def __init__(self, tests: Iterable[str]):
        self._tests = {letters(test) for test in tests}
        # Run of letters at the beginning -> its offset in a test, and the test. Wherever a test
        # occurs in a text, one of its runs begins at a position that is looked up.
        self._runs: dict[str, list[tuple[int, str]]] = {}
        for test in self._tests:
            for offset in range(_STRIDE if len(test) >= CONTAINED else 0):
                run = test[offset : offset + _RUN]
                self._runs.setdefault(run, []).append((offset, test))

    def __contains__(self, sentence: str) -> bool:
        return any(True for _ in self.matches(letters(sentence)))

    def matches(self, text: str) -> Iterator[str]:
        """The letters of each test that `text` (letters only) is or contains, possibly repeated."""
        if text in self._tests:
            yield text
        if not self._runs:
            return
        for position in range(0, len(text) - _RUN + 1, _STRIDE):
            for offset, test in self._runs.get(text[position : position + _RUN], ()):
                if position >= offset and text.startswith(test, position - offset):
                    yield test


class Contamination:
    """Counts how much of several test sets, by name, a streamed training text contains."""

    def __init__(self, sets: Mapping[str, Iterable[str]]):
        self._sets = {
            name: {letters(text) for text in texts if text.strip()} for name, texts in sets.items()
        }
        all_tests = set().union(*self._sets.values())
        self._overlap = Overlap(all_tests)
        self._pieces = {piece for test in all_tests for piece in _pieces(test, _STEP)}
        self._matched: set[str] = set()
        self._matched_pieces: set[int] = set()
        self._sentences = dict.fromkeys(self._sets, 0)

    def add(self, sentence: str) -> None:
        """Count one sentence of training text."""
        text = letters(sentence)
        matches = set(self._overlap.matches(text))
        self._matched |= matches
        if self._pieces:  # most languages have no tests with pieces
            self._matched_pieces.update(self._pieces.intersection(_pieces(text, 1)))
        for name, tests in self._sets.items():
            self._sentences[name] += not matches.isdisjoint(tests)

    def facts(self) -> dict[str, dict[str, Any]]:
        """The counts so far, by set.

        `texts`: its size; `found`: texts that a training sentence is or contains; `mostly_found`:
        texts of 50 letters or more of which at least seven tenths of the pieces are found;
        `training_sentences`: those that are or contain a test.
        """
        return {
            name: {
                "texts": len(tests),
                "found": len(tests & self._matched),
                "mostly_found": sum(map(self._is_mostly_found, tests)),
                "training_sentences": self._sentences[name],
            }
            for name, tests in self._sets.items()
        }

    def _is_mostly_found(self, test: str) -> bool:
        pieces = list(_pieces(test, _STEP))
        matched = sum(piece in self._matched_pieces for piece in pieces)
        return bool(pieces) and matched >= MOSTLY * len(pieces)


def _pieces(text: str, step: int) -> Iterator[int]:
    """Hashes of the runs of 50 letters of a text, valid within this process."""
    return (hash(text[start : start + PIECE]) for start in range(0, len(text) - PIECE + 1, step))


class _Letters(dict):
    """Translation table that keeps letters and marks and drops every other character."""

    def __missing__(self, code: int) -> int | None:
        self[code] = code if unicodedata.category(chr(code))[0] in "LM" else None
        return self[code]


_LETTERS = _Letters()
