from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from lexigraft.errors import UserError
from lexigraft.initialization.explanation import describe, parts_of, readable, token_id_of
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.recipe import Recipe
from lexigraft.initialization.registry import initializer


def test_invalid_bytes_are_shown_in_hexadecimal():
    assert readable("త".encode()[:2]) == r"\xe0\xb0"
    assert readable("త".encode() + b"\xff") == r"త\xff"


def test_control_characters_are_escaped_and_joiners_kept():
    assert readable("a\n\u200d".encode()) == "a\\n\u200d"


def test_a_token_is_explained_by_its_text_or_its_vocabulary_string(byte_level, spelled):
    first, second, third = spelled("త")
    source = byte_level([(first, second)])
    fitted = initializer("mean").fit(source, byte_level([(first, second), (first + second, third)]))
    expected = r"'త' = 0.5 '\xa4' + 0.5 '\xe0\xb0'"
    assert fitted.explain("త") == expected
    assert fitted.explain(first + second + third) == expected


def test_a_token_is_found_without_its_leading_space(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level([("Ġ", "a")]))
    assert fitted.explain(" a") == "' a' = 0.5 'a' + 0.5 ' '"
    target = byte_level([("b", "c"), ("Ġ", "bc")])
    fitted = initializer("mean").fit(byte_level([("b", "c")]), target)
    assert fitted.explain("bc") == "'bc' = 1 'bc'"


def test_the_largest_weights_are_shown_first(byte_level):
    fitted = initializer("merge").fit(byte_level([]), byte_level([("a", "b"), ("ab", "z")]))
    assert fitted.explain("abz").startswith("'abz' = 0.5 'z' + 0.25")


def test_only_the_twelve_largest_weights_are_shown():
    text = describe("x", [("a", 0.24)] + [("b", 0.04)] * 19)
    assert text.count("0.04") == 11
    assert text.endswith("+ … (8 more)")


def test_an_unknown_token_is_an_error(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level([("a", "b")]))
    with pytest.raises(UserError, match=r"'qq'.*not in the target vocabulary"):
        fitted.explain("qq")


def test_before_fit_there_is_nothing_to_explain():
    with pytest.raises(UserError, match="call fit first"):
        initializer("mean").explain("a")


def test_of_two_tokens_with_one_text_the_new_one_is_explained(byte_fallback):
    # Both "▁" and the byte <0x20> stand for a space.
    pair = pair_vocabularies(byte_fallback([]), byte_fallback([("a", "b")]))
    ids = pair.target_tokenizer.get_vocab()
    for new in ("▁", "<0x20>"):
        source_of = pair.source_of.copy()
        source_of[ids[new]] = -1
        assert token_id_of(replace(pair, source_of=source_of), " ") == ids[new]


def test_a_negative_weight_is_subtracted():
    assert describe("x", [("a", 1.5), ("b", -0.5)]) == "'x' = 1.5 'a' - 0.5 'b'"
    assert describe("x", [("b", -2.0), ("a", 1.5)]) == "'x' = - 2 'b' + 1.5 'a'"


def test_parts_are_sorted_by_magnitude():
    weights = csr_array(np.array([[0.4, -1.2, 1.8, 0.0]]))
    recipe = Recipe(weights, None, np.array([0]))
    assert parts_of(recipe, 0, [b"a", b"b", b"c"]) == [("c", 1.8), ("b", -1.2), ("a", 0.4)]


@pytest.mark.parametrize("method", ["mean", "mean-of-all", "random", "multivariate"])
def test_every_token_of_a_replaced_vocabulary_is_explained(byte_level, method):
    target = byte_level([("c", "d"), ("a", "b"), ("ab", "cd")])
    fitted = initializer(method).fit(byte_level([("a", "b")]), target)
    assert fitted.explain("ab") == "'ab' = 1 'ab'"
    for token in target.get_vocab():
        assert fitted.explain(token)


def chain(count):
    return [("a" + "b" * n, "b") for n in range(count)]


def test_examples_cover_all_ranks_and_lengths(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level([*chain(40), ("y", "z")]))
    shown = [example["text"] for example in fitted.examples()]
    assert {"yz", "ab", "a" + "b" * 40} <= set(shown)
    assert 6 <= len(shown) <= 12


def test_all_tokens_of_a_small_vocabulary_are_examples(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level(chain(3)))
    assert [example["token"] for example in fitted.examples()] == ["ab", "abb", "abbb"]
    assert fitted.examples()[0]["parts"] == [["a", 0.5], ["b", 0.5]]


def test_long_recipes_are_truncated_with_a_count(byte_level):
    source = byte_level([])
    fitted = initializer("mean-of-all").fit(source, byte_level(chain(1)))
    (example,) = fitted.examples()
    assert len(example["parts"]) + example["more"] == len(source)
    assert len(example["parts"]) == 12


def test_random_rows_have_no_parts(byte_level):
    fitted = initializer("random").fit(byte_level([]), byte_level(chain(1)))
    assert fitted.examples()[0]["parts"] == []


def test_nothing_new_gives_no_examples(byte_level):
    assert initializer("mean").fit(byte_level([]), byte_level([])).examples() == []


def test_special_tokens_are_not_examples(byte_level):
    target = byte_level(chain(2), pad_token="<pad>")
    fitted = initializer("mean").fit(byte_level([]), target)
    assert target.pad_token_id in fitted.new_ids
    assert [example["token"] for example in fitted.examples()] == ["ab", "abb"]
