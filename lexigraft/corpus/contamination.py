"""Test texts in training text: found whole, or most of them in pieces, and counted by test set.

What counts as the same text is said in `overlap`. Pieces are runs of letters without the spaces
between them, as OpenAI (2023, GPT-4 Technical Report, Appendix C) compares texts, which needs no
words and so serves every script. A text is `mostly_found` when training text has as large a share
of its pieces as Chowdhery et al. (2022, PaLM, Section 8) take for contamination.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lexigraft.corpus.overlap import Overlap, letters

# Letters of a piece. Shorter runs are shared by texts that have nothing to do with each other.
PIECE = 50
# Pieces begin at every tenth letter of a test, which takes a tenth of the memory (about 10 bytes
# for each letter of the tests): what a text shares with a test is found from 59 letters on.
_STEP = 10
# Of the pieces of a test: from here on it is known.
_MOSTLY = 0.7


class Contamination:
    """Sets of test texts, and what of them training text holds; texts are streamed past it.

    `sentence in Contamination(sets)` tells whether a sentence is a test, holds one, or holds a
    piece of one.

    Parameters
    ----------
    sets
        Name -> texts. Blank ones do not count, equal ones count once.
    """

    def __init__(self, sets: Mapping[str, Iterable[str]]):
        self._sets = {
            name: {letters(text) for text in texts if text.strip()} for name, texts in sets.items()
        }
        every = set().union(*self._sets.values())
        self._whole = Overlap(every)
        self._pieces = {piece for test in every for piece in _pieces(test, _STEP)}
        self._found: set[str] = set()
        self._pieces_found: set[int] = set()
        self._sentences = dict.fromkeys(self._sets, 0)

    def __contains__(self, sentence: str) -> bool:
        text = letters(sentence)
        whole = next(self._whole.held(text), None) is not None
        return whole or next(self._known_pieces(text), None) is not None

    def look(self, sentence: str) -> None:
        """Count one sentence of training text."""
        text = letters(sentence)
        held = set(self._whole.held(text))
        self._found |= held
        self._pieces_found.update(self._known_pieces(text))
        for name, tests in self._sets.items():
            self._sentences[name] += not held.isdisjoint(tests)

    def facts(self) -> dict[str, dict[str, Any]]:
        """What was found so far.

        Returns
        -------
        dict
            Set -> `texts`, how many there are; `found`, those that a training sentence is or
            holds; `mostly_found`, those of which it has seven tenths of the pieces, among texts
            of 50 letters and more; `training_sentences` that are or hold a test.
        """
        return {
            name: {
                "texts": len(tests),
                "found": len(tests & self._found),
                "mostly_found": sum(map(self._is_mostly_found, tests)),
                "training_sentences": self._sentences[name],
            }
            for name, tests in self._sets.items()
        }

    def _known_pieces(self, text: str) -> Iterator[int]:
        # Most languages have no tests with pieces, and every letter would be looked at in vain.
        return (p for p in _pieces(text, 1) if p in self._pieces) if self._pieces else iter(())

    def _is_mostly_found(self, test: str) -> bool:
        pieces = list(_pieces(test, _STEP))
        found = sum(piece in self._pieces_found for piece in pieces)
        return bool(pieces) and found >= _MOSTLY * len(pieces)


def _pieces(text: str, step: int) -> Iterator[int]:
    """Hashes of the runs of 50 letters of a text; Python's own, good for one process."""
    return (hash(text[at : at + PIECE]) for at in range(0, len(text) - PIECE + 1, step))
