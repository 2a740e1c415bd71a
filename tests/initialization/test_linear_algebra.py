import numpy as np
import pytest
from scipy.optimize import linprog

from lexigraft.initialization import matrix as matrices
from lexigraft.initialization.explanation import row_geometry
from lexigraft.initialization.matrix import in_hull, leading_singular_vectors, project
from lexigraft.initialization.registry import initializer


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


@pytest.mark.parametrize("is_flat", [False, True])
def test_points_in_the_hull_are_those_of_a_linear_program(matrix, is_flat):
    rows = matrix(60, h=6) + 1
    if is_flat:  # all rows in a plane: points beside it are outside
        rows[:, 4:] = rows[:, :2]
    points = rows.mean(axis=0) + matrix(40, h=6, seed=1) * np.linspace(0.01, 3, 40)[:, None]
    if is_flat:
        points[:30, 4:] = points[:30, :2]
    padded = np.concatenate([rows, np.full((5, 6), np.nan, np.float32)])
    found = in_hull(padded, np.arange(60), points)
    constraints = np.concatenate([rows.T, np.ones((1, 60))])
    expected = [
        linprog(np.zeros(60), A_eq=constraints, b_eq=[*point, 1]).status == 0 for point in points
    ]
    decided = ~np.isnan(found)
    assert np.array_equal(found[decided], np.array(expected)[decided])
    assert (found == 1).sum() > 2 and (found == 0).sum() > 10


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [("multivariate", {"covariance_scale": 1e-5}, 1), ("multivariate", {}, 0), ("random", {}, 0)],
)
def test_scaled_draws_are_in_the_hull_and_unscaled_ones_are_not(
    many_new, matrix, method, options, expected
):
    rows = matrix(257, 64)
    fitted = initializer(method, **options).fit(*many_new)
    geometry = row_geometry(fitted.rows({"input": rows}), rows, np.arange(257))
    assert geometry["share_in_hull"] == expected
