import numpy as np
import pytest

from lexigraft.initialization.registry import initializer
from lexigraft.initialization.similarity import sparsemax_of_cosines, unit_vectors, vectors_of
from lexigraft.vocabulary.expand import expand_tokenizer


@pytest.fixture
def fit(pair, token_vectors):
    """`fit({"abc": …}, {"abc": …}, **options)`: static vectors, rows of the model, options."""

    def run(words, model, **options):
        roles = {"target": token_vectors(pair[1], words), "plm": token_vectors(pair[1], model)}
        return initializer("salt", **options).fit(*pair, auxiliary=roles)

    return run


# Cosines with abc: 1, 0.8, -1; sparsemax leaves x and y.
WORDS = {"abc": (1, 0), "x": (2, 0), "y": (4, 3), "w": (-1, 0)}


def test_neighbours_get_the_weights_that_reconstruct_the_token_in_the_model(fit, row):
    # (3, 2) = 1 (1, 0) + 2 (1, 1)
    model = {"abc": (3, 2), "x": (1, 0), "y": (1, 1), "w": (7, 5)}
    fitted = fit(WORDS, model)
    assert row(fitted, "abc") == pytest.approx({"x": 1, "y": 2})
    assert fitted.unexplained_ == pytest.approx(0, abs=1e-12)
    assert fitted.statistics()["anchors"] == 3


def test_the_part_outside_the_span_of_neighbours_is_dropped_and_counted(fit, row):
    words = {"abc": (1, 0), "x": (1, 0), "w": (-1, 0)}
    fitted = fit(words, {"abc": (4, 2), "x": (2, 0), "w": (0, 1)})
    assert row(fitted, "abc") == pytest.approx({"x": 2})
    assert fitted.unexplained_ == pytest.approx(4 / 20)


def test_centred_maps_go_through_the_neighbours_mean(fit, row):
    # The mean is (1, 1), the deviations are (1, 0) and (-1, 0); abc deviates by (3, 0).
    model = {"abc": (4, 1), "x": (2, 1), "y": (0, 1), "w": (9, 9)}
    weights = row(fit(WORDS, model, centred=True), "abc")
    assert weights == pytest.approx({"x": 2, "y": -1})
    assert sum(weights.values()) == pytest.approx(1)


def test_ridge_is_relative_to_the_neighbours_lengths(fit, row):
    rows, query = np.array([(2.0, 0.0), (1.0, 1.0)]), np.array([3.0, 2.0])
    penalty = 0.5 * (4 + 2) / 2
    x, y = query @ rows.T @ np.linalg.inv(rows @ rows.T + penalty * np.eye(2))
    model = {"abc": query, "x": rows[0], "y": rows[1], "w": (1, 7)}
    assert row(fit(WORDS, model, ridge=0.5), "abc") == pytest.approx({"x": x, "y": y})


def test_a_token_that_differs_in_white_space_is_copied_and_can_be_a_neighbour(
    byte_level, token_vectors, row
):
    source, target = byte_level([]), byte_level([("Ġ", "a"), ("b", "c")])
    roles = {
        "target": token_vectors(target, {"bc": (1, 0), "Ġa": (1, 0), "x": (-1, 0)}),
        "plm": token_vectors(target, {"bc": (6, 0), "Ġa": (2, 0), "x": (0, 1)}),
    }
    fitted = initializer("salt").fit(source, target, auxiliary=roles)
    assert row(fitted, "Ġa") == {"a": 1.0}
    assert row(fitted, "bc") == pytest.approx({"a": 3})
    assert fitted.statistics()["initialized_tokens"] == 1
    assert fitted.fallbacks_ == []


@pytest.mark.parametrize(
    "source, mode",
    [
        ("smollm2_cut", "expand"),
        ("mistral_cut", "expand"),
        ("smollm2_cut", "replace"),
    ],
)
def test_on_real_tokenizers_rows_equal_the_pseudo_inverse(
    source, mode, request, greek, bert_cut, random_vectors, matrix
):
    source = request.getfixturevalue(source)
    target = expand_tokenizer(source, greek, 40) if mode == "expand" else bert_cut
    words, model = random_vectors(target, 50), random_vectors(target, 24, seed=1)
    fitted = initializer("salt").fit(source, target, auxiliary={"target": words, "plm": model})
    unit, pair, copied = unit_vectors(words), fitted.pair_, fitted.recipe_.copied
    shared, mapped = pair.shared_ids, pair.new_ids[:30]
    supports = sparsemax_of_cosines(vectors_of(unit, mapped), vectors_of(unit, shared))
    for which in ("input", "output"):
        head = matrix(len(source), 12, seed=len(which))
        made = fitted.apply(head, which)
        for token, start, end in zip(
            mapped, supports.indptr[:-1], supports.indptr[1:], strict=True
        ):
            near = shared[supports.indices[start:end]]
            least_squares = np.linalg.pinv(model.vectors[near].astype(float)) @ head[copied[near]]
            np.testing.assert_allclose(
                made[token], model.vectors[token] @ least_squares, rtol=1e-3, atol=1e-4
            )
    assert len(mapped) > 20
    assert fitted.fallbacks_ == []


def test_more_neighbours_than_dimensions_share_the_weight_of_the_smallest_map(fit, row):
    model = {"abc": (6,), "x": (2,), "y": (1,), "w": (1,)}
    # pinv of the column (2, 1) is (2, 1) / 5.
    assert row(fit(WORDS, model), "abc") == pytest.approx({"x": 12 / 5, "y": 6 / 5})


def test_in_one_space_the_row_of_the_token_is_reconstructed(byte_level, random_vectors, matrix):
    source, target = byte_level([]), byte_level([("a", "b"), ("c", "d")])
    words, model = random_vectors(target, 40), random_vectors(target, 6, seed=1)
    rows = model.vectors[: len(source)]
    fitted = initializer("salt", minimum_neighbours=6).fit(
        source, target, auxiliary={"target": words, "plm": model}
    )
    np.testing.assert_allclose(fitted.apply(rows), model.vectors, atol=1e-5)
