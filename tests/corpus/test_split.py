"""The parts of a corpus: disjoint for any input, and determined by the seed."""

import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexigraft.corpus.contamination import letters
from lexigraft.corpus.split import Sizes, split_corpus
from lexigraft.errors import UserError

SEED = ("0", "corpus", "te")
SMALL = Sizes(None, heldout_sentences=2, english_sentences=2, translation_pairs=2)
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


def test_a_long_test_sentence_inside_a_training_sentence_keeps_it_out():
    pairs = [("This is a small house", "ఇది ఒక చిన్న ఇల్లు అండి")]
    sentences = ["నిన్న: ఇది ఒక చిన్న ఇల్లు అండి, అన్నాడు", "తోట పెద్దది", "చిన్న తోట"]
    split = split_corpus(sentences, pairs, [], Sizes(None, 0, 0, 1), SEED)
    assert split.train == sentences[1:]
    assert split.kept_out["like_translation_test"] == 1


def test_summaries_are_excluded_from_training_and_articles_are_not():
    articles = [("తోట పెద్దది. పూలు ఉన్నాయి.", "తోట గురించి ఒక వార్త ఇది")]
    sentences = ["చూడండి: తోట గురించి ఒక వార్త ఇది!", "తోట పెద్దది. పూలు ఉన్నాయి.", "చిన్న తోట"]
    split = split_corpus(sentences, [], [], NOTHING, SEED, articles)
    assert split.train == sentences[1:]
    assert split.summarization == articles
    assert (split.kept_out["like_summarization_test"], split.kept_out["like_translation_test"]) == (
        1,
        0,
    )


@given(st.lists(pair, min_size=1, max_size=30), st.integers(1, 5) | st.none())
def test_summarization_pairs_differ_on_both_sides_and_null_means_all(articles, size):
    sizes = Sizes(None, 0, 0, 0, summarization_pairs=size)
    try:
        drawn = split_corpus(["కొత్త వాక్యం"], [], [], sizes, SEED, articles).summarization
    except UserError:
        return
    assert set(drawn) <= set(articles)
    assert len({letters(source) for source, _ in drawn}) == len(drawn)
    assert len({letters(target) for _, target in drawn}) == len(drawn)
    every = split_corpus(["కొత్త వాక్యం"], [], [], Sizes(None, 0, 0, 0), SEED, articles)
    assert set(drawn) <= set(every.summarization)
    assert len(drawn) == (len(every.summarization) if size is None else size)


def test_a_held_out_sentence_inside_a_training_sentence_keeps_it_out():
    long, inside = "ఇది ఒక చిన్న ఇల్లు అండి", "నిన్న: ఇది ఒక చిన్న ఇల్లు అండి, అన్నాడు"
    other = "తోటలో పూలు చాలా ఉన్నాయి"
    for seed in range(20):
        split = split_corpus([long, inside, other], [], [], Sizes(None, 1, 0, 0), ("held", seed))
        expected = {long: [other], inside: [long, other], other: [long, inside]}
        assert split.train == expected[split.heldout[0]]
        assert split.kept_out["like_heldout"] == (split.heldout == [long])


def test_no_held_out_sentence_of_real_text_stands_in_the_training_text(greek):
    def plain(text):
        kept = (c for c in text.casefold() if unicodedata.category(c)[0] not in "PSC")
        return " ".join("".join(kept).split())

    removed = 0
    for seed in range(3):
        split = split_corpus(greek, [], [], Sizes(None, 100, 0, 0), ("greek", seed))
        train = [plain(text) for text in split.train]
        assert not [text for text in split.heldout if any(plain(text) in one for one in train)]
        removed += split.kept_out["like_heldout"]
    assert removed > 0


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


def test_a_repeated_sentence_is_never_both_trained_on_and_held_out():
    # What cleaning no longer remembers of a long text comes again.
    sentences = [f"వాక్యం {'క' * (number % 40)}గ" for number in range(400)]
    for seed in range(5):
        split = split_corpus(sentences, [], [], Sizes(10, 5, 0, 0), ("repeated", seed))
        assert len(set(split.train) | set(split.heldout)) == 15


