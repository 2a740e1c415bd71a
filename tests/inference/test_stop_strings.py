import random

import pytest

from lexigraft.errors import UserError
from lexigraft.inference.stop_strings import StopPosition, StopStrings


@pytest.fixture
def tokenizer(byte_tokenizer):
    """Bytes, and tokens that begin and end in the midst of words."""
    return byte_tokenizer(("o", "p"), ("Ċ", "Q"), ("x", "ĊQ"), ("Î", "±"))


def ids(tokenizer, *tokens: str) -> list[int]:
    return [tokenizer.convert_tokens_to_ids(token) for token in tokens]


def test_a_stop_string_may_span_tokens(tokenizer):
    stops = StopStrings(tokenizer, ["stop"])
    assert stops.find(ids(tokenizer, "a", "s", "t", "op", "b")) == StopPosition(3, 1, b"")


def test_the_part_of_a_token_before_the_stop_string_is_returned(tokenizer):
    stops = StopStrings(tokenizer, ["\nQ:"])
    assert stops.find(ids(tokenizer, "a", "xĊQ", ":", "b")) == StopPosition(2, 1, b"x")


def test_a_character_of_several_byte_tokens_is_found(tokenizer):
    bytes_of_danda = [tokenizer.convert_tokens_to_ids(token) for token in ("à", "¥", "¤")]
    assert StopStrings(tokenizer, ["।"]).find([5, *bytes_of_danda]) == StopPosition(3, 1, b"")


def test_the_stop_string_that_is_completed_first_ends_the_text(tokenizer):
    stops = StopStrings(tokenizer, ["bcd", "c"])
    assert stops.find(ids(tokenizer, "a", "b", "c", "d")) == StopPosition(2, 2, b"")


def test_if_one_token_completes_several_stop_strings_the_earliest_counts(tokenizer):
    stops = StopStrings(tokenizer, ["p", "top"])
    assert stops.find(ids(tokenizer, "s", "t", "op")) == StopPosition(2, 1, b"")


def test_a_stop_string_after_text_is_preceded_by_more_than_white_space(tokenizer):
    stops = StopStrings(tokenizer, ["\n"])
    text = ids(tokenizer, "Ċ", "Ġ", "Ċ", "a", "xĊQ", "Ċ")
    assert stops.find(text) == StopPosition(0, 0, b"")
    assert stops.find(text, after_text=True) == StopPosition(4, 4, b"x")
    assert stops.find(text[:3], after_text=True) is None


def test_an_empty_string_is_refused(tokenizer):
    with pytest.raises(UserError, match="an empty string"):
        StopStrings(tokenizer, ["\n", ""])


def first_by_searching(texts: list[bytes], stops: list[bytes]) -> int | None:
    """The naive way: search all of the text anew after each token."""
    for place in range(len(texts)):
        if any(stop in b"".join(texts[: place + 1]) for stop in stops):
            return place
    return None


def test_positions_agree_with_searching_the_whole_text(tokenizer):
    draw = random.Random(0)
    letters = ids(tokenizer, "a", "b", "op", "o", "p", "Ċ", "ĊQ", "xĊQ")
    texts = {token: tokenizer.decode([token]).encode() for token in letters}
    for _ in range(200):
        strings = ["".join(draw.choices("abopxQ\n", k=draw.randint(1, 4))) for _ in range(2)]
        stops = StopStrings(tokenizer, strings)
        rows = [draw.choices(letters, k=12) for _ in range(3)]
        expected = [
            first_by_searching([texts[token] for token in row], [s.encode() for s in strings])
            for row in rows
        ]
        found = [stops.find(row) for row in rows]
        assert [stop and stop.last for stop in found] == expected


def test_ids_beyond_the_tokenizer_have_no_bytes(tokenizer):
    assert StopStrings(tokenizer, ["ab"]).find([*ids(tokenizer, "a"), 9999, 5]) is None


def test_byte_fallback_tokens_count_as_their_bytes(mistral_tokenizer):
    stops = StopStrings(mistral_tokenizer, ["\n\n"])
    pieces = ["▁no", "<0x0A>", "<0x0A>"]
    found = [mistral_tokenizer.convert_tokens_to_ids(piece) for piece in pieces]
    assert stops.find(found) == StopPosition(2, 1, b"")
