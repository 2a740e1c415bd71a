"""Co-occurrences against hand-worked sentences and against a count that goes pair by pair."""

import numpy as np
import pytest

from lexigraft.auxiliary import glove
from lexigraft.auxiliary.glove import count_cooccurrences

END = -1


def counted(ids, window, number=None):
    """X as a full matrix."""
    ids = np.array(ids, dtype=np.int32)
    counts = np.maximum(np.bincount(ids[ids >= 0]), 1)
    if number is not None:
        counts[np.array(number) < 0] = 0
    found = count_cooccurrences(ids, counts, window)
    matrix = np.zeros(found.shape)
    matrix[found.row, found.col] = found.data
    matrix[found.col, found.row] = found.data
    assert (found.row <= found.col).all()
    assert found.nnz == np.triu(matrix).astype(bool).sum()
    return matrix


def by_definition(ids, window, number):
    """Each token, and each other one of its sentence within the window on either side."""
    matrix = np.zeros((max(number) + 1, max(number) + 1))
    sentences, sentence = [], []
    for i in ids:
        if i == END:
            sentences.append(sentence)
            sentence = []
        elif number[i] >= 0:
            sentence.append(number[i])
    for sentence in sentences:
        for at, one in enumerate(sentence):
            for to, other in enumerate(sentence):
                if at != to and abs(at - to) <= window:
                    matrix[one, other] += 1 / abs(at - to)
    return matrix


def test_a_pair_counts_the_inverse_of_its_distance_on_either_side():
    expected = [[0, 1, 1 / 2], [1, 0, 1], [1 / 2, 1, 0]]
    assert counted([0, 1, 2, END], window=5).tolist() == expected


@pytest.mark.parametrize("window", [1, 4, 15])
@pytest.mark.parametrize("pairs_at_once", [20, 1 << 16])
@pytest.mark.parametrize("frequent", [0, 1, 4, 4096])
def test_random_sentences_equal_the_definition(window, pairs_at_once, frequent, monkeypatch):
    monkeypatch.setattr(glove, "_PAIRS_AT_ONCE", pairs_at_once)
    monkeypatch.setattr(glove, "_FREQUENT", frequent)
    draws = np.random.default_rng(window)
    ids = np.minimum(draws.geometric(0.2, 600), 12) - 1
    ids[draws.random(600) < 0.1] = END
    ids[-1] = END
    number = [0, 1, -1, 2, 3, 4, -1, 5, 6, 7, 8, 9]
    np.testing.assert_allclose(
        counted(ids.tolist(), window, number), by_definition(ids.tolist(), window, number)
    )


def test_tokens_outside_the_window_do_not_count():
    assert counted([0, 1, 2, END], window=1).tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_pairs_do_not_span_sentences():
    expected = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert counted([0, 1, END, 2, 3, END], window=5).tolist() == expected
