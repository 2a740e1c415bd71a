"""Shares of languages in a mixed text."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.groups import _order, counts_of, shares_of
from lexigraft.corpus.mixture import check_shares
from lexigraft.errors import UserError


def test_temperature_one_is_proportional_and_infinity_equal():
    sizes = {"a": 100, "b": 300}
    assert shares_of(sizes, {}, 1) == {"a": 0.25, "b": 0.75}
    assert shares_of(sizes, {}, math.inf) == {"a": 0.5, "b": 0.5}


def test_a_fixed_share_leaves_the_rest_to_the_temperature():
    # English 1/3, the others by size in what is left: 2/3 · 1/4 and 2/3 · 3/4.
    shares = shares_of({"en": 10_000, "a": 100, "b": 300}, {"en": 1 / 3}, 1)
    assert shares == pytest.approx({"en": 1 / 3, "a": 1 / 6, "b": 1 / 2})


@given(
    sizes=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=80), min_size=2, max_size=6),
    share=st.floats(0.05, 0.9),
    characters=st.integers(1, 2000) | st.none(),
)
def test_a_mix_has_its_shares_of_characters_to_within_a_sentence(sizes, share, characters):
    texts = {str(place): np.array(own) for place, own in enumerate(sizes)}
    shares = shares_of({name: own.sum() for name, own in texts.items()}, {"0": share}, 1)
    counts, whole = counts_of(texts, shares, ("seed",), None, characters)
    total = min(own.sum() / shares[name] for name, own in texts.items())
    assert whole["train_characters"] == pytest.approx(total, abs=1)
    total = min(total, characters or total)
    for name, own in texts.items():
        drawn = own[_order(len(own), ("seed",), name)[: counts[name]]]
        assert len(drawn) == counts[name]
        assert total * shares[name] - own.max() <= drawn.sum() <= total * shares[name] + 0.1


@pytest.mark.bad_input(
    "text",
    "invalid shares of a group of languages",
    "a one-line error message names the member or gives their sum",
)
@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"c": 0.5}, "'c' is not a member"),
        ({"a": 0.5, "b": 0.4}, "they add up to 0.9, not 1"),
        ({"a": 1.0}, "leaves nothing for b"),
    ],
)
def test_shares_that_cannot_be_had_are_refused(shares, message):
    with pytest.raises(UserError, match=message):
        check_shares(["a", "b"], shares)


def test_a_language_with_little_text_bounds_all_of_them():
    sizes = {"a": np.ones(60, dtype=np.int64), "b": np.ones(10, dtype=np.int64)}
    assert counts_of(sizes, {"a": 0.5, "b": 0.5}, ("seed",), 100)[0] == {"a": 10, "b": 10}
    assert counts_of(sizes, {"a": 0.8, "b": 0.2}, ("seed",), 49)[0] == {"a": 40, "b": 9}
