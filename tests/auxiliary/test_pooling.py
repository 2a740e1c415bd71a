import fasttext
import numpy as np
import pytest
import wechsel

from lexigraft.auxiliary import word_files
from lexigraft.auxiliary.word_vectors import read_word_vectors
from lexigraft.errors import UserError


def rows(found, tokenizer):
    """Vocabulary string -> vector."""
    strings = tokenizer.convert_ids_to_tokens(found.tokens.tolist())
    return dict(zip(strings, found.vectors.tolist(), strict=True))


def test_a_token_has_the_mean_of_the_words_that_it_occurs_in(letters, vec):
    file = vec({"ab": "1 0", "bbc": "0 3"})
    found = rows(read_word_vectors(letters, file, pooling="uniform"), letters)
    # Each word counts with and without a space before it, and once however often b is in it.
    assert found == {"a": [1, 0], "b": [0.5, 1.5], "c": [0, 3], " ": [0.5, 1.5]}


def test_words_of_a_batch_each_add_up_to_the_same(letters, vec, monkeypatch):
    file = vec({"ab": "1 0", "bbc": "0 3", "ca": "2 2"})
    whole = read_word_vectors(letters, file, pooling="uniform")
    monkeypatch.setattr(word_files, "_WORDS_AT_ONCE", 1)
    single = read_word_vectors(letters, file, pooling="uniform")
    assert np.array_equal(whole.tokens, single.tokens)
    assert np.allclose(whole.vectors, single.vectors)


def test_special_tokens_and_the_end_of_line_give_and_get_nothing(letters, vec):
    file = vec({"<s>a": "1 0", "</s>": "5 5"})
    assert rows(read_word_vectors(letters, file, pooling="uniform"), letters) == {
        "a": [1, 0], " ": [1, 0],
    }  # fmt: skip


def test_words_with_spaces_are_read_from_the_end_of_their_line(letters, vec):
    file = vec({"a b": "1 2", "c": "3 4 "})
    found = rows(read_word_vectors(letters, file, pooling="uniform"), letters)
    assert found["a"] == found["b"] == [1, 2]
    assert found["c"] == [3, 4]


def test_colexnet_writes_the_language_and_the_edges_of_words(byte_letters, vec):
    file = vec({"deu:$ab$": "1 0", "fra:bc": "0 1", "a:b": "9 9"})
    found = read_word_vectors(byte_letters, file, pooling="uniform", notation="colexnet")
    ways = [
        ([" ab ", "  ab ", "Ab "], (1, 0)),
        (["bc", " bc", " Bc"], (0, 1)),
        (["a:b", " a:b", " A:b"], (9, 9)),  # too short for a code before the colon
    ]
    sums, times = {}, {}
    for texts, vector in ways:
        for text in texts:
            for token in set(byte_letters(text)["input_ids"]):
                sums[token] = sums.get(token, 0) + np.array(vector)
                times[token] = times.get(token, 0) + 1
    assert found.tokens.tolist() == sorted(sums)
    expected = np.stack([sums[token] / times[token] for token in sorted(sums)])
    np.testing.assert_allclose(found.vectors, expected, rtol=1e-6)


@pytest.mark.parametrize("tokenizer", ["smollm2_tokenizer", "mistral_tokenizer"])
def test_weighted_by_frequency_they_are_those_of_wechsel(tokenizer, request, word_model):
    tokenizer = request.getfixturevalue(tokenizer)
    expected, _ = wechsel.get_subword_embeddings_in_word_embedding_space(
        tokenizer,
        wechsel.WordEmbedding(fasttext.load_model(str(word_model))),
        use_subword_info=False,
        verbose=False,
    )
    found = read_word_vectors(tokenizer, word_model, pooling="frequency")
    # It takes fastText's end of line for a word.
    end = {i for text in ("</s>", " </s>") for i in tokenizer.encode(text)}
    known = np.array(sorted(set(np.flatnonzero(expected.any(axis=1)).tolist()) - end))
    assert len(known) > 10
    assert set(known.tolist()) <= set(found.tokens.tolist())
    kept = np.isin(found.tokens, known)
    np.testing.assert_allclose(found.vectors[kept], expected[known], atol=1e-6)


def test_the_words_of_a_model_weigh_alike_when_asked(mistral_tokenizer, word_model):
    uniform = rows(
        read_word_vectors(mistral_tokenizer, word_model, pooling="uniform"), mistral_tokenizer
    )
    model = fasttext.load_model(str(word_model))
    assert np.allclose(uniform["▁of"], model.get_word_vector("of"), atol=1e-6)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pooling": "frequency"}, "'frequency' needs a .bin file"),
        ({"pooling": "mean"}, "'mean' is not one of frequency, uniform"),
        ({"pooling": "uniform", "notation": "latex"}, "'latex' is not one of plain, colexnet"),
        ({"pooling": "uniform", "unlisted_words": True}, "unlisted_words: pooling is over"),
        ({"notation": "colexnet"}, "set pooling"),
    ],
)
def test_options_that_do_not_go_together_are_refused(letters, vec, options, message):
    with pytest.raises(UserError, match=message):
        read_word_vectors(letters, vec({"a": "1 1"}), **options)


def test_vectors_that_are_not_finite_are_refused(letters, vec):
    with pytest.raises(UserError, match=r"words\.vec: holds vectors that are not finite"):
        read_word_vectors(letters, vec({"a": "1 nan"}), pooling="uniform")
