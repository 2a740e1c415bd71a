import numpy as np
import pytest

from lexigraft.auxiliary.glove import train_glove
from lexigraft.errors import UserError

SMALL = {"dimensions": 8, "minimum_count": 3, "epochs": 3, "window": 5}


def cosine(vectors, one, other):
    rows = dict(zip(vectors.tokens.tolist(), vectors.vectors, strict=True))
    a, b = rows[one], rows[other]
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_the_same_seed_trains_the_same_bits_with_any_threads_and_another_others(
    mistral_tokenizer, greek
):
    one, same, other = (
        train_glove(mistral_tokenizer, greek, seed=seed, threads=threads, **SMALL)
        for seed, threads in ((1, 1), (1, 3), (2, 1))
    )
    assert one.vectors.tobytes() == same.vectors.tobytes()
    assert np.array_equal(one.tokens, other.tokens)
    assert not np.allclose(one.vectors, other.vectors)


def test_tokens_have_a_vector_if_they_occur_often_enough(smollm2_tokenizer, telugu):
    found = train_glove(smollm2_tokenizer, telugu, **{**SMALL, "minimum_count": 10, "epochs": 1})
    ids = smollm2_tokenizer(telugu, add_special_tokens=False)["input_ids"]
    counts = np.bincount([i for sentence in ids for i in sentence])
    assert found.tokens.tolist() == np.flatnonzero(counts >= 10).tolist()
    assert found.vectors.shape == (len(found.tokens), 8)


def test_tokens_in_the_same_places_come_out_alike(letters):
    texts = ["a\n" * 6, "b\n" * 6, "c " * 6] * 20
    found = train_glove(letters, texts, **{**SMALL, "epochs": 40, "window": 1})
    a, b, c = (letters.get_vocab()[token] for token in "abc")
    assert cosine(found, a, b) > 0.9 > cosine(found, a, c)


def test_special_tokens_in_the_text_get_no_vector(letters):
    found = train_glove(letters, ["<s>ab"] * 20, **SMALL)
    assert [letters.convert_ids_to_tokens(i) for i in found.tokens.tolist()] == ["a", "b"]


def test_a_text_in_which_every_token_is_rare_is_refused(letters):
    with pytest.raises(UserError, match="minimum_count: no two tokens that occur 5 times"):
        train_glove(letters, ["abc"] * 3)


def test_a_text_without_neighbours_is_refused(letters):
    with pytest.raises(UserError, match="give more text"):
        train_glove(letters, ["a", "b"] * 10)


def test_a_learning_rate_that_is_too_large_is_named(letters, mixed_texts):
    with pytest.raises(UserError, match="learning_rate: 1e\\+30 is too large"):
        train_glove(letters, mixed_texts, **SMALL, learning_rate=1e30)


def test_one_string_is_no_corpus(letters):
    with pytest.raises(UserError, match="corpus is one string"):
        train_glove(letters, "abc")
