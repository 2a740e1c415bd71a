"""The descent against the published objective, by definition and by finite differences."""

import numpy as np
import pytest
from scipy.sparse import coo_array

from lexigraft.auxiliary.glove import descend, initial_parameters, stratify


def cooccurrences(matrix) -> coo_array:
    return coo_array(np.triu(matrix))


def random_matrix(size, seed=0):
    draws = np.random.default_rng(seed)
    matrix = np.exp(draws.normal(1, 2, (size, size))) * (draws.random((size, size)) < 0.5)
    return np.maximum(matrix, matrix.T)


def objective(matrix, words, contexts, x_max, alpha):
    """Equation 8 of the GloVe paper, in float64."""
    total = 0.0
    for i, j in np.argwhere(matrix):
        x = matrix[i, j]
        fit = words[i, :-1] @ contexts[j, :-1] + words[i, -1] + contexts[j, -1]
        total += min(1.0, (x / x_max) ** alpha) * (fit - np.log(x)) ** 2
    return total


def run(matrix, *, epochs=1, rate=0.05, dimensions=4, seed=0, threads=1):
    draws = np.random.default_rng(seed)
    parameters = initial_parameters(len(matrix), dimensions, draws)
    start = [array.copy() for array in parameters]
    cells = stratify(cooccurrences(matrix), 10.0, 0.75, draws)
    steps = descend(
        cells, *parameters, epochs=epochs, learning_rate=rate, rng=draws, threads=threads
    )
    return start, parameters, list(steps)


def test_the_cost_is_half_the_published_objective_per_cell():
    matrix = random_matrix(40)
    start, _, costs = run(matrix, rate=1e-12)
    expected = objective(matrix, *(array.astype(float) for array in start), 10, 0.75)
    assert costs[0] == pytest.approx(expected / 2 / np.count_nonzero(matrix), rel=1e-5)


def slope(matrix, start, side, at):
    """Derivative of half the objective by one parameter."""
    values = []
    for step in (-1e-4, 1e-4):
        moved = [array.astype(float) for array in start]
        moved[side][at] += step
        values.append(objective(matrix, *moved, 10, 0.75) / 2)
    return (values[1] - values[0]) / 2e-4


@pytest.mark.parametrize("x", [0.4, 25.0])
def test_the_first_step_follows_the_gradient_and_the_second_is_smaller(x):
    matrix = np.array([[0.0, x], [0.0, 0.0]])
    start = list(np.random.default_rng(1).normal(size=(2, 2, 4)).astype(np.float32))
    cells = stratify(cooccurrences(matrix), 10.0, 0.75, np.random.default_rng(0))
    # The cell above the diagonal alone.
    cells = [tuple(array[columns == 1] for array in (rows, columns, *others))
             for rows, columns, *others in cells]  # fmt: skip
    moved = [array.copy() for array in start]
    squares, rate = [np.ones((2, 4)), np.ones((2, 4))], 0.05
    steps = descend(cells, *moved, epochs=2, learning_rate=rate, rng=np.random.default_rng(0))
    for _ in steps:
        expected = [array.astype(float) for array in start]
        for side, row in ((0, 0), (1, 1)):
            for at in range(4):
                pull = rate * slope(matrix, start, side, (row, at))
                expected[side][row, at] -= pull / np.sqrt(squares[side][row, at])
                squares[side][row, at] += pull**2
        np.testing.assert_allclose(moved, expected, atol=1e-5)
        start = [array.copy() for array in moved]


def test_a_matrix_of_low_rank_is_reconstructed():
    draws = np.random.default_rng(3)
    vectors, bias = draws.normal(0, 0.7, (30, 3)), draws.normal(0, 1, 30)
    matrix = np.exp(vectors @ vectors.T + bias[:, None] + bias)
    _, (words, contexts), costs = run(matrix, epochs=400, dimensions=6, rate=0.1)
    made = words[:, :-1] @ contexts[:, :-1].T
    made += words[:, -1:] + contexts[:, -1]
    assert costs[-1] < 1e-4 * costs[0]
    heavy = matrix > 1  # what weighs little is fitted last
    assert np.abs(made - np.log(matrix))[heavy].max() < 0.1


def test_strata_contain_each_cell_once_with_its_weight():
    matrix = random_matrix(50)
    cells = stratify(cooccurrences(matrix), 10.0, 0.75, np.random.default_rng(0))
    made, weights = np.zeros((50, 50)), np.zeros((50, 50))
    rows, columns, logs, heights = map(np.concatenate, zip(*cells, strict=True))
    made[rows, columns] = np.exp(logs)
    weights[rows, columns] = heights
    np.testing.assert_allclose(made, matrix, rtol=1e-5)
    np.testing.assert_allclose(weights, np.minimum(1, matrix / 10) ** 0.75, rtol=1e-5)
    assert len(rows) == np.count_nonzero(matrix)


def test_strata_processed_together_share_no_token():
    cells = stratify(cooccurrences(random_matrix(90)), 10.0, 0.75, np.random.default_rng(0))
    for shift in range(16):
        strata = [block * 16 + (block + shift) % 16 for block in range(16)]
        for side in (0, 1):
            seen = [set(cells[stratum][side].tolist()) for stratum in strata]
            assert sum(map(len, seen)) == len(set().union(*seen))


def test_the_number_of_threads_does_not_change_the_result():
    matrix = random_matrix(60)
    runs = [run(matrix, epochs=3, threads=threads) for threads in (1, 2, 5)]
    for _, parameters, costs in runs[1:]:
        for array, other in zip(parameters, runs[0][1], strict=True):
            assert np.array_equal(array, other)
        assert costs == runs[0][2]
