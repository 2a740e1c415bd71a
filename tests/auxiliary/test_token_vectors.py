import numpy as np
import pytest

from lexigraft.auxiliary.token_vectors import TokenVectors, load_vectors, save_vectors
from lexigraft.errors import UserError

TOKENS = np.array([1, 4, 9], dtype=np.int64)
VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_saved_vectors_are_read_back_unchanged(tmp_path):
    files = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        files.append((folder / save_vectors(TokenVectors(TOKENS, VECTORS), folder)).read_bytes())
    found = load_vectors(tmp_path / "one")
    assert np.array_equal(found.tokens, TOKENS) and np.array_equal(found.vectors, VECTORS)
    assert files[0] == files[1]


@pytest.mark.fault(
    "damage", "a file of token vectors is truncated", "a one-line error message names the file"
)
def test_a_file_that_is_cut_off_says_so(tmp_path):
    file = tmp_path / save_vectors(TokenVectors(TOKENS, VECTORS), tmp_path)
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(UserError, match="truncated or damaged"):
        load_vectors(tmp_path)


@pytest.mark.parametrize(
    "tokens, vectors",
    [
        (TOKENS.astype(np.int32), VECTORS),
        (TOKENS, VECTORS.astype(np.float64)),
        (TOKENS[::-1], VECTORS),
        (TOKENS[[0, 0, 1]], VECTORS),
        (TOKENS - 5, VECTORS),
        (TOKENS, VECTORS.ravel()),
        (TOKENS, np.full_like(VECTORS, np.inf)),
    ],
)
def test_arrays_of_wrong_types_or_shapes_are_refused(tokens, vectors):
    with pytest.raises(ValueError):
        TokenVectors(tokens, vectors)
