"""Training samples from parallel text: both directions, selection by quality."""

import pytest

from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.training_samples import translations
from lexigraft.errors import UserError

SEED = (0, "corpus", "te", "samples", "parallel")
PAIRS = [("One house", "ఒక ఇల్లు"), ("Two dogs", "రెండు కుక్కలు"), ("Three cats", "మూడు పిల్లులు")]
NO_TESTS = Overlap([])


def settings(text, pairs=None, minimum_quality=None):
    return {
        "language": "Telugu",
        "text": text,
        "pairs": pairs,
        "minimum_quality": minimum_quality,
    }


def tsv(folder, rows, **keys):
    file = folder / "pairs.tsv"
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), "utf-8")
    return {"loader": "tsv", "path": str(file), **keys}


def english_of(samples):
    """The English sides of the pairs behind samples, in their order."""
    return [answer[1:] for prompt, answer in samples if prompt.endswith("English:")]


def test_each_pair_gives_both_directions_with_the_prompt_of_alma(tmp_path):
    samples, facts = translations(settings(tsv(tmp_path, PAIRS[:1])), SEED, NO_TESTS)
    assert samples == [
        ("Translate this from English to Telugu:\nEnglish: One house\nTelugu:", " ఒక ఇల్లు"),
        ("Translate this from Telugu to English:\nTelugu: ఒక ఇల్లు\nEnglish:", " One house"),
    ]
    assert facts["pairs"] == 1


def test_the_best_pairs_are_selected_regardless_of_their_order(tmp_path):
    rows = [(f"Sentence {n}", f"వాక్యం {n}", (7 * n) % 50) for n in range(50)]
    text = tsv(tmp_path, rows, quality_column=3)
    samples, _ = translations(settings(text, pairs=5), SEED, NO_TESTS)
    best = sorted(rows, key=lambda row: -row[2])[:5]
    assert english_of(samples) == [row[0] for row in best]


def test_without_a_quality_the_draw_is_random_and_seeded(tmp_path):
    text = tsv(tmp_path, [(f"Sentence {n}", f"వాక్యం {n}") for n in range(50)])
    drawn = {
        tuple(english_of(translations(settings(text, pairs=5), seed, NO_TESTS)[0]))
        for seed in (SEED, SEED, ("other",))
    }
    assert len(drawn) == 2 and all(len(set(english)) == 5 for english in drawn)


@pytest.mark.bad_input(
    "text",
    "pairs that lack a side or a quality score, are repeated, or contain placeholders",
    "dropped and counted; if none are left, a one-line error message says why",
)
def test_bad_pairs_are_dropped_and_counted(tmp_path):
    rows = [
        ("source", "target", "score"),  # a heading
        ("Good one", "మంచిది", 0.9),
        ("Good one", "మంచిది", 0.9),
        ("", "ఖాళీ", 0.9),
        ("Bad one", "చెడ్డది", 0.2),
        ("No number", "సంఖ్య లేదు"),
        ("Not a number", "సంఖ్య కాదు", "nan"),
        ("Hello {name}", "నమస్తే {name}", 0.9),
    ]
    text = tsv(tmp_path, rows, quality_column=3)
    samples, facts = translations(settings(text, minimum_quality=0.5), SEED, NO_TESTS)
    assert english_of(samples) == ["Good one"]
    assert facts["selection"] == {"without_quality": 3, "below_minimum": 1, "like_tests": 0}
    assert (facts["cleaning"]["blank"], facts["cleaning"]["placeholder"]) == (1, 1)


def test_no_pair_gives_a_test_away_on_either_side(tmp_path):
    rows = [
        ("We saw two dogs today!", "x"),
        ("Two DOGS", "y"),
        ("Cats", "మూడు పిల్లులు."),
        ("A", "z"),
    ]
    tests = Overlap(["Two dogs", "We saw two dogs", "మూడు పిల్లులు"])
    samples, facts = translations(settings(tsv(tmp_path, rows)), SEED, tests)
    assert english_of(samples) == ["A"]
    assert facts["selection"]["like_tests"] == 3


@pytest.mark.bad_input(
    "text",
    "pairs that lack a side or a quality score, are repeated, or contain placeholders",
    "dropped and counted; if none are left, a one-line error message says why",
)
def test_fewer_pairs_than_asked_for_are_taken_and_said_and_none_is_an_error(tmp_path):
    text = tsv(tmp_path, [(*PAIRS[0], 0.9), (*PAIRS[1], 0.1)], quality_column=3)
    samples, facts = translations(settings(text, pairs=2, minimum_quality=0.5), SEED, NO_TESTS)
    assert (len(samples), facts["pairs"]) == (2, 1)  # one pair in both directions
    assert facts["reduced"] == {"pairs": {"wanted": 2, "taken": 1}}
    with pytest.raises(UserError, match=r"pairs: none is of sufficient quality .*below_minimum 2"):
        translations(settings(text, minimum_quality=5), SEED, NO_TESTS)
