import numpy as np
import pytest

from lexigraft.auxiliary.fasttext import numbered_words, spelled_words, write_sentences
from lexigraft.auxiliary.glove import END_OF_SENTENCE, read_token_ids, write_token_ids
from lexigraft.vocabulary.token_bytes import special_ids
from tests.auxiliary.conftest import TOKENS

SPLITS = set(" \n\r\t\v\f\0")


@pytest.fixture(params=["letters", "smollm2_tokenizer", "mistral_tokenizer"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("spell", [numbered_words, spelled_words])
def test_every_token_but_the_special_ones_is_a_word_of_its_own(tokenizer, spell):
    words = spell(tokenizer)
    special = special_ids(tokenizer)
    ids = sorted(set(tokenizer.get_vocab().values()) - special)
    spelled = [words[number] for number in ids]
    assert len(set(spelled)) == len(spelled)
    assert not any(set(word) & SPLITS or word in ("", "</s>") for word in spelled)
    assert {words[number] for number in special} == {""}


def test_words_are_spelled_as_in_the_vocabulary_where_that_does_not_break(letters):
    words = dict(zip(TOKENS, spelled_words(letters), strict=True))
    assert words["Ġa"] == "Ġa"
    assert words["\u00a0"] == "\u00a0"  # fastText does not split at it
    assert words[" "] == "␠"
    assert words["\n"] == "␊␊␊"  # the picture of a line feed, alone and twice, are tokens
    assert words["</s>"] == "</s>>"


def test_a_sentence_is_a_line_of_its_tokens_in_order(letters, tmp_path):
    file = tmp_path / "text"
    counts, lines = write_sentences(letters, ["a b", "a\nb"], numbered_words(letters), file)
    assert file.read_text().splitlines() == ["t1 t5 t2", "t1 t6 t2"]
    assert lines == 2
    assert counts.tolist() == [0, 2, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0]


def test_special_tokens_in_the_text_and_empty_sentences_are_left_out(letters, tmp_path):
    file = tmp_path / "text"
    counts, lines = write_sentences(letters, ["<s>ab", "", "<s>"], numbered_words(letters), file)
    assert (file.read_text(), lines) == ("t1 t2\n", 1)
    assert counts[0] == 0


def test_a_long_corpus_is_read_a_part_at_a_time(letters, tmp_path):
    read = []

    def corpus():
        for number in range(2500):
            read.append(number)
            yield "ab"
            if number == 2200:
                # Two parts are written by now, up to what the file keeps back.
                assert (tmp_path / "text").stat().st_size > 0

    words = numbered_words(letters)
    counts, lines = write_sentences(letters, corpus(), words, tmp_path / "text")
    assert len(read) == lines == len((tmp_path / "text").read_text().splitlines()) == 2500
    assert np.array_equal(np.flatnonzero(counts == 2500), [1, 2])


@pytest.mark.parametrize(
    "text, kept",
    [
        ("one two three four five", True),
        ("one two three four", False),
        ("రెండు పదాలు", False),
        ("短い文です", True),  # five characters
        ("短い文だ", False),
        ("ขอบคุณ", True),
    ],
)
def test_sentences_of_few_words_are_left_out_when_asked(mistral_tokenizer, tmp_path, text, kept):
    words = numbered_words(mistral_tokenizer)
    _, lines = write_sentences(mistral_tokenizer, [text], words, tmp_path / "text", 5)
    assert lines == kept


def test_sentences_follow_each_other_each_with_its_end(letters, tmp_path):
    counts = write_token_ids(letters, ["a b", "a\nb"], tmp_path / "ids")
    assert read_token_ids(tmp_path / "ids").tolist() == [
        1,
        5,
        2,
        END_OF_SENTENCE,
        1,
        6,
        2,
        END_OF_SENTENCE,
    ]
    assert counts.tolist() == [0, 2, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0]


def test_special_tokens_are_left_out_and_not_counted(letters, tmp_path):
    counts = write_token_ids(letters, ["<s>ab<s>", ""], tmp_path / "ids")
    assert read_token_ids(tmp_path / "ids").tolist() == [1, 2, END_OF_SENTENCE, END_OF_SENTENCE]
    assert counts.sum() == 2


def test_real_text_of_many_batches_is_what_the_tokenizer_makes_of_it(
    smollm2_tokenizer, greek, tmp_path
):
    texts = greek * 4
    write_token_ids(smollm2_tokenizer, iter(texts), tmp_path / "ids")
    encoded = smollm2_tokenizer(texts, add_special_tokens=False)["input_ids"]
    expected = np.concatenate([[*sentence, END_OF_SENTENCE] for sentence in encoded])
    assert len(texts) > 1000
    assert np.array_equal(read_token_ids(tmp_path / "ids"), expected)


def test_an_empty_corpus_has_no_ids(letters, tmp_path):
    assert write_token_ids(letters, [], tmp_path / "ids").sum() == 0
    assert len(read_token_ids(tmp_path / "ids")) == 0
