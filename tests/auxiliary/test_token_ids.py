import numpy as np

from lexigraft.auxiliary.token_ids import END_OF_SENTENCE, read_ids, write_ids


def test_sentences_follow_each_other_each_with_its_end(letters, tmp_path):
    counts = write_ids(letters, ["a b", "a\nb"], tmp_path / "ids")
    assert read_ids(tmp_path / "ids").tolist() == [
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
    counts = write_ids(letters, ["<s>ab<s>", ""], tmp_path / "ids")
    assert read_ids(tmp_path / "ids").tolist() == [1, 2, END_OF_SENTENCE, END_OF_SENTENCE]
    assert counts.sum() == 2


def test_real_text_of_many_batches_is_what_the_tokenizer_makes_of_it(
    smollm2_tokenizer, greek, tmp_path
):
    texts = greek * 4
    write_ids(smollm2_tokenizer, iter(texts), tmp_path / "ids")
    encoded = smollm2_tokenizer(texts, add_special_tokens=False)["input_ids"]
    expected = np.concatenate([[*sentence, END_OF_SENTENCE] for sentence in encoded])
    assert len(texts) > 1000
    assert np.array_equal(read_ids(tmp_path / "ids"), expected)


def test_an_empty_corpus_has_no_ids(letters, tmp_path):
    assert write_ids(letters, [], tmp_path / "ids").sum() == 0
    assert len(read_ids(tmp_path / "ids")) == 0
