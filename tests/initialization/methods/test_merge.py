import numpy as np
import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.bpe import read_bpe


def by_definition(token, merges, source):
    """Weights of a token by recursion over all its derivations."""
    if token in source:
        return {token: 1.0}
    derivations = [rule for rule in merges if "".join(rule) == token]
    weights = {}
    for left, right in derivations:
        for part in (left, right):
            for piece, weight in by_definition(part, merges, source).items():
                weights[piece] = weights.get(piece, 0) + weight / 2 / len(derivations)
    return weights


def test_several_derivations_are_averaged(byte_level, row):
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")]
    fitted = initializer("merge").fit(byte_level([]), byte_level(merges))
    # ½ (¼a + ¼b + ½c) + ½ (½a + ¼b + ¼c)
    assert row(fitted, "abc") == {"a": 0.375, "b": 0.25, "c": 0.375}


def test_a_new_character_is_the_mean_of_its_bytes(byte_fallback, row):
    target = byte_fallback([], new_characters="త", new_merges=[("a", "త")])
    fitted = initializer("merge").fit(byte_fallback([]), target)
    byte = 1 / 3
    assert row(fitted, "త") == pytest.approx({"<0xE0>": byte, "<0xB0>": byte, "<0xA4>": byte})
    assert row(fitted, "aత") == pytest.approx(
        {"a": 1 / 2, "<0xE0>": byte / 2, "<0xB0>": byte / 2, "<0xA4>": byte / 2}
    )
    assert fitted.fallbacks_ == []


def test_in_a_replaced_vocabulary_rules_end_at_tokens_that_the_source_shares(
    byte_level, byte_fallback, row
):
    source = byte_level([("a", "b"), ("Ġ", "ab")])
    target = byte_fallback([("a", "b"), ("▁", "ab"), ("▁ab", "c"), ("▁abc", "ab")])
    fitted = initializer("merge").fit(source, target)
    assert row(fitted, "▁abc") == {"Ġab": 0.5, "c": 0.5}
    assert row(fitted, "▁abcab") == {"Ġab": 0.25, "c": 0.25, "ab": 0.5}


def test_a_longer_token_without_a_rule_falls_back_to_its_pieces(byte_level, row):
    source, target = byte_level([("a", "b")]), byte_level([("a", "b")])
    target.add_tokens(["abc"])
    fitted = initializer("merge").fit(source, target)
    assert fitted.fallbacks_ == ["abc"]
    assert row(fitted, "abc") == {"ab": 0.5, "c": 0.5}


def test_a_deep_chain_of_rules_does_not_exhaust_the_stack(byte_level, row):
    chain = [("a" * n, "b") if n == 1 else ("a" + "b" * (n - 1), "b") for n in range(1, 1500)]
    fitted = initializer("merge").fit(byte_level([]), byte_level(chain))
    assert row(fitted, "a" + "b" * 1499)["b"] == pytest.approx(1)


def test_a_tokenizer_without_merges_is_an_error():
    pieces = [("<unk>", 0.0), ("a", -1.0), ("b", -1.0)]
    source, target = (
        PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(models.Unigram(vocab, unk_id=0)), unk_token="<unk>"
        )
        for vocab in (pieces, [*pieces, ("ab", -1.0)])
    )
    with pytest.raises(UserError, match="Unigram"):
        initializer("merge").fit(source, target)


def test_it_equals_the_definition_on_a_real_vocabulary(smollm2_cut, expanded_telugu, row):
    fitted = initializer("merge").fit(smollm2_cut, expanded_telugu)
    merges = read_bpe(expanded_telugu).merges
    source = smollm2_cut.get_vocab()
    new = [rule for rule in merges if "".join(rule) not in source]
    weights = fitted.weights_
    for token_id, token in zip(fitted.new_ids, fitted.pair_.new_tokens, strict=True):
        expected = np.zeros(len(source))
        for piece, weight in by_definition(token, new, source).items():
            expected[source[piece]] = weight
        np.testing.assert_allclose(weights[[token_id]].toarray()[0], expected, atol=1e-12)
    assert fitted.fallbacks_ == []


def test_a_nested_rule_halves_at_each_level(byte_level, row):
    source, target = byte_level([]), byte_level([("b", "c"), ("a", "bc")])
    fitted = initializer("merge").fit(source, target)
    assert row(fitted, "abc") == {"a": 0.5, "b": 0.25, "c": 0.25}


def test_recursion_ends_at_source_tokens(byte_level, row):
    source, target = byte_level([("b", "c")]), byte_level([("b", "c"), ("a", "bc")])
    assert row(initializer("merge").fit(source, target), "abc") == {"a": 0.5, "bc": 0.5}
