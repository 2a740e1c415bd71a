import numpy as np
import pytest

from lexigraft.initialization.registry import initializer


@pytest.fixture
def skewed(many_new):
    """Source rows whose dimensions differ in mean and deviation, with padding rows far off."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(len(many_new[0]) + 9, 6)) * [1, 2, 3, 4, 5, 0.1] + [0, 5, -5, 1, 2, 3]
    rows[len(many_new[0]) :] = 1e5
    return rows.astype(np.float32)


def test_new_rows_have_the_mean_and_deviation_of_the_source_rows(many_new, skewed):
    fitted = initializer("random").fit(*many_new, n_source=len(skewed), seed=3)
    new = fitted.apply(skewed)[fitted.new_ids]
    rows = skewed[: len(many_new[0])]
    error = rows.std(0) / np.sqrt(len(new))
    assert (np.abs(new.mean(0) - rows.mean(0)) < 5 * error).all()
    np.testing.assert_allclose(new.std(0), rows.std(0), rtol=0.1)


def test_dimensions_are_independent(many_new):
    rng = np.random.default_rng(7)
    rows = np.repeat(rng.normal(size=(len(many_new[0]), 1)), 2, axis=1)
    fitted = initializer("random").fit(*many_new)
    new = fitted.apply(rows)[fitted.new_ids]
    assert abs(np.corrcoef(new.T)[0, 1]) < 0.1


def test_input_and_output_rows_are_independent(many_new, skewed):
    fitted = initializer("random").fit(*many_new, n_source=len(skewed))
    assert not (fitted.apply(skewed, "input")[-1] == fitted.apply(skewed, "output")[-1]).any()


def test_the_explanation_names_the_distribution(many_new):
    fitted = initializer("random").fit(*many_new)
    assert fitted.explain("abb") == (
        "'abb' ~ N(mean, std) of the source rows, each dimension by itself"
    )
    assert fitted.explain("a") == "'a' = 1 'a'"
