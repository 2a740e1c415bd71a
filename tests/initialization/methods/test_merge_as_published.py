import numpy as np
import pytest

from lexigraft.initialization.registry import initializer

LETTERS = ("త", "ె", "ల")


@pytest.fixture(scope="module")
def telugu(byte_fallback):
    """New: three characters that have no rule, what is made of them, and `ab`, `abc`."""
    merges = [("a", "b"), ("ab", "c"), (LETTERS[0], LETTERS[1]), (LETTERS[2], "a")]
    return byte_fallback([]), byte_fallback([], "".join(LETTERS), merges)


@pytest.fixture(scope="module")
def matrices(telugu):
    rng = np.random.default_rng(0)
    rows = rng.normal(3, 2, size=(2, len(telugu[0]), 5))
    return {"input": rows[0], "output": rows[1]}


def test_tokens_with_rules_have_the_input_rows_of_their_parts_in_both_matrices(telugu, matrices):
    fitted = initializer("merge-as-published").fit(*telugu)
    made, ids = fitted.rows(matrices), telugu[1].get_vocab()
    a, b, c = (matrices["input"][ids[letter]] for letter in "abc")
    for which in ("input", "output"):
        rows = made.apply(matrices[which], which)
        np.testing.assert_allclose(rows[ids["ab"]], (a + b) / 2)
        np.testing.assert_allclose(rows[ids["abc"]], a / 4 + b / 4 + c / 2)
        assert np.array_equal(rows[: len(telugu[0])], matrices[which])


def test_tokens_without_rules_are_random_and_have_zeros_in_the_head(telugu, matrices):
    fitted = initializer("merge-as-published").fit(*telugu, seed=1)
    # The rule "త" + "ె" has two new parts, so no token is tokenized as a text.
    assert set(fitted.fallbacks_) == {*LETTERS, LETTERS[0] + LETTERS[1], LETTERS[2] + "a"}
    made, ids = fitted.rows(matrices), telugu[1].get_vocab()
    drawn = made.apply(matrices["input"], "input")[[ids[token] for token in fitted.fallbacks_]]
    again = initializer("merge-as-published").fit(*telugu, seed=2).rows(matrices)
    assert (
        drawn != again.apply(matrices["input"], "input")[[*map(ids.get, fitted.fallbacks_)]]
    ).all()
    assert abs(drawn.mean() - 3) < 1.5 and 0.5 < drawn.std() < 4
    assert not made.apply(matrices["output"], "output")[[*map(ids.get, fitted.fallbacks_)]].any()


def test_the_left_part_of_the_first_rule_that_remains_is_tokenized_as_a_text(
    byte_fallback, matrices
):
    source = byte_fallback([])
    target = byte_fallback([], "త", [("త", "a"), ("తa", "b")])
    fitted = initializer("merge-as-published").fit(source, target)
    # A text begins with "▁", which is a piece too many; what is made of the letter has no recipe.
    ids = source.get_vocab()
    pieces = [ids[token] for token in ("▁", "<0xE0>", "<0xB0>", "<0xA4>")]
    row = fitted.rows(matrices).apply(matrices["input"], "input")[target.get_vocab()["త"]]
    np.testing.assert_allclose(row, matrices["input"][pieces].mean(axis=0))
    assert fitted.fallbacks_ == ["తa", "తab"]


def test_byte_level_tokens_all_have_rules_and_the_recipe_of_merge(byte_level, matrix):
    source, target = byte_level([]), byte_level([("a", "b"), ("c", "ab"), ("ca", "b"), ("c", "a")])
    rows = matrix(len(source))
    published = initializer("merge-as-published").fit(source, target)
    assert published.fallbacks_ == []
    np.testing.assert_allclose(
        published.rows({"input": rows}).apply(rows),
        initializer("merge").fit(source, target).apply(rows),
        atol=1e-6,
    )
