import numpy as np
import pytest
import torch

from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import load_initialization, save_initialization


def low_rank(matrix, rank, rows, h=8):
    return matrix(rows, rank) @ matrix(rank, h, seed=3)


@pytest.fixture
def pair(byte_level):
    """New: `abc` and `de`."""
    merges = [("a", "b")]
    return byte_level(merges), byte_level([*merges, ("ab", "c"), ("d", "e")])


@pytest.fixture
def roles(pair, random_vectors):
    return {"target": random_vectors(pair[1], seed=1), "source": random_vectors(pair[0], seed=2)}


@pytest.fixture
def fit(pair, roles):
    return lambda name="ofa", **options: initializer(name, **options).fit(*pair, auxiliary=roles)


def test_with_all_dimensions_it_equals_wechsel(pair, fit):
    assert (fit().weights_ != fit("wechsel").weights_).nnz == 0


def test_random_coordinates_have_the_moments_of_the_source_coordinates(
    many_new, random_vectors, matrix
):
    nothing = {"target": random_vectors(many_new[0], 4), "source": random_vectors(many_new[0], 4)}
    ofa = initializer("ofa", dimensions=3, without_vector="random")
    fitted, source = ofa.fit(*many_new, auxiliary=nothing), matrix(257).astype(np.float64) + 2
    assert len(fitted.fallbacks_) == 1500
    rows = fitted.apply(source)[257:]
    _, _, axes = np.linalg.svd(source, full_matrices=False)
    coordinates, drawn = source @ axes[:3].T, rows @ axes[:3].T
    np.testing.assert_allclose(rows, drawn @ axes[:3], atol=1e-9)
    np.testing.assert_allclose(drawn.mean(axis=0), coordinates.mean(axis=0), atol=0.15)
    np.testing.assert_allclose(drawn.std(axis=0), coordinates.std(axis=0), rtol=0.1)


@pytest.mark.parametrize("dimensions", [1, 3, 7])
def test_new_rows_are_mixed_coordinates_times_primitives(pair, fit, matrix, dimensions):
    fitted = fit(dimensions=dimensions)
    rows = matrix(len(pair[0])).astype(np.float64)
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    coordinates = left[:, :dimensions]
    primitives = values[:dimensions, None] * right[:dimensions]
    expected = fitted.weights_[fitted.new_ids] @ coordinates @ primitives
    found = fitted.apply(rows)
    np.testing.assert_allclose(found[fitted.new_ids], expected, atol=1e-10)
    assert np.array_equal(found[: len(pair[0])], rows)


def test_each_matrix_of_an_untied_model_is_projected_separately(pair, fit, tiny_llama, tmp_path):
    model, fitted = tiny_llama(len(pair[0]), tied=False), fit(dimensions=4)
    matrices = {
        "input": model.model.embed_tokens.weight.detach().clone(),
        "output": model.lm_head.weight.detach().clone(),
    }
    save_initialization(fitted, tmp_path)
    grafted = graft(model, pair[1], load_initialization(tmp_path))
    made = {"input": grafted.model.embed_tokens.weight, "output": grafted.lm_head.weight}
    for which, source in matrices.items():
        _, _, right = torch.linalg.svd(source, full_matrices=False)
        whole = torch.from_numpy(fitted.weights_.toarray()).float() @ source
        expected = whole[fitted.new_ids] @ right[:4].T @ right[:4]
        torch.testing.assert_close(made[which][fitted.new_ids], expected, atol=1e-5, rtol=0)
        assert torch.equal(made[which][: len(pair[0])], source)


def test_projected_rows_are_not_counted_as_in_the_hull(fit):
    assert fit().statistics()["share_in_hull"] == 1.0
    assert fit(dimensions=3).statistics()["share_in_hull"] is None
    assert fit(dimensions=3).statistics()["share_copy"] == 0


@pytest.mark.parametrize("dimensions", [3, 5, 8, 400])
def test_a_matrix_of_no_higher_rank_loses_nothing(pair, fit, matrix, dimensions):
    rows = low_rank(matrix, 3, len(pair[0]))
    found, whole = fit(dimensions=dimensions).apply(rows), fit().apply(rows)
    np.testing.assert_allclose(found, whole, atol=1e-4)
