import pytest

from lexigraft.errors import UserError
from lexigraft.initialization.explanation import describe, readable
from lexigraft.initialization.registry import initializer


def test_invalid_bytes_are_shown_in_hexadecimal():
    assert readable("త".encode()[:2]) == r"\xe0\xb0"
    assert readable("త".encode() + b"\xff") == r"త\xff"


def test_a_token_is_explained_by_its_text_or_its_vocabulary_string(byte_level, spelled):
    first, second, third = spelled("త")
    source = byte_level([(first, second)])
    fitted = initializer("mean").fit(source, byte_level([(first, second), (first + second, third)]))
    expected = r"'త' = 0.5 '\xa4' + 0.5 '\xe0\xb0'"
    assert fitted.explain("త") == expected
    assert fitted.explain(first + second + third) == expected


def test_only_the_twelve_largest_weights_are_shown():
    text = describe("x", [("a", 0.24)] + [("b", 0.04)] * 19)
    assert text.count("0.04") == 11
    assert text.endswith("+ … (8 more)")


def test_an_unknown_token_is_an_error(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level([("a", "b")]))
    with pytest.raises(UserError, match=r"'qq'.*not in the target vocabulary"):
        fitted.explain("qq")


def test_a_negative_weight_is_subtracted():
    assert describe("x", [("a", 1.5), ("b", -0.5)]) == "'x' = 1.5 'a' - 0.5 'b'"
    assert describe("x", [("b", -2.0), ("a", 1.5)]) == "'x' = - 2 'b' + 1.5 'a'"


def chain(count):
    return [("a" + "b" * n, "b") for n in range(count)]


def test_examples_cover_all_ranks_and_lengths(byte_level):
    fitted = initializer("mean").fit(byte_level([]), byte_level([*chain(40), ("y", "z")]))
    shown = [example["text"] for example in fitted.examples()]
    assert {"yz", "ab", "a" + "b" * 40} <= set(shown)
    assert 6 <= len(shown) <= 12
