"""Predictions beside what they are compared with."""

from collections.abc import Sequence


def check_pairs(predictions: Sequence[str], references: Sequence[str]) -> None:
    """Check that there is something to score, and one reference for each prediction.

    Raises
    ------
    ValueError
        There is nothing to score, or the lengths differ.
    """
    if not references or len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
