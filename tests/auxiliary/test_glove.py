import numpy as np
import pytest

from lexigraft.auxiliary.glove import END_OF_SENTENCE, read_token_ids, train_glove, write_token_ids
from lexigraft.errors import UserError

SMALL = {"dimensions": 8, "minimum_count": 3, "epochs": 3, "window": 5}


def test_only_the_seed_and_not_the_number_of_threads_changes_the_vectors(mistral_cut, greek):
    one, same, other = (
        train_glove(mistral_cut, greek, seed=seed, threads=threads, **SMALL)
        for seed, threads in ((1, 1), (1, 3), (2, 1))
    )
    assert one.vectors.tobytes() == same.vectors.tobytes()
    assert np.array_equal(one.tokens, other.tokens)
    assert not np.allclose(one.vectors, other.vectors)


def test_a_learning_rate_that_is_too_large_is_named(letters, mixed_texts):
    with pytest.raises(UserError, match="learning_rate: 1e\\+30 is too large"):
        train_glove(letters, mixed_texts, **SMALL, learning_rate=1e30)


def test_each_sentence_of_ids_ends_with_a_mark(letters, tmp_path):
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
