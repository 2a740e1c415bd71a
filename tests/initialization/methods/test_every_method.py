"""What all methods have in common: missing inputs, tokens without vectors, and random draws."""

import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.initialization.registry import declaration, initializer
from lexigraft.initialization.storage import load_initialization, save_initialization

ANCHOR_METHODS = ("focus", "clp", "omp")
MIXING_METHODS = (*ANCHOR_METHODS, "wechsel", "ofa", "unifyvocab")
VECTORS = {"abc": (3, 2), "de": (1, 0), "x": (1, 0), "y": (1, 1), "d": (0, 1), "e": (1, 2)}


@pytest.fixture
def auxiliary(pair, token_vectors):
    """Vectors in all roles that a method needs: `auxiliary(method, without="abc")`."""

    def build(method, vectors, source_vectors=None):
        source_vectors = source_vectors or {
            token: vector for token, vector in vectors.items() if token not in ("abc", "de")
        }
        return {
            role: token_vectors(pair[0], source_vectors)
            if role == "source"
            else token_vectors(pair[1], vectors)
            for role in declaration(method).needs
        }

    return build


@pytest.mark.parametrize("vector", [None, (0, 0)], ids=["missing", "zero"])
@pytest.mark.parametrize("method", [*MIXING_METHODS, "salt", "tokenadapt"])
def test_a_token_without_a_vector_falls_back_to_the_mean_of_its_pieces(
    pair, auxiliary, row, method, vector
):
    vectors = {token: value for token, value in VECTORS.items() if token != "abc"}
    vectors |= {} if vector is None else {"abc": vector}
    fitted = initializer(method).fit(*pair, auxiliary=auxiliary(method, vectors))
    assert fitted.fallbacks_ == ["abc"]
    assert row(fitted, "abc") == {"ab": 0.5, "c": 0.5}
    assert set(row(fitted, "de")) <= {"x", "y", "d", "e"}
    assert fitted.statistics()["share_fallback"] == 0.5


@pytest.mark.parametrize("method", [*MIXING_METHODS[:-1], "salt", "tokenadapt"])
def test_a_token_without_a_vector_may_be_drawn_like_source_rows(
    pair, auxiliary, matrix, tmp_path, method
):
    vectors = {token: value for token, value in VECTORS.items() if token != "abc"}
    source_rows = matrix(len(pair[0]), 4000) + 3
    drawn, others = [], []
    for seed in (1, 1, 2):
        fitted = initializer(method, without_vector="random").fit(
            *pair, auxiliary=auxiliary(method, vectors), seed=seed
        )
        save_initialization(fitted, tmp_path)
        stored = load_initialization(tmp_path)
        made = {which: stored.apply(source_rows, which)[-2:] for which in ("input", "output")}
        assert np.array_equal(made["input"], fitted.apply(source_rows)[-2:])
        drawn.append((made["input"][0], made["output"][0]))
        others.append(made["input"][1])
    assert fitted.fallbacks_ == ["abc"] and fitted.statistics()["share_in_hull"] is None
    assert fitted.explain("abc") == "'abc' = the mean of 258 source tokens + noise"
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.array_equal(others[0], others[2])
    draws = [drawn[0][0], drawn[0][1], drawn[2][0]]
    noise = (np.array(draws) - source_rows.mean(axis=0)) / source_rows.std(axis=0)
    np.testing.assert_allclose(np.corrcoef(noise), np.eye(3), atol=0.1)
    np.testing.assert_allclose(noise.std(axis=1), 1, atol=0.05)
    # If every token has a vector, nothing is drawn.
    fitted = initializer(method, without_vector="random").fit(
        *pair, auxiliary=auxiliary(method, VECTORS)
    )
    save_initialization(fitted, tmp_path)
    assert load_initialization(tmp_path).recipe("input").drawn_ids is None


@pytest.mark.parametrize("method", MIXING_METHODS)
def test_special_tokens_and_zero_vectors_are_not_mixed(pair, auxiliary, row, method):
    vectors = {"abc": (1, 0), "de": (1, 0), "<s>": (1, 0), "x": (1, 0), "y": (0, 0)}
    fitted = initializer(method).fit(*pair, auxiliary=auxiliary(method, vectors))
    assert row(fitted, "abc") == pytest.approx({"x": 1.0})


@pytest.mark.parametrize("method", [*MIXING_METHODS, "salt", "tokenadapt"])
def test_a_missing_role_is_named(pair, auxiliary, method):
    complete = auxiliary(method, VECTORS)
    for role in complete:
        given = {name: vectors for name, vectors in complete.items() if name != role}
        with pytest.raises(UserError, match=f"'{method}'.* as auxiliary '{role}'; specify one"):
            initializer(method).fit(*pair, auxiliary=given)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("align", "needs a corpus"),
        ("cw2v", "needs the source's matrices"),
        ("distill", "needs the source model"),
        ("transtokenizers", "needs pairs of English sentences and their translations"),
        ("dictionary-alignment", "needs pairs of English words and their translations"),
    ],
)
def test_a_missing_text_or_model_is_named(pair, method, message):
    with pytest.raises(UserError, match=f"'{method}': it {message}"):
        initializer(method).fit(*pair)


@pytest.mark.parametrize("method", ["clp", "focus", "omp", "salt"])
def test_without_a_shared_token_that_has_a_vector_there_is_an_error(pair, auxiliary, method):
    with pytest.raises(UserError, match=f"'{method}': no shared token has"):
        initializer(method).fit(*pair, auxiliary=auxiliary(method, {"abc": (1, 0)}, VECTORS))


@pytest.mark.parametrize(
    "method", ["gaussian", "heuristics", "multivariate", "permutation", "random"]
)
def test_the_seed_determines_random_rows(pair, matrix, method):
    source_rows = matrix(len(pair[0]))
    first, repeated, other = (
        initializer(method).fit(*pair, seed=seed).apply(source_rows)[-2:] for seed in (1, 1, 2)
    )
    assert first.tobytes() == repeated.tobytes()
    assert not np.array_equal(first, other)
