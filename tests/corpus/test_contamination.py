"""Test texts in training text, compared with plain searches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexigraft.corpus.contamination import CONTAINED, PIECE, Contamination, Overlap, letters
from lexigraft.corpus.language import prepare_corpus
from lexigraft.corpus.local_files import check_files, local_paths
from lexigraft.errors import UserError


def facts(sets, sentences):
    contamination = Contamination(sets)
    for sentence in sentences:
        contamination.add(sentence)
    return contamination.facts()


words = st.sampled_from(["ఇల్లు", "తోట", "Σπίτι", "house", "garden", "AB", "1", "?"])
sentence = st.lists(words, min_size=1, max_size=30).map(" ".join)


@given(st.lists(sentence, max_size=5), st.lists(sentence, max_size=5))
def test_what_is_found_is_what_plain_searches_find(tests, sentences):
    keys, texts = {letters(test) for test in tests}, [letters(text) for text in sentences]

    def holds(text, key):
        return key == text or (len(key) >= CONTAINED and key in text)

    def known(key):
        runs = [key[at : at + PIECE] for at in range(0, len(key) - PIECE + 1, 10)]
        hits = sum(any(run in text for text in texts) for run in runs)
        return bool(runs) and hits >= 0.7 * len(runs)

    assert facts({"test": tests}, sentences)["test"] == {
        "texts": len(keys),
        "found": sum(any(holds(text, key) for text in texts) for key in keys),
        "mostly_found": sum(map(known, keys)),
        "training_sentences": sum(any(holds(text, key) for key in keys) for text in texts),
    }


@given(st.lists(sentence, max_size=5), sentence)
def test_it_contains_sentences_with_a_test_or_a_piece_of_one(tests, text):
    key, own = letters(text), [letters(test) for test in tests]
    runs = [test[at : at + PIECE] for test in own for at in range(0, len(test) - PIECE + 1, 10)]
    expected = any(test == key or (len(test) >= CONTAINED and test in key) for test in own) or any(
        run in key for run in runs
    )
    assert (text in Contamination({"test": tests})) == expected


@pytest.fixture
def settings(tmp_path, telugu, english):
    """A language of real text whose benchmark holds five of its own sentences, in other letters."""
    files = {
        "te.txt": telugu[:200],
        "en.txt": english[:50],
        "benchmark.txt": [f"«{line}» 1" for line in telugu[:5]] + ["ఇది ఎక్కడా లేని వాక్యం, నిజంగా"],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "name": "Telugu", "code": "te", "script": "Telu", "parallel": None,
        "text": {"loader": "text", "paths": [str(tmp_path / "te.txt")]},
        "english": {"loader": "text", "paths": [str(tmp_path / "en.txt")]},
        "train_sentences": None, "heldout_sentences": 5, "english_sentences": 5,
        "translation_pairs": 4, "summarization_pairs": None, "minimum_characters": 1,
        "contamination": {
            "tests": {"bench": {"loader": "text", "paths": [str(tmp_path / "benchmark.txt")]}},
            "drop": False,
        },
    }  # fmt: skip


def prepared(settings, folder):
    _, card = prepare_corpus(settings, folder, ("0", "corpus", "te"))
    train = (folder / "train.txt").read_text(encoding="utf-8").splitlines()
    return card, {letters(line) for line in train}


def test_a_benchmark_is_dropped_on_request(settings, tmp_path, telugu):
    settings["contamination"]["drop"] = True
    card, train = prepared(settings, tmp_path / "out")
    assert not {letters(line) for line in telugu[:5]} & train
    heldout = (tmp_path / "out" / "heldout.txt").read_text(encoding="utf-8").splitlines()
    assert not {letters(line) for line in telugu[:5]} & {letters(line) for line in heldout}
    assert card["contamination"]["bench"]["found"] == 0
    assert card["kept_out_of_training"]["like_other_tests"] >= 5


def test_the_files_of_tests_are_checked_before_any_job(settings, tmp_path):
    assert str(tmp_path / "benchmark.txt") in local_paths(settings)
    (tmp_path / "benchmark.txt").unlink()
    with pytest.raises(UserError, match=r"languages\.te\.contamination\.tests\.bench\.paths"):
        check_files(settings, "languages.te")


words = st.sampled_from(["ఇల్లు", "తోట", "Σπίτι", "σπίτι", "ab", "AB", "a-b", "1", "2", "?", " "])
sentence = st.lists(words, min_size=1, max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Chapter 1", "chapter 27!", True),
        ("a b", "ab", True),
        ("Straße", "STRASSE", True),
        ("క్విజ్\u200cను", "క్విజ్ను", True),
        ("కి", "కు", False),  # vowel signs are marks, and make another word
        ("Öl", "Ol", False),
        ("12", "13", False),
    ],
)
def test_sentences_are_compared_by_their_letters(one, other, same):
    assert (letters(one) == letters(other)) == same


@given(st.lists(sentence, max_size=8), sentence)
def test_the_index_finds_what_a_search_through_all_tests_finds(tests, text):
    keys = {letters(test) for test in tests}
    expected = letters(text) in keys or any(
        key in letters(text) for key in keys if len(key) >= CONTAINED
    )
    assert (text in Overlap(tests)) == expected
