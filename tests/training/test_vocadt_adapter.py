"""Adapters against plain matrices: rows, logits, gradients, drift, and what comes out."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from lexigraft.initialization.recipe import assemble_recipe
from lexigraft.training.vocadt_adapter import DenseAdapter, SparseAdapter

SOURCE, TARGET, HIDDEN = 7, 6, 5


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def start():
    """Tokens 0, 1 and 4 are shared; 2 is two pieces, 3 leans on all of 0 to 5 too, 5 is -/+."""
    rows = np.zeros((3, SOURCE + 1))
    rows[0, [1, 6]] = 0.5
    rows[1, [2, SOURCE]] = 0.25, 0.75
    rows[2, [0, 3, 5]] = -0.5, 0.4, 1.1
    source_of = np.array([3, 0, -1, -1, 6, -1])
    return assemble_recipe(csr_array(rows), source_of, np.arange(6))


def dense(recipe):
    return torch.from_numpy(recipe.weights.toarray()).float()


FORMS = pytest.mark.parametrize("form", [DenseAdapter, SparseAdapter])
# Few go by way of the source's logits, many by the matrix multiplied out.
POSITIONS = pytest.mark.parametrize("positions", [(1,), (2, 4)], ids=["few", "many"])


def head(bias=False):
    return torch.nn.Linear(HIDDEN, SOURCE, bias=bias).requires_grad_(False)


@FORMS
def test_rows_and_logits_are_products_with_the_whole_recipe(start, form):
    adapter, weights = form(start, 8), dense(start)
    table = torch.randn(SOURCE, 5)
    ids = torch.tensor([3, 0, 5])
    torch.testing.assert_close(adapter.rows(ids, table), weights[ids] @ table)
    torch.testing.assert_close(adapter.merged(table), weights @ table)


def test_under_autocast_only_the_gradient_of_dense_rows_is_rounded(start):
    adapter, ids = DenseAdapter(start, 8), torch.tensor([3, 0, 3])
    table, upstream = torch.randn(SOURCE, HIDDEN), torch.randn(3, HIDDEN)
    found = []
    for enabled in (False, True):
        adapter.weights.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            rows = adapter.rows(ids, table)
        rows.backward(upstream)
        found.append((rows, adapter.weights.grad))
    (rows, exact), (same, rounded) = found
    assert torch.equal(rows, same)
    torch.testing.assert_close(rounded, exact, rtol=0.01, atol=0.02)
    assert not torch.equal(rounded, exact)


@FORMS
@POSITIONS
@pytest.mark.parametrize("bias", [False, True])
def test_logits_are_those_of_the_source_times_the_recipe(start, form, positions, bias):
    adapter, weights, old = form(start, 8), dense(start), head(bias)
    hidden = torch.randn(*positions, HIDDEN)
    torch.testing.assert_close(adapter.logits(hidden, old), old(hidden) @ weights.T)


@FORMS
@pytest.mark.parametrize(("positions", "calls"), [(1, 1), (8, 0)])
def test_logits_are_computed_with_the_fewest_multiplications(start, form, positions, calls):
    old, called = head(), []
    old.register_forward_hook(lambda *_: called.append(1))
    form(start, 8).logits(torch.randn(positions, HIDDEN), old)
    assert len(called) == calls


def loss_of(logits_of, rows_of, ids, table):
    """A number that depends on the rows of some tokens and on all logits."""
    return (logits_of(rows_of(ids, table)) ** 3).sum()


@pytest.mark.parametrize("ids", [[3], [3, 2, 5, 2, 3, 0, 1, 4]], ids=["few", "many"])
def test_gradients_are_those_of_a_plain_matrix(start, ids):
    ids, table, old = torch.tensor(ids), torch.randn(SOURCE, HIDDEN), head()
    plain = dense(start).requires_grad_()
    loss_of(lambda x: old(x) @ plain.T, lambda i, t: plain[i] @ t, ids, table).backward()
    adapters = {"dense": DenseAdapter(start, 8), "sparse": SparseAdapter(start, 8)}
    for adapter in adapters.values():
        loss_of(lambda x, of=adapter: of.logits(x, old), adapter.rows, ids, table).backward()
    torch.testing.assert_close(adapters["dense"].weights.grad, plain.grad)
    sparse = adapters["sparse"]
    # One weight on the mean of tokens 0 to 5, in the last column, moves each of these by a sixth.
    of_bundles = torch.cat([plain.grad, plain.grad[:, :6].mean(1, keepdim=True)], dim=1)
    stored = start.left.tocoo()
    torch.testing.assert_close(sparse.values.grad, of_bundles[stored.row, stored.col])


@FORMS
def test_drift_is_the_mean_distance_of_shared_rows(start, form):
    adapter, weights = form(start, 8), dense(start)
    first = adapter.drift()
    first.backward()
    assert first == 0 and all(not p.grad.any() for p in adapter.parameters() if p.grad is not None)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.add_(torch.randn_like(parameter))
            parameter.grad = None
    now = torch.from_numpy(adapter.recipe().weights.toarray()).float().requires_grad_()
    shared = [0, 1, 4]
    expected = torch.linalg.vector_norm(now[shared] - weights[shared], dim=1).mean()
    expected.backward()
    drift = adapter.drift()
    drift.backward()
    torch.testing.assert_close(drift, expected)
    if form is DenseAdapter:
        torch.testing.assert_close(adapter.weights.grad, now.grad)
    else:
        stored = start.left.tocoo()
        of_source = torch.from_numpy(stored.col) < SOURCE
        expected = now.grad[stored.row[of_source], stored.col[of_source]]
        torch.testing.assert_close(adapter.values.grad[of_source], expected)


@FORMS
def test_the_recipe_of_an_untrained_adapter_is_its_start(start, form):
    recipe = form(start, 8).recipe()
    np.testing.assert_allclose(recipe.weights.toarray(), start.weights.toarray(), atol=1e-7)
    assert len(recipe.new_ids) == 0


def test_a_dense_adapter_stores_its_largest_weights(start):
    recipe = DenseAdapter(start, 2).recipe()
    assert np.diff(recipe.left.indptr).max() == 2
    assert recipe.rows(np.array([5])).toarray()[0].tolist() == pytest.approx(
        [-0.5, 0, 0, 0, 0, 1.1, 0]
    )


def test_a_sparse_adapter_trains_only_the_largest_weights(start):
    adapter = SparseAdapter(start, 1)
    assert sum(p.numel() for p in adapter.parameters()) == TARGET
    rows = adapter.recipe().weights.toarray()
    assert rows[2, 1] == 1  # of equals the first, which takes over the sum
    assert rows[3, :6].tolist() == pytest.approx([1 / 6] * 6)  # the mean of all is one weight
    assert rows[5].tolist() == pytest.approx([0, 0, 0, 0, 0, 1.1, 0])  # a signed row is cut only


def test_under_autocast_rows_and_logits_of_source_logits_stay_float32(start):
    table, hidden, old = torch.randn(SOURCE, 5), torch.randn(2, HIDDEN), head()
    expected = dense(start) @ table
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for form in (DenseAdapter, SparseAdapter):
            rows = form(start, 8).rows(torch.arange(TARGET), table)
            torch.testing.assert_close(rows, expected)
        logits = SparseAdapter(start, 8).logits(hidden, old)
        source = old(hidden)
    torch.testing.assert_close(logits, source.float() @ dense(start).T)
