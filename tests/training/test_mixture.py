"""Texts take turns in their shares, and none is left out or favoured by chance."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.training.data import pack
from lexigraft.training.mixture import Joined, counts_for, mixed, more_of


def test_fifteen_of_a_hundred_sequences_are_the_other_text_s():
    assert counts_for(85, {"monolingual": 0.85, "tasks": 0.15}) == {"tasks": 15}
    assert counts_for(100, {"a": 0.5, "b": 0.3, "c": 0.2}) == {"b": 60, "c": 40}


def test_a_text_with_a_tiny_share_still_gives_a_sequence():
    assert counts_for(3, {"a": 0.99, "b": 0.01}) == {"b": 1}


@given(sequences=st.integers(1, 9), count=st.integers(1, 40))
def test_a_short_text_is_repeated_pass_by_pass_and_a_long_one_cut(sequences, count):
    numbers = more_of(sequences, count, ["seed"])
    assert len(numbers) == count
    for begin in range(0, count - sequences + 1, sequences):
        assert sorted(numbers[begin : begin + sequences]) == list(range(sequences))
    # No number comes more than once oftener than another.
    seen = Counter(numbers.tolist())
    assert max(seen.values()) - min(seen.get(n, 0) for n in range(sequences)) <= 1


def test_passes_are_in_orders_of_their_own():
    first, second = more_of(50, 100, ["seed"]).reshape(2, 50).tolist()
    assert first != second
    assert first == more_of(50, 50, ["seed"]).tolist() != more_of(50, 50, ["other"]).tolist()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_each_text_keeps_its_order_and_has_its_share_of_every_stretch(sizes):
    orders = [1000 * text + np.arange(size) for text, size in enumerate(sizes)]
    order = mixed(orders)
    for text, own in enumerate(orders):
        mask = order // 1000 == text
        assert order[mask].tolist() == own.tolist()
        share = len(own) / len(order)
        # A text is half a sequence early or late at most, and so is each of the others.
        due = share * np.arange(1, len(order) + 1)
        assert np.abs(np.cumsum(mask) - due).max() <= 0.5 + share * len(sizes) / 2 + 1e-9


def test_joined_texts_are_numbered_one_after_the_other():
    texts = [pack([[1, 2, 3, 4]], 2), pack([[5, 6]], 2), pack([[7, 8, 9]], 3)]
    joined = Joined(texts)
    assert [joined[at].tokens.tolist() for at in range(len(joined))] == [
        [1, 2], [3, 4], [5, 6], [7, 8, 9],
    ]  # fmt: skip
    assert joined.places(0, np.array([1, 0])).tolist() == [1, 0]
    assert joined.places(2, np.array([0])).tolist() == [3]
    for outside in (-1, 4):
        with pytest.raises(IndexError):
            joined[outside]
