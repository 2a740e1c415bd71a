import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.auxiliary.word_vectors import align_vectors, procrustes_rotation
from lexigraft.errors import UserError

QUARTER = np.array([[0.0, 1.0], [-1.0, 0.0]])  # rows turn by 90 degrees


def test_the_rotation_is_that_of_scipy():
    draws = np.random.default_rng(0)
    rows, onto = draws.normal(size=(30, 7)), draws.normal(size=(30, 7))
    expected, _ = orthogonal_procrustes(rows, onto)
    np.testing.assert_allclose(procrustes_rotation(rows, onto), expected, atol=1e-10)


@pytest.fixture
def both(vec):
    """Vectors of English words, and of words in another language that are turned back by 90°."""
    english = {"dog": "1 0", "Paris": "0 2", "cat": "3 1", "odd": "5 5"}
    turned = {"hund": "0 -1", "paris": "2 0", "katze": "1 -3", "ding": "-7 1"}
    return vec(turned, "other.vec"), vec(english, "english.vec")


def test_aligned_vectors_are_similar_to_those_of_their_translations(both):
    vectors = TokenVectors(np.array([4, 9]), np.array([[0, -1], [2, 6]], np.float32))
    pairs = [("dog", "hund"), ("cat", "katze"), ("nobody", "niemand")]
    found, used = align_vectors(vectors, *both, pairs)
    assert used == 2
    assert found.tokens.tolist() == [4, 9]
    np.testing.assert_allclose(found.vectors, vectors.vectors @ QUARTER, atol=1e-6)
    np.testing.assert_allclose(found.vectors[0], [1, 0], atol=1e-6)


def test_a_dictionary_without_known_words_is_refused(both):
    vectors = TokenVectors(np.array([0]), np.ones((1, 2), np.float32))
    with pytest.raises(UserError, match="contain vectors for none of its pairs"):
        align_vectors(vectors, *both, [("hund", "dog")])


def test_repeated_pairs_and_equal_forms_count_as_often_as_in_the_published_code(vec):
    english = {"dog": "1 0", "cat": "3 1", "Paris": "0 2"}
    other = {"hund": "0.4 -1", "katze": "1 -2", "paris": "2 0.7"}
    files = vec(other, "other.vec"), vec(english, "english.vec")
    vectors = TokenVectors(np.array([0]), np.array([[1, 2]], np.float32))
    pairs = [("dog", "hund"), ("cat", "katze"), ("cat", "katze"), ("Paris", "Paris")]
    # Of dog and hund, the word and its lower case are listed: two forms by two. Of the last pair
    # the English word and its title, and the lower case of the other.
    counts = {("dog", "hund"): 4, ("cat", "katze"): 8, ("Paris", "paris"): 2}
    rows, onto = (
        np.array([file[pair[side]].split() for pair, n in counts.items() for _ in range(n)], float)
        for file, side in ((other, 1), (english, 0))
    )
    rotation, _ = orthogonal_procrustes(rows, onto)
    found, used = align_vectors(vectors, *files, pairs, repeated=True)
    assert used == sum(counts.values())
    np.testing.assert_allclose(found.vectors, [[1, 2]] @ rotation, atol=1e-6)
    once, used = align_vectors(vectors, *files, pairs)
    assert used == 3 and not np.allclose(once.vectors, found.vectors, atol=1e-3)
