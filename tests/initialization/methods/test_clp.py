import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.initialization import decomposition
from lexigraft.initialization.registry import initializer


@pytest.fixture
def fit(pair, token_vectors):
    """`fit({"abc": …}, **options)`: rows of the helper, options."""

    def run(rows, **options):
        helper = {"plm": token_vectors(pair[1], rows)}
        return initializer("clp", **options).fit(*pair, auxiliary=helper)

    return run


# Cosines with abc: 1, 0.8, -0.6.
ROWS = {"abc": (1, 0), "x": (5, 0), "y": (4, 3), "z": (-3, 4)}


def test_weights_are_similarities_divided_by_their_sum(fit, row):
    fitted = fit(ROWS)
    assert row(fitted, "abc") == pytest.approx({"x": 1 / 1.2, "y": 0.8 / 1.2, "z": -0.6 / 1.2})
    assert fitted.statistics()["anchors"] == 3


def test_sparse_weights_are_their_sparsemax(fit, row):
    assert row(fit(ROWS, sparse=True), "abc") == pytest.approx({"x": 0.6, "y": 0.4})


def test_similarities_whose_sum_is_not_positive_give_a_fallback(fit, row):
    fitted = fit({"abc": (1, 0), "de": (-1, 0), "x": (-1, 0), "y": (0, 1)})
    assert fitted.fallbacks_ == ["abc"]
    assert row(fitted, "de") == pytest.approx({"x": 1.0})


def test_weights_that_exceed_memory_are_refused(fit, monkeypatch):
    monkeypatch.setattr(decomposition, "_MOST_WEIGHTS", 2)
    with pytest.raises(UserError, match="set its option 'sparse' to true"):
        fit(ROWS)
    fit(ROWS, sparse=True)


def test_a_replaced_vocabulary_uses_source_rows_of_shared_tokens(
    byte_level, byte_fallback, random_vectors, matrix
):
    source = byte_level([("a", "b"), ("Ġ", "c")])
    target = byte_fallback([("a", "b"), ("▁", "c"), ("c", "d"), ("e", "f")])
    helper = random_vectors(target, 5)
    fitted = initializer("clp").fit(source, target, auxiliary={"plm": helper})
    rows, pair = matrix(len(source)), fitted.pair_
    unit = helper.vectors / np.linalg.norm(helper.vectors, axis=1, keepdims=True)
    made = fitted.apply(rows)
    covered = [i for i in pair.new_ids if (unit[pair.shared_ids] @ unit[i]).sum() > 0]
    for token in covered:
        cosines = unit[pair.shared_ids] @ unit[token]
        expected = cosines @ rows[pair.source_of[pair.shared_ids]] / cosines.sum()
        np.testing.assert_allclose(made[token], expected, rtol=1e-3, atol=1e-3)
    assert covered
    assert len(covered) + len(fitted.fallbacks_) == len(pair.new_ids)
