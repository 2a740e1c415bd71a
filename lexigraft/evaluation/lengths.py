"""Lengths of the sentences of a text, in few enough numbers to be kept with every record."""

from collections.abc import Sequence
from typing import TypeVar

Row = TypeVar("Row")

# A bootstrap over so many groups of sentences is as good as one over the sentences.
MOST = 1000


def in_groups(rows: Sequence[Row], most: int = MOST) -> list[list[Row]]:
    """Rows by themselves or, of more than `most`, so many groups: every `most`-th one together.

    The same rows are together whoever measures them, so that groups are paired as sentences are.
    """
    return [list(rows[at::most]) for at in range(min(most, len(rows)))]
