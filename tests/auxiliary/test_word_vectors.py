import gzip

import numpy as np
import pytest

from lexigraft.auxiliary import word_vector_files
from lexigraft.auxiliary.word_vectors import read_word_vectors
from lexigraft.errors import UserError


def rows(found, tokenizer):
    """Vocabulary string -> vector."""
    strings = tokenizer.convert_ids_to_tokens(found.tokens.tolist())
    return dict(zip(strings, found.vectors.tolist(), strict=True))


def test_a_token_has_the_vector_of_its_text_with_or_without_a_space(smollm2_tokenizer, vec):
    file = vec({"the": "1 -2", "τη": "0.5 0.25 ", "unheard-of": "3 3"})
    assert rows(read_word_vectors(smollm2_tokenizer, file), smollm2_tokenizer) == {
        "the": [1, -2], "Ġthe": [1, -2],
    }  # fmt: skip


def test_a_compressed_file_has_the_same_vectors(smollm2_tokenizer, vec, tmp_path):
    file = vec({"the": "1 -2", "of": "2 2"})
    (tmp_path / "words.vec.gz").write_bytes(gzip.compress(file.read_bytes()))
    found = [
        read_word_vectors(smollm2_tokenizer, file),
        read_word_vectors(smollm2_tokenizer, tmp_path / "words.vec.gz"),
    ]
    assert np.array_equal(found[0].vectors, found[1].vectors)


def test_a_model_gives_the_vectors_of_the_words_that_it_lists(
    mistral_tokenizer, word_model, fasttext
):
    model = fasttext.load_model(str(word_model))
    found = rows(read_word_vectors(mistral_tokenizer, word_model), mistral_tokenizer)
    assert {"of", "▁of", "▁and"} <= set(found)
    for token, vector in found.items():
        word = token.strip("▁")
        assert word in model.get_words()
        assert np.array_equal(vector, model.get_word_vector(word))


def test_unlisted_words_are_composed_of_ngrams_only_with_the_option(
    mistral_tokenizer, word_model, fasttext
):
    model = fasttext.load_model(str(word_model))
    listed = rows(read_word_vectors(mistral_tokenizer, word_model), mistral_tokenizer)
    found = read_word_vectors(mistral_tokenizer, word_model, unlisted_words=True)
    every = rows(found, mistral_tokenizer)
    assert len(every) > 10 * len(listed)
    assert np.array_equal(every["▁the"], model.get_word_vector("the"))
    assert "▁the" not in listed


no_model = pytest.mark.bad_input(
    "vectors",
    "a fastText model that is truncated at any length, or has another format",
    "a one-line error message names the file",
)


@no_model
def test_a_model_that_is_cut_off_anywhere_is_refused(letters, word_model, tmp_path):
    whole = word_model.read_bytes()
    cut = tmp_path / "cut.bin"
    for size in (2, 20, 60, 100, 300, 500, 600, 2000, len(whole) - 4):
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.bin: the file is truncated or damaged"):
            read_word_vectors(letters, cut)
    cut.write_bytes(whole + b"more")
    with pytest.raises(UserError, match="truncated or damaged"):
        read_word_vectors(letters, cut)


@no_model
def test_another_binary_file_is_refused(letters, tmp_path):
    (tmp_path / "other.bin").write_bytes(b"word2vec's own format" * 9)
    with pytest.raises(UserError, match=r"other\.bin: not a fastText model"):
        read_word_vectors(letters, tmp_path / "other.bin")


@pytest.mark.bad_input("vectors", "a quantized fastText model", "a one-line error message says so")
def test_a_quantized_model_is_refused(letters, tmp_path, fasttext):
    text = tmp_path / "labelled.txt"
    text.write_text("".join(f"__label__{i % 2} w{i} x{i}\n" for i in range(200)))
    model = fasttext.train_supervised(str(text), dim=4, thread=1, verbose=0)
    model.quantize(str(text), verbose=0, thread=1)
    model.save_model(str(tmp_path / "small.bin"))
    with pytest.raises(UserError, match="quantized"):
        read_word_vectors(letters, tmp_path / "small.bin")


