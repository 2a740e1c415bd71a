import numpy as np
import pytest

from lexigraft.initialization.registry import initializer


@pytest.fixture
def fit(pair, token_vectors):
    """Fit on vectors by vocabulary string: `fit(target, source, **options)`."""

    def build(target, source, tokenizers=pair, **options):
        roles = {
            "target": token_vectors(tokenizers[1], target),
            "source": token_vectors(tokenizers[0], source),
        }
        return initializer("tokenadapt", **options).fit(*tokenizers, auxiliary=roles)

    return build


# Cosines with abc: of its pieces ab and c 0.8 and 0.6; of the three nearest 1, 0.96 and 0.8.
TARGET = {"abc": (1, 0)}
SOURCE = {"ab": (4, 3), "c": (3, 4), "x": (5, 0), "y": (24, 7), "z": (-1, 0)}


def softmax(scores, temperature=0.3):
    exponents = np.exp(np.array(scores) / temperature)
    return exponents / exponents.sum()


def mixture(local, neighbours, weight=0.3):
    """Both estimates by token, as one."""
    return {
        token: (1 - weight) * local.get(token, 0) + weight * neighbours.get(token, 0)
        for token in {*local, *neighbours}
    }


def test_weights_are_seven_tenths_the_pieces_and_three_tenths_the_nearest(fit, row):
    # The last version of the published heuristics: half the cosine, half the share of length.
    local = softmax([(0.8 + 2 / 3) / 2, (0.6 + 1 / 3) / 2])
    neighbours = softmax([1, 0.96, 0.8])
    expected = mixture(
        dict(zip(("ab", "c"), local, strict=True)),
        dict(zip(("x", "y", "ab"), neighbours, strict=True)),
    )
    assert row(fit(TARGET, SOURCE), "abc") == pytest.approx(expected, abs=1e-6)


def test_with_a_threshold_weights_are_those_of_the_earlier_version(fit, row):
    # Of pieces the cosine counts from 0.7 * 0.9 on, and 1 / n is the same for all.
    local = softmax([0.8 + 1 / 2 + 2 / 3, 0 + 1 / 2 + 1 / 3])
    neighbours = softmax([1, 0.96])
    expected = mixture(
        dict(zip(("ab", "c"), local, strict=True)), dict(zip(("x", "y"), neighbours, strict=True))
    )
    assert row(fit(TARGET, SOURCE, threshold=0.9), "abc") == pytest.approx(expected, abs=1e-6)


def test_a_token_that_differs_only_in_case_or_space_copies_a_source_token(fit, row, byte_level):
    source = byte_level([("a", "b"), ("A", "b"), ("Ġ", "ab")])
    target = byte_level([("A", "B"), ("Ġ", "AB"), ("a", "c")])
    fitted = fit({"ac": (1, 0)}, {"x": (1, 0)}, (source, target))
    assert row(fitted, "AB") == {"ab": 1.0}
    assert row(fitted, "ĠAB") == {"Ġab": 1.0}
    assert fitted.pair_.new_tokens == ["ac"]


def test_a_token_without_near_neighbours_is_its_pieces(fit, row):
    found = row(fit(TARGET, {**SOURCE, "x": (0, 1), "y": (0, 1)}, threshold=0.9), "abc")
    assert set(found) == {"ab", "c"}
    assert sum(found.values()) == pytest.approx(1)


def test_a_token_whose_pieces_have_no_vectors_is_its_neighbours(fit, row):
    assert row(fit(TARGET, {"x": (1, 0)}), "abc") == {"x": 1.0}


def test_the_weight_moves_from_the_pieces_to_the_neighbours(fit, row):
    assert set(row(fit(TARGET, SOURCE, weight=0), "abc")) == {"ab", "c"}
    assert set(row(fit(TARGET, SOURCE, weight=1), "abc")) == {"x", "y", "ab"}
