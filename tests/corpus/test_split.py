"""The parts of a corpus: disjoint for any input, and determined by the seed."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexigraft.corpus.contamination import letters
from lexigraft.corpus.split import Sizes, split_corpus
from lexigraft.errors import UserError

SEED = ("0", "corpus", "te")
NOTHING = Sizes(None, heldout_sentences=0, english_sentences=0, translation_pairs=0)
ENGLISH = [f"An English sentence {'x' * number}" for number in range(1, 9)]

words = st.sampled_from(["ఇల్లు", "తోట", "Σπίτι", "σπίτι", "ab", "AB", "a-b", "1", "2", "?", " "])
sentence = st.lists(words, min_size=1, max_size=5).map(" ".join)
pair = st.tuples(st.lists(words, min_size=3, max_size=6).map(" ".join), sentence)


@settings(max_examples=200)
@given(
    st.lists(sentence, min_size=6, max_size=40),
    st.lists(pair, max_size=12),
    st.lists(pair, max_size=6),
    st.sampled_from([None, 1, 3]),
)
def test_no_test_or_held_out_sentence_is_in_training(sentences, pairs, articles, limit):
    sizes = Sizes(limit, 2, 2, 2, 1)
    try:
        split = split_corpus(sentences, pairs, ENGLISH, sizes, SEED, articles)
    except UserError:
        return
    tested = {letters(target) for _, target in split.translation + split.summarization}
    heldout = {letters(text) for text in split.heldout}
    train = {letters(text) for text in split.train}
    assert not tested & (heldout | train)
    assert not heldout & train
    assert not [key for key in tested for text in train | heldout if len(key) >= 12 and key in text]
    assert not [key for key in heldout for text in train if len(key) >= 12 and key in text]
    assert len(heldout) == len(split.heldout) == 2
    assert set(split.train) | set(split.heldout) <= set(sentences)
    assert len(set(split.train)) == len(split.train)
    if limit is None:
        kept_out = sum(split.kept_out.values())
        assert len(split.train) + len(split.heldout) + kept_out == len(set(sentences))
    else:
        assert len(split.train) == limit


@given(st.lists(pair, min_size=1, max_size=30), st.integers(1, 5))
def test_test_pairs_are_long_enough_and_differ_on_both_sides(pairs, words_needed):
    sizes = Sizes(None, 0, 0, 2, words_needed)
    try:
        drawn = split_corpus(["కొత్త వాక్యం"], pairs, [], sizes, SEED).translation
    except UserError:
        return
    assert set(drawn) <= set(pairs)
    assert all(len(source.split()) >= words_needed for source, _ in drawn)
    assert len({letters(source) for source, _ in drawn}) == len(drawn)
    assert len({letters(target) for _, target in drawn}) == len(drawn)


@pytest.mark.parametrize("wanted", [1, 3, 4])
def test_short_sentences_are_tests_only_where_there_are_too_few_others(wanted):
    short, long = ["అవును", "కాదు"], [f"ఇది {one} పొడవైన వాక్యం" for one in ("ఒక", "మరో", "వేరే")]
    for seed in range(10):
        sizes, names = Sizes(None, wanted, 0, wanted), ("short", seed)
        heldout = split_corpus([*short, *long], [], [], sizes, names).heldout
        pairs = [(f"This is sentence {text}", text) for text in [*short, *long]]
        drawn = split_corpus(["తోట"], pairs, [], Sizes(None, 0, 0, wanted), names).translation
        for tests in (set(heldout), {target for _, target in drawn}):
            assert tests <= set(long) if wanted <= 3 else tests > set(long)


def test_the_same_seed_draws_the_same_and_another_seed_does_not(telugu, parallel_telugu, english):
    sizes = Sizes(100, 20, 20, 20)
    first, again, other = (
        split_corpus(iter(telugu), iter(parallel_telugu), iter(english), sizes, seed)
        for seed in (SEED, SEED, ("1", "corpus", "te"))
    )
    assert first == again
    for part in ("train", "heldout", "english", "translation"):
        assert getattr(first, part) != getattr(other, part)


@given(st.integers(150, 9000), st.integers(0, 3))
def test_training_text_has_as_many_characters_as_are_asked_for(wanted, seed):
    text = [f"ఇది {'క' * (number % 40)}గ {'ఖగఘచ'[number % 4] * number}" for number in range(90)]
    sizes = Sizes(None, 5, 0, 0, train_characters=wanted)
    split = split_corpus(text, [], [], sizes, ("characters", seed))
    trained = sum(map(len, split.train))
    left = [line for line in text if line not in {*split.train, *split.heldout}]
    assert trained <= wanted
    if split.reduced:
        assert split.reduced["train_characters"] == {"wanted": wanted, "taken": trained}
        assert len(left) == split.kept_out["like_heldout"]
    else:  # within a sentence
        assert wanted - trained < max(map(len, text))


TEXT = [f"వాక్యం {'క' * number}గ" for number in range(30)]
PAIRS = [("Too short", "పొట్టి")] + [
    (f"A long enough sentence {'x' * number}", f"పొడవు {'గ' * number}") for number in range(3)
]


@pytest.mark.parametrize(
    ("sizes", "lacking"),
    [
        (Sizes(None, 100, 0, 0), "train_sentences 20 (at least 100)"),
        (Sizes(40, 5, 0, 0), "train_sentences 25 (at least 40)"),
        (Sizes(None, 5, 9, 0), "english_sentences 8 (at least 9)"),
        (Sizes(None, 5, 0, 7), "translation_pairs 3 (at least 7)"),
        (Sizes(None, 5, 0, 1, 4, 5), "summarization_pairs 4 (at least 5)"),
        (
            Sizes(3000, 1000, 1000, 500),
            "train_sentences 20 (at least 100), english_sentences 8 (at least 10), "
            "translation_pairs 3 (at least 10)",
        ),
    ],
)
def test_all_parts_with_too_little_text_are_in_one_message(sizes, lacking):
    with pytest.raises(UserError) as error:
        split_corpus(TEXT, PAIRS, ENGLISH, sizes, SEED, articles=PAIRS)
    assert str(error.value).startswith(f"the text is too small: {lacking}; give more text")
    assert "\n" not in str(error.value)


# ---- texts that are smaller than their sizes ----------------------------------------------------


def numbered(count: int) -> list[str]:
    """Distinct sentences whose letters differ, too."""
    digits = str.maketrans("0123456789", "కఖగఘచఛజఝటఠ")
    return [f"ఇది వాక్యం {str(number).translate(digits)} అండి" for number in range(count)]


@settings(max_examples=30)
@given(
    st.integers(130, 400),
    st.integers(1, 350) | st.none(),
    st.integers(1, 200),
    st.sampled_from([0, 10, 25, 130]),
    st.integers(1, 150),
)
def test_a_part_is_as_large_as_asked_for_or_as_the_rule_says(count, train, heldout, in_text, pairs):
    text = numbered(count)
    tests = [(f"An English test sentence {'x' * at}", line) for at, line in enumerate(text)]
    sizes = Sizes(train, heldout, 1, pairs)
    split = split_corpus(text, tests[:in_text], ENGLISH, sizes, SEED)
    taken = min(pairs, in_text)  # sentences that tests take, if all are taken
    tenth = max(count // 10, 10)
    if train is not None and train + heldout + taken <= count:
        expected = (train, heldout, taken)
        assert split.reduced == (
            {"translation_pairs": {"wanted": pairs, "taken": taken}} if taken < pairs and in_text
            else {}
        )  # fmt: skip
    else:
        taken = min(taken, tenth)
        left = count - taken - (train or count)
        held = min(heldout, max(tenth, left))
        expected = (min(train or count, count - taken - held), held, taken)
        for key, size in split.reduced.items():
            assert size["taken"] < size["wanted"] == getattr(sizes, key)
    assert (len(split.train), len(split.heldout), len(split.translation)) == expected
    assert not {*split.train} & {*split.heldout, *(target for _, target in split.translation)}


@settings(max_examples=50)
@given(st.permutations(range(60)), st.integers(1, 6), st.sampled_from([None, 30]))
def test_held_out_text_of_the_end_is_of_the_last_tenth_and_the_rest_of_it_in_no_part(
    numbers, wanted, limit
):
    letters = "".join(map(chr, range(0x0C15, 0x0C29)))
    sentences = ["".join(random.Random(number).choices(letters, k=20)) for number in numbers]
    sizes = Sizes(limit, wanted, 0, 0, heldout_from="end")
    split = split_corpus(sentences, [], [], sizes, SEED)
    last = sentences[-6:]
    assert len(split.heldout) == wanted and set(split.heldout) <= set(last)
    assert not set(split.train) & set(last)
    assert split.train == [text for text in sentences[:-6] if text in set(split.train)]
    assert limit or split.kept_out["like_heldout"] == 54 - len(split.train)
