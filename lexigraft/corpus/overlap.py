"""Whether a sentence gives a test away: it is one of the tests, or holds one.

What counts as the same sentence is decided by its letters alone: case, digits, punctuation and
white space do not make a sentence new.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Protocol

# A test of at least so many letters may not stand inside a longer sentence either. Shorter ones
# are everyday phrases, which long sentences hold by chance.
CONTAINED = 12


def letters(sentence: str) -> str:
    """The letters and marks of a sentence, case folded: what makes it the same sentence.

    A sentence without any letter stands for itself.
    """
    return sentence.casefold().translate(_LETTERS) or sentence


class Tests(Protocol):
    """Tells whether a sentence gives a test away: `sentence in tests`."""

    def __contains__(self, sentence: str, /) -> bool: ...


class Overlap:
    """Test texts, looked up by their first letters: a sentence costs its length, not their number.

    `sentence in Overlap(tests)` tells whether it has the letters of a test, or contains them if
    they are twelve or more.
    """

    def __init__(self, tests: Iterable[str]):
        self._tests = {letters(test) for test in tests}
        self._beginnings: dict[str, list[str]] = {}
        for test in self._tests:
            if len(test) >= CONTAINED:
                self._beginnings.setdefault(test[:CONTAINED], []).append(test)

    def __contains__(self, sentence: str) -> bool:
        return next(self.held(letters(sentence)), None) is not None

    def held(self, text: str) -> Iterator[str]:
        """The letters of each test that a sentence with these letters is or holds, some twice."""
        if text in self._tests:
            yield text
        for at in range(len(text) - CONTAINED + 1):
            for test in self._beginnings.get(text[at : at + CONTAINED], ()):
                if text.startswith(test, at):
                    yield test


class _Letters(dict):
    """Translation table that keeps letters and marks and drops every other character."""

    def __missing__(self, code: int) -> int | None:
        kept = code if unicodedata.category(chr(code))[0] in "LM" else None
        self[code] = kept
        return kept


_LETTERS = _Letters()
