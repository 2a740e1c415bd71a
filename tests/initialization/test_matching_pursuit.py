import numpy as np
import pytest

from lexigraft.initialization import matching_pursuit as module
from lexigraft.initialization.matching_pursuit import matching_pursuit


def float32(*rows):
    return np.array(rows, dtype=np.float32)


def drawn(seed, n, dimensions):
    return np.random.default_rng(seed).normal(size=(n, dimensions)).astype(np.float32)


def test_atoms_are_chosen_by_the_residual():
    # (3, 4, 5): first the third axis (5), then the second (4); two atoms leave the first over.
    chosen, weights, missed = matching_pursuit(float32((3, 4, 5)), np.eye(3, dtype=np.float32), 2)
    assert chosen.tolist() == [[2, 1]]
    np.testing.assert_allclose(weights, [[5, 4]], atol=1e-6)
    np.testing.assert_allclose(missed, 3**2 / (3**2 + 4**2 + 5**2), rtol=1e-6)


def test_a_matched_target_gets_no_further_atoms():
    atoms = drawn(0, 20, 8)
    chosen, weights, _ = matching_pursuit(3 * atoms[[7]] / 2, 10 * np.eye(8, dtype=np.float32), 8)
    assert (chosen >= 0).all()
    unit = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    chosen, weights, _ = matching_pursuit(3 * unit[[7]], unit, 5)
    assert chosen.tolist() == [[7, -1, -1, -1, -1]]
    np.testing.assert_allclose(weights, [[3, 0, 0, 0, 0]], atol=1e-5)


def test_the_block_size_does_not_change_the_result(monkeypatch):
    targets, atoms = drawn(0, 9, 12), drawn(1, 30, 12)
    whole = matching_pursuit(targets, atoms, 5)
    monkeypatch.setattr(module, "_SCORE_BLOCK", 60)
    small = matching_pursuit(targets, atoms, 5)
    assert (whole[0] == small[0]).all()
    np.testing.assert_allclose(whole[1], small[1], atol=1e-5)


def test_candidates_are_chosen_for_each_target(monkeypatch):
    targets, atoms = drawn(0, 9, 12), drawn(1, 3000, 12)
    monkeypatch.setattr(module, "_BASIS_BLOCK", 12 * 8 * 2)  # two targets at a time
    chosen, weights, _ = matching_pursuit(targets, atoms, 5, candidates=8)
    for i, target in enumerate(targets):
        own = np.sort(np.argsort(-np.abs(atoms @ target))[:8])
        found, expected, _ = matching_pursuit(target[None], atoms[own], 5)
        assert (own[found[0]] == chosen[i]).all()
        np.testing.assert_allclose(weights[i], expected[0], atol=1e-4)


@pytest.mark.parametrize("k", [1, 8, 64])
def test_with_any_atoms_it_equals_mergekit(k):
    import torch
    from mergekit.tokensurgeon import batch_omp

    # Rows of real matrices share a large mean and differ in length.
    shared = 2 + drawn(3, 1, 96)
    targets, atoms = drawn(0, 20, 96) + shared, drawn(1, 400, 96) + shared
    chosen, weights, _ = matching_pursuit(targets, atoms, k)
    indices, coefficients = batch_omp(
        torch.from_numpy(targets).double(), torch.from_numpy(atoms).double(), k
    )
    assert (chosen == indices.numpy()).mean() > 0.99
    rebuilt = np.einsum("nk,nkd->nd", weights, atoms[chosen])
    expected = np.einsum("nk,nkd->nd", coefficients.numpy(), atoms[indices.numpy()])
    same = (chosen == indices.numpy()).all(axis=1)
    np.testing.assert_allclose(rebuilt[same], expected[same], atol=1e-3)
    np.testing.assert_allclose(weights[same], coefficients.numpy()[same], atol=1e-2)


def test_all_chosen_atoms_are_fitted_again():
    # First (1, 1, 0) with 3.5 / 2; then (1, 0, 0), with which the first gets 3 and it 0.5.
    atoms = float32((1, 1, 0), (0.9, 0, 0), (0, 0, 1))
    chosen, weights, _ = matching_pursuit(float32((3.45, 3, 0)), atoms, 2)
    assert chosen.tolist() == [[0, 1]]
    np.testing.assert_allclose(weights, [[3, 0.5]], atol=1e-5)


def test_with_all_atoms_as_candidates_the_result_is_the_same():
    targets, atoms = drawn(0, 9, 12), drawn(1, 30, 12)
    whole = matching_pursuit(targets, atoms, 5)
    for candidates in (30, 31):
        found = matching_pursuit(targets, atoms, 5, candidates)
        assert (whole[0] == found[0]).all()
        np.testing.assert_array_equal(whole[1], found[1])


def test_with_unit_atoms_it_equals_scikit_learn():
    from sklearn.linear_model import orthogonal_mp

    targets, atoms = drawn(0, 12, 32), drawn(1, 200, 32)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    chosen, weights, _ = matching_pursuit(targets, atoms, 8)
    found = np.zeros((len(targets), len(atoms)))
    np.put_along_axis(found, chosen, weights, axis=1)
    expected = orthogonal_mp(atoms.T.astype(float), targets.T.astype(float), n_nonzero_coefs=8)
    np.testing.assert_allclose(found, expected.T, atol=1e-4)