def test_the_sentences_of_a_long_text_are_drawn_equally_often():
    sentences = [f"ఒక పొడవైన వాక్యం {'క' * number}గ" for number in range(40)] * 3
    trained, held = Counter(), Counter()
    for seed in range(600):
        split = split_corpus(sentences, [], [], Sizes(6, 4, 0, 0), ("uniform", seed))
        trained.update(split.train)
        held.update(split.heldout)
    # 90 and 60 expected; the standard deviations are 8.7 and 7.3.
    assert max(abs(trained[text] - 90) for text in sentences) < 5 * 8.7
    assert max(abs(held[text] - 60) for text in sentences) < 5 * 7.3


def test_a_short_test_phrase_inside_a_training_sentence_does_not():
    split = split_corpus(
        ["అవును, అది నిజం", "అవును!"], [("Yes it is so", "అవును")], [], Sizes(None, 0, 0, 1), SEED
    )
    assert split.train == ["అవును, అది నిజం"]


def test_sentences_like_a_held_out_one_are_excluded_and_counted():
    sentences = [f"వాక్యం {number}" for number in range(5)] + ["వేరే మాట"]
    split = split_corpus(sentences, [], [], Sizes(None, 1, 0, 0), SEED)
    if split.heldout == ["వేరే మాట"]:
        assert (len(split.train), split.kept_out["like_heldout"]) == (5, 0)
    else:
        assert (split.train, split.kept_out["like_heldout"]) == (["వేరే మాట"], 4)


def test_the_same_seed_draws_the_same_and_another_seed_does_not(telugu, parallel_telugu, english):
    sizes = Sizes(100, 20, 20, 20)
    first, again, other = (
        split_corpus(iter(telugu), iter(parallel_telugu), iter(english), sizes, seed)
        for seed in (SEED, SEED, ("1", "corpus", "te"))
    )
    assert first == again
    for part in ("train", "heldout", "english", "translation"):
        assert getattr(first, part) != getattr(other, part)


def test_a_limited_training_set_has_that_size_and_the_order_of_the_text(telugu):
    split = split_corpus(telugu, [], [], Sizes(50, 10, 0, 0), SEED)
    assert len(split.train) == 50
    places = [telugu.index(text) for text in split.train]
    assert places == sorted(places)


def test_all_that_is_left_is_trained_on_without_a_limit(telugu):
    split = split_corpus(telugu, [], [], Sizes(None, 10, 0, 0), SEED)
    assert len(split.train) == len(telugu) - 10 - split.kept_out["like_heldout"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (Sizes(None, 100, 0, 0), r"heldout_sentences: asks for 100, but the text has only 30"),
        (Sizes(40, 5, 0, 0), r"train_sentences: asks for 40, but the text has only 25 .* 30"),
        (Sizes(None, 30, 0, 0), r"train_sentences: asks for 1, but the text has only 0"),
        (Sizes(None, 5, 9, 0), r"english_sentences: asks for 9, but the text has only 8"),
        (Sizes(None, 5, 0, 7), r"translation_pairs: asks for 7, but .* only 3 distinct pairs"),
        (
            Sizes(None, 5, 0, 1, 4, 5),
            r"summarization_pairs: asks for 5, but .* only 4 distinct pairs",
        ),
    ],
)
def test_too_little_text_is_reported_with_the_key_and_the_numbers(sizes, message):
    sentences = [f"వాక్యం {'క' * number}గ" for number in range(30)]
    pairs = [("Too short", "పొట్టి")] + [
        (f"A long enough sentence {'x' * number}", f"పొడవు {'గ' * number}") for number in range(3)
    ]
    with pytest.raises(UserError, match=message):
        split_corpus(sentences, pairs, ENGLISH, sizes, SEED, articles=pairs)
