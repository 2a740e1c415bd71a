"""What fastText and GloVe have in common."""

import numpy as np
import pytest

from lexigraft.auxiliary.registry import auxiliary_kind
from lexigraft.errors import UserError

OPTIONS = {
    "fasttext": {"dimensions": 12, "minimum_count": 3},
    "glove": {"dimensions": 12, "minimum_count": 3, "epochs": 3, "window": 5},
}
# Options with which tokens in the same contexts get similar vectors, and a text of such tokens.
SIMILAR = {"fasttext": {"epochs": 20, "subsampling": 1.0}, "glove": {"epochs": 40, "window": 1}}


@pytest.fixture(params=OPTIONS)
def kind(request):
    if request.param == "fasttext":
        request.getfixturevalue("fasttext")
    return request.param


@pytest.fixture
def train(kind):
    def run(tokenizer, corpus, seed=0, **options):
        return auxiliary_kind(kind).function()(
            tokenizer, corpus, seed=seed, **OPTIONS[kind] | options
        )

    return run


def test_the_seed_determines_the_vectors(train, letters, mixed_texts):
    first, repeated, other = (train(letters, mixed_texts, seed=seed) for seed in (1, 1, 2))
    assert first.vectors.tobytes() == repeated.vectors.tobytes()
    assert np.array_equal(first.tokens, other.tokens)
    assert not np.allclose(first.vectors, other.vectors)


def test_tokens_have_a_vector_if_they_occur_often_enough(train, smollm2_tokenizer, telugu):
    trained = train(smollm2_tokenizer, telugu, minimum_count=10, epochs=1)
    ids = smollm2_tokenizer(telugu, add_special_tokens=False)["input_ids"]
    counts = np.bincount([i for sentence in ids for i in sentence])
    assert trained.tokens.tolist() == np.flatnonzero(counts >= 10).tolist()
    assert trained.vectors.shape == (len(trained.tokens), 12)


def test_tokens_in_the_same_contexts_get_similar_vectors(kind, train, letters, mixed_texts):
    neighbours = ["a\n" * 6, "b\n" * 6, "c " * 6] * 20
    texts = mixed_texts if kind == "fasttext" else neighbours
    trained = train(letters, texts, **SIMILAR[kind])
    rows = dict(zip(trained.tokens.tolist(), trained.vectors, strict=True))
    a, b, c = (rows[letters.get_vocab()[token]] for token in "abc")
    cosines = [a @ row / np.linalg.norm(a) / np.linalg.norm(row) for row in (b, c)]
    assert cosines[0] > 0.9 > cosines[1]


def test_a_text_without_frequent_tokens_is_refused(train, letters):
    with pytest.raises(UserError, match=r"^minimum_count: .*; give more text"):
        train(letters, ["abc"] * 3, minimum_count=10)
