import numpy as np
import pytest

from lexigraft.initialization.registry import initializer


@pytest.mark.parametrize("variance", [0.02, 4.0])
def test_rows_have_the_given_variance_around_zero(many_new, variance):
    matrix = np.full((len(many_new[0]), 8), 100.0)
    fitted = initializer("gaussian", variance=variance).fit(*many_new, seed=1)
    new = fitted.apply(matrix)[fitted.new_ids]
    assert abs(new.mean()) < 5 * np.sqrt(variance / new.size)
    assert new.var() == pytest.approx(variance, rel=0.05)
    assert abs(np.corrcoef(new.T) - np.eye(8)).max() < 0.15


def test_the_paper_s_variance_is_the_default(many_new):
    assert initializer("gaussian").fit(*many_new).explain("abb") == "'abb' ~ N(0, 0.02 I)"
