import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from lexigraft.initialization import skip_gram
from lexigraft.initialization.skip_gram import ConvexRows, truncate_weights


@pytest.fixture
def made():
    """Five rows over nine source rows, past their start."""
    rng = np.random.default_rng(0)
    offsets = csr_array(np.where(rng.random((5, 9)) < 0.3, rng.normal(size=(5, 9)), 0))
    matrix = torch.from_numpy(rng.normal(size=(9, 4)).astype(np.float32))
    rows = ConvexRows(matrix, offsets, 3, np.random.default_rng(1))
    with torch.no_grad():
        rows.right += torch.from_numpy(rng.normal(size=(3, 9)).astype(np.float32))
    return rows


def softmax(logits):
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


def test_rows_are_softmax_of_the_logits_times_the_matrix(made):
    logits = (made.left @ made.right).detach().numpy() + made.offsets.toarray()
    numbers = np.array([3, 0, 3])
    expected = softmax(logits)[numbers] @ made.matrix.numpy()
    np.testing.assert_allclose(made.rows(numbers).detach(), expected, atol=1e-6)
    ((block, weights),) = made.weights(numbers)
    assert block.tolist() == [3, 0, 3]
    np.testing.assert_allclose(weights, softmax(logits)[numbers], atol=1e-6)


def test_the_block_size_changes_neither_rows_nor_gradients(made, monkeypatch):
    numbers = np.array([4, 1, 0, 2])
    found = []
    for at_once in (1 << 20, 9, 20):
        monkeypatch.setattr(skip_gram, "_LOGITS_AT_ONCE", at_once)
        rows = made.rows(numbers)
        gradients = torch.autograd.grad(rows.square().sum(), (made.left, made.right))
        blocks = list(made.weights(numbers))
        found.append([rows.detach(), *gradients, np.concatenate([part for _, part in blocks])])
    assert len(blocks) == 2
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 5))
def test_truncated_weights_are_non_negative_and_sum_to_one(seed, keep, n):
    weights = np.random.default_rng(seed).dirichlet(np.full(8, 0.3), size=n)
    columns, values, on_all, moved = truncate_weights(weights, keep)
    restored = np.repeat(on_all[:, None] / 8, 8, axis=1)
    np.put_along_axis(restored, columns, values + on_all[:, None] / 8, axis=1)
    assert (values >= 0).all()
    assert (on_all >= 0).all()
    np.testing.assert_allclose(restored.sum(axis=1), 1)
    np.testing.assert_allclose(moved, np.abs(restored - weights).sum(axis=1).mean() / 2, atol=1e-12)
    order = np.sort(weights, axis=1)[:, ::-1][:, :keep]
    kept = np.sort(np.take_along_axis(restored, columns, axis=1), axis=1)[:, ::-1]
    np.testing.assert_allclose(kept, order, atol=1e-12)


def test_initial_weights_are_the_softmax_of_the_offsets():
    offsets = csr_array(np.log(np.array([[1.0, 3.0, 1.0], [1.0, 1.0, 1.0]])))
    rows = ConvexRows(torch.eye(3), offsets, 2, np.random.default_rng(0))
    np.testing.assert_allclose(
        rows.rows(np.arange(2)).detach(), [[0.2, 0.6, 0.2], [1 / 3, 1 / 3, 1 / 3]], atol=1e-7
    )


def test_equal_weights_become_the_mean_of_all():
    _, values, on_all, moved = truncate_weights(np.full((2, 10), 0.1), 3)
    assert np.abs(values).max() < 1e-12
    np.testing.assert_allclose(on_all, 1)
    assert moved < 1e-12
