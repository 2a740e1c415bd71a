"""Stream samples: uniform over distinct items, bounded, and determined by the seed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.sampling import StreamSample


def sample_of(items, size, seed=("sample",)):
    sample = StreamSample[int](size, seed)
    for item in items:
        sample.add(item, str(item))
    return sample


def far_from(counts, expected, spread):
    """Items drawn more than five standard deviations more or less often than expected."""
    return {item: count for item, count in counts.items() if abs(count - expected) > 5 * spread}


def test_an_item_that_comes_more_often_is_not_drawn_more_often():
    counts = Counter()
    stream = [0] * 50 + list(range(10)) + [1, 0] * 20
    for trial in range(2000):
        counts.update(sample_of(stream, 3, ("trial", trial)).ordered())
    assert not far_from(counts, 600, 20.5)


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(0, 25) | st.none())
def test_it_keeps_distinct_items_up_to_its_size_in_their_order(items, size):
    distinct = list(dict.fromkeys(items))
    sample = sample_of(items, size)
    kept = sample.ordered()
    assert len(kept) == len(sample) == (len(distinct) if size is None else min(size, len(distinct)))
    remaining = iter(distinct)
    assert all(item in remaining for item in kept)
    assert Counter(sample.shuffled()) == Counter(kept)


@given(st.dictionaries(st.integers(0, 99), st.integers(0, 3)), st.integers(0, 12))
def test_of_items_with_scores_the_highest_are_kept(scores, size):
    sample = StreamSample[int](size, ("sample",))
    for item, score in scores.items():
        sample.add(item, str(item), score)
    kept = sorted((scores[item] for item in sample.ordered()), reverse=True)
    assert kept == sorted(scores.values(), reverse=True)[:size]
