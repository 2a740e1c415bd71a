import numpy as np

from lexigraft.initialization.fuzzy import alike_without_space
from lexigraft.initialization.pairing import pair_vocabularies


def alike(source, target, *tokens):
    pair = pair_vocabularies(source, target)
    vocabulary = target.get_vocab()
    found = alike_without_space(pair, np.array([vocabulary[token] for token in tokens]))
    strings = source.convert_ids_to_tokens([max(i, 0) for i in found.tolist()])
    return [string if i >= 0 else None for i, string in zip(found, strings, strict=True)]


def test_a_leading_space_on_either_side_is_taken_out(byte_level):
    source = byte_level([("Ġ", "a"), ("Ġa", "b"), ("c", "d")])
    target = byte_level([("a", "b"), ("Ġ", "c"), ("Ġc", "d")])
    assert alike(source, target, "ab", "Ġcd") == ["Ġab", "cd"]


def test_families_are_compared_by_text(byte_level, byte_fallback):
    source = byte_fallback([("▁", "a"), ("▁a", "b")])
    target = byte_level([("a", "b"), ("b", "c")])
    assert alike(source, target, "ab", "bc") == ["▁ab", None]


def test_of_several_source_tokens_the_shortest_is_taken(byte_level):
    source = byte_level([("Ġ", "a"), ("Ġa", "b"), ("a", "b")])
    target = byte_level([("a", "b"), ("Ġ", "Ġ"), ("ĠĠ", "ab")])
    assert alike(source, target, "ĠĠab") == ["ab"]


def test_white_space_and_special_tokens_are_like_nothing(byte_level):
    source = byte_level([])
    target = byte_level([("Ġ", "Ġ"), ("Ġ", "Ċ")])
    assert alike(source, target, "ĠĠ", "ĠĊ", "<s>") == [None, None, None]
