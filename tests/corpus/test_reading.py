"""Text on disk: the sample is that of a stream in memory, with and without interruptions."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexigraft.corpus import reading, sampling
from lexigraft.corpus.cleaning import CleaningCounts
from lexigraft.corpus.language import size_of
from lexigraft.corpus.reading import draw_text, forget
from lexigraft.corpus.sampling import StoredLines, StoredSample, StreamSample

SEED = ("0", "corpus", "te")
lines = st.lists(st.text("abగె\u2028", min_size=1, max_size=4), max_size=60)


@pytest.fixture(autouse=True)
def frequent(monkeypatch):
    """Lines are dropped, and the state stored, all the time."""
    monkeypatch.setattr(sampling, "_SLACK", 3)
    monkeypatch.setattr(reading, "SAVE_SECONDS", -1.0)
    monkeypatch.setattr(reading, "_CHECK_EVERY", 1)


@settings(max_examples=50)
@given(lines, st.integers(0, 20) | st.none(), st.integers(0, 60) | st.none())
def test_a_sample_on_disk_has_the_smallest_hashes_up_to_its_size(texts, size, characters):
    stored, ranked = StoredSample(SEED, size, characters), StreamSample[str](None, SEED)
    for text in texts:
        stored.add(text)
        ranked.add(text, text)
    expected, left = [], characters
    for text in ranked.shuffled()[:size]:  # by their hashes
        if left is not None and (left := left - len(text)) < 0:
            break
        expected.append(text)
    drawn = stored.ordered()
    assert sorted(drawn) == sorted(expected)
    first = [texts.index(text) for text in drawn]
    assert first == sorted(first)
    assert [drawn[place] for place in range(len(drawn))] == list(drawn)
    assert drawn.sizes.tolist() == [len(text) for text in drawn]


@given(lines, st.lists(st.booleans(), min_size=60, max_size=60))
def test_stored_lines_are_a_sequence(texts, kept):
    stored = StoredLines.of_lines(texts)
    assert size_of(stored) == size_of(texts)
    assert stored == texts and len(stored) == len(texts)
    assert stored[2:5] == texts[2:5]
    wanted = dict(zip(texts, kept, strict=False))
    assert stored.without(wanted.get) == [text for text in texts if not wanted[text]]


@pytest.fixture
def language(tmp_path):
    """A language whose text has five files with repeated lines."""
    draw = random.Random(1)
    for name in "abcde":
        text = "".join(f"sentence {draw.randrange(150)} of it \n" for _ in range(60))
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / f"{name}.txt").write_text(text)
    text = {"loader": "text", "paths": [str(tmp_path / "texts")]}
    return {"name": "Telugu", "text": text, "minimum_characters": 1, "repair": []}


class Killed(BaseException):
    pass


@pytest.mark.fault(
    "kill",
    "a job is interrupted while it reads a large text",
    "the next job resumes from the last stored state and samples the same sentences",
)
@pytest.mark.parametrize("most", [None, 1000])
def test_an_interrupted_reading_goes_on_and_draws_the_same(language, tmp_path, monkeypatch, most):
    language |= {"read_characters": most}
    whole_counts = CleaningCounts()
    whole = draw_text(language, tmp_path / "whole", SEED, whole_counts, 40, None)
    added, seen = StoredSample.add, []

    def add(sample, line):
        seen.append(line)
        if len(seen) in (15, 35, 50):  # of which the last ones are read again
            raise Killed
        added(sample, line)

    monkeypatch.setattr(StoredSample, "add", add)
    for _ in range(3):
        with pytest.raises(Killed):
            draw_text(language, tmp_path / "cut", SEED, CleaningCounts(), 40, None)
    counts = CleaningCounts()
    assert draw_text(language, tmp_path / "cut", SEED, counts, 40, None) == list(whole)
    assert counts == whole_counts
    assert len(seen) <= whole_counts.kept + 3
    forget(tmp_path / "cut")
    assert list((tmp_path / "cut").iterdir()) == []


def test_a_changed_text_is_read_from_its_beginning(language, tmp_path):
    first = draw_text(language, tmp_path, SEED, CleaningCounts(), None, None)
    (tmp_path / "texts" / "c.txt").write_text("another sentence\n")
    counts = CleaningCounts()
    second = draw_text(language, tmp_path, SEED, counts, None, None)
    assert counts.read == 241 and "another sentence" in {*second} - {*first}


def test_files_are_read_in_random_order_up_to_the_amount(language, tmp_path):
    found = set()
    for seed in range(6):
        counts = CleaningCounts()
        language |= {"read_characters": 500}
        place = tmp_path / str(seed)
        drawn = draw_text(language, place, ("order", seed), counts, None, None)
        assert 500 <= sum(map(len, drawn)) < 520
        found.add(drawn[0])
    assert len(found) > 2


def test_the_first_sentences_of_documents_are_read_in_their_order(tmp_path):
    """As SALT reads Wikipedia: articles into sentences, 8 million of them, in sequence."""
    articles = [
        f"Geschichte\nIm Jahr {year} kam Dr. Li nach Ort{year}. Sie blieb z.B. bis {year + 9}! "
        "Warum? Gut so."
        for year in range(1900, 1960)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": it}) + "\n" for it in articles))
    text = {"loader": "jsonl", "path": str(tmp_path / "a.jsonl")}
    language = {"name": "German", "text": text, "minimum_characters": 1}
    language |= {"split_sentences": True, "read_sentences": 6}
    drawn = draw_text(language, tmp_path / "out", SEED, CleaningCounts(), 100, None)
    assert list(drawn) == [
        "Geschichte",
        "Im Jahr 1900 kam Dr. Li nach Ort1900.",
        "Sie blieb z.B. bis 1909!",
        "Warum?",
        "Gut so.",
        "Im Jahr 1901 kam Dr. Li nach Ort1901.",
    ]


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
