import numpy as np
import pytest
import torch

from lexigraft.initialization.registry import initializer


@pytest.fixture
def correlated(many_new):
    """Source rows with correlated dimensions of different size."""
    rng = np.random.default_rng(11)
    mixing = rng.normal(size=(5, 5))
    return (rng.normal(size=(len(many_new[0]), 5)) @ mixing + 3).astype(np.float32)


def test_new_rows_have_the_mean_and_covariance_of_the_source_rows(many_new, correlated):
    fitted = initializer("multivariate").fit(*many_new, seed=1)
    new = fitted.apply(correlated)[fitted.new_ids]
    covariance = np.cov(correlated.T)
    error = np.sqrt(np.diag(covariance) / len(new))
    assert (np.abs(new.mean(0) - correlated.mean(0)) < 5 * error).all()
    np.testing.assert_allclose(np.cov(new.T), covariance, atol=0.15 * np.abs(covariance).max())


def test_with_fewer_rows_than_dimensions_new_rows_stay_in_the_space_of_the_rows(many_new):
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(len(many_new[0]), 700))
    fitted = initializer("multivariate").fit(*many_new)
    new = fitted.apply(matrix)[fitted.new_ids[:20]]
    centred = matrix - matrix.mean(0)
    inside = np.linalg.lstsq(centred.T, (new - matrix.mean(0)).T, rcond=None)[0]
    np.testing.assert_allclose(centred.T @ inside, (new - matrix.mean(0)).T, atol=1e-6)


def test_the_covariance_is_scaled(many_new, correlated):
    whole = initializer("multivariate").fit(*many_new)
    small = initializer("multivariate", covariance_scale=1e-4).fit(*many_new)
    mean = correlated.astype(np.float64).mean(0)
    matrix = correlated.astype(np.float64)
    np.testing.assert_allclose(
        small.apply(matrix)[-9:] - mean, (whole.apply(matrix)[-9:] - mean) / 100, atol=1e-12
    )


def test_bfloat16_rows_of_a_large_offset_are_finite(many_new, correlated):
    matrix = torch.from_numpy(correlated * 1e-3 + 100).to(torch.bfloat16)
    assert torch.isfinite(initializer("multivariate").fit(*many_new).apply(matrix)).all()
