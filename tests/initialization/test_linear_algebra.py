import numpy as np
import pytest

from lexigraft.initialization import matrix as matrices
from lexigraft.initialization.matrix import leading_singular_vectors, project


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_the_vectors_span_the_leading_singular_vectors(matrix, rank):
    rows = matrix(40).astype(np.float64)
    axes = leading_singular_vectors(rows, rank)
    _, _, vectors = np.linalg.svd(rows, full_matrices=False)
    expected = vectors[:rank].T @ vectors[:rank]
    np.testing.assert_allclose(axes @ axes.T, expected, atol=1e-12)
    np.testing.assert_allclose(axes.T @ axes, np.eye(rank), atol=1e-12)


def test_projection_by_blocks_of_columns_equals_projection_at_once(matrix, monkeypatch):
    rows, (axes, _) = matrix(5), np.linalg.qr(matrix(8, h=2, seed=1))
    monkeypatch.setattr(matrices, "_BLOCK_VALUES", 15)  # three columns of five
    sums = [(slice(0, 6), rows[:, :6]), (slice(6, 8), rows[:, 6:])]
    blocks = list(project(sums, axes))
    assert [columns.stop for columns, _ in blocks] == [3, 6, 8]
    found = np.concatenate([values for _, values in blocks], axis=1)
    np.testing.assert_allclose(found, rows @ axes @ axes.T, atol=1e-6)
