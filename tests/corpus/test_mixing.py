"""Shares of languages in a mixed text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.groups import check_shares, counts_of, shares_of
from lexigraft.errors import UserError

# VocADT, Appendix C.
LATIN = {"en": 0.17, "sw": 0.16, "id": 0.32, "et": 0.23, "ht": 0.12}


def test_temperature_one_is_proportional_and_infinity_equal():
    sizes = {"a": 100, "b": 300}
    assert shares_of(sizes, {}, 1) == {"a": 0.25, "b": 0.75}
    assert shares_of(sizes, {}, math.inf) == {"a": 0.5, "b": 0.5}


def test_temperature_two_is_proportional_to_square_roots():
    assert shares_of({"a": 100, "b": 900}, {}, 2) == {"a": 0.25, "b": 0.75}


def test_a_fixed_share_leaves_the_rest_to_the_temperature():
    # English 1/3, the others by size in what is left: 2/3 · 1/4 and 2/3 · 3/4.
    shares = shares_of({"en": 10_000, "a": 100, "b": 300}, {"en": 1 / 3}, 1)
    assert shares == pytest.approx({"en": 1 / 3, "a": 1 / 6, "b": 1 / 2})


def test_the_largest_mix_repeats_no_sentence_and_uses_one_language_completely():
    sizes = dict.fromkeys(LATIN, 100)
    # 100 / 0.32 = 312.5 sentences; 32 % of 312 are 99.84.
    counts = counts_of(sizes, LATIN, None)
    assert sum(counts.values()) == 312
    assert counts == {"en": 53, "sw": 50, "id": 100, "et": 72, "ht": 37}


def test_a_total_is_met_exactly():
    assert counts_of({"a": 9, "b": 9, "c": 9}, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, 10) == {
        "a": 4, "b": 3, "c": 3,
    }  # fmt: skip


@given(
    sizes=st.lists(st.integers(1, 5000), min_size=2, max_size=6),
    temperature=st.floats(0.5, 10),
    share=st.floats(0.05, 0.9),
)
def test_counts_are_the_shares_to_within_one_sentence(sizes, temperature, share):
    named = {str(place): size for place, size in enumerate(sizes)}
    shares = shares_of(named, {"0": share}, temperature)
    assert sum(shares.values()) == pytest.approx(1)
    counts = counts_of(named, shares, None)
    total = sum(counts.values())
    for name, count in counts.items():
        assert count <= named[name]
        assert abs(count - total * shares[name]) <= 1


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"c": 0.5}, "'c' is no member"),
        ({"a": 0.5, "b": 0.4}, "they add up to 0.9, not 1"),
        ({"a": 1.0}, "leaves nothing for b"),
    ],
)
def test_shares_that_cannot_be_had_are_refused(shares, message):
    with pytest.raises(UserError, match=message):
        check_shares(["a", "b"], shares)


def test_a_language_with_little_text_bounds_all_of_them():
    assert counts_of({"a": 60, "b": 10}, {"a": 0.5, "b": 0.5}, 100) == {"a": 10, "b": 10}
    assert counts_of({"a": 60, "b": 10}, {"a": 0.8, "b": 0.2}, 49) == {"a": 39, "b": 10}