no_text = pytest.mark.bad_input(
    "vectors",
    "word vectors as text with a wrong header, a short line or an invalid number",
    "a one-line error message names the file and the line",
)


@no_text
@pytest.mark.parametrize(
    "words, header, message",
    [
        ({"a": "1 1"}, "a 1 1", "its first line does not give the number of words"),
        ({"a": "1 1", "b": "2 2"}, "3 2", "contains 2 of 3 words"),
        ({"a": "1 1", "b": "2"}, None, "line 3 does not have 2 numbers"),
        ({"a": "1 one"}, None, "line 2 does not have 2 numbers"),
        ({"a": "1 nan"}, None, "vectors that are not finite"),
        ({"x": "1 1"}, None, "lists none of the words that the tokens spell"),
    ],
)
def test_a_bad_text_file_is_refused_in_one_line(letters, vec, words, header, message):
    with pytest.raises(UserError, match=message) as error:
        read_word_vectors(letters, vec(words, header=header))
    assert "words.vec" in str(error.value)


@pytest.mark.bad_input(
    "vectors", "compressed vectors that are truncated", "a one-line error message names the file"
)
def test_a_damaged_compressed_file_is_refused(letters, vec, tmp_path):
    packed = gzip.compress(vec({"a": "1 1", "b": "2 2"}).read_bytes())
    (tmp_path / "words.vec.gz").write_bytes(packed[:-6])
    with pytest.raises(UserError, match="the gzip file is damaged"):
        read_word_vectors(letters, tmp_path / "words.vec.gz")


@no_text
@pytest.mark.parametrize("name, reason", [("words.txt", "is not a .bin"), ("none.vec", "no such")])
def test_a_file_of_no_known_format_or_none_at_all_is_refused(letters, vec, tmp_path, name, reason):
    vec({"a": "1 1"}, name="words.txt")
    with pytest.raises(UserError, match=reason):
        read_word_vectors(letters, tmp_path / name)


def test_a_token_has_the_mean_of_the_words_that_it_occurs_in(letters, vec):
    file = vec({"ab": "1 0", "bbc": "0 3"})
    found = rows(read_word_vectors(letters, file, pooling="uniform"), letters)
    # Each word counts with and without a space before it, and once however often b is in it.
    assert found == {"a": [1, 0], "b": [0.5, 1.5], "c": [0, 3], " ": [0.5, 1.5]}


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
def test_pooling_by_frequency_equals_the_wechsel_package(tokenizer, request, word_model, fasttext):
    import wechsel

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


@pytest.mark.bad_input(
    "vectors", "incompatible options of word vectors", "a one-line error message names the option"
)
@pytest.mark.parametrize(
    "options, message",
    [
        ({"pooling": "frequency"}, "'frequency' needs a .bin file"),
        ({"pooling": "mean"}, "'mean' is not known; choose from frequency, uniform"),
        ({"pooling": "uniform", "notation": "latex"}, "'latex' is not known"),
        ({"pooling": "uniform", "unlisted_words": True}, "unlisted_words: pooling uses only"),
        ({"notation": "colexnet"}, "set pooling"),
    ],
)
def test_options_that_do_not_go_together_are_refused(letters, vec, options, message):
    with pytest.raises(UserError, match=message):
        read_word_vectors(letters, vec({"a": "1 1"}), **options)


def test_the_batch_size_does_not_change_the_means(letters, vec, monkeypatch):
    file = vec({"ab": "1 0", "bbc": "0 3", "ca": "2 2"})
    whole = read_word_vectors(letters, file, pooling="uniform")
    monkeypatch.setattr(word_vector_files, "_WORDS_AT_ONCE", 1)
    single = read_word_vectors(letters, file, pooling="uniform")
    assert np.array_equal(whole.tokens, single.tokens)
    assert np.allclose(whole.vectors, single.vectors)


@pytest.mark.bad_input(
    "vectors", "vectors with values that are not finite", "a one-line error message names the file"
)
def test_vectors_that_are_not_finite_are_refused(letters, vec):
    with pytest.raises(UserError, match=r"words\.vec: contains vectors that are not finite"):
        read_word_vectors(letters, vec({"a": "1 nan"}), pooling="uniform")
