import math

import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.initialization.methods.transtokenizers import token_shares
from lexigraft.initialization.pairing import pair_vocabularies
from lexigraft.initialization.registry import initializer


@pytest.fixture
def fit(pair):
    """Fit to pairs of sentences: `fit(pairs, tokenizers=pair, **options)`."""

    def run(pairs, tokenizers=pair, **options):
        return initializer("transtokenizers", **options).fit(
            *tokenizers, auxiliary={"parallel": pairs}
        )

    return run


# `x` is abc and `y` is de, which stand apart often enough to tell.
PAIRS = [("x!y", "abc!de"), ("x", "abc"), ("y", "de"), ("!", "!")] * 10


def test_a_token_has_the_weights_of_its_alignments(fit, row):
    fitted = fit(PAIRS)
    for token, source in (("abc", "x"), ("de", "y")):
        weights = row(fitted, token)
        assert sum(weights.values()) == pytest.approx(1)
        assert weights[source] > 0.9
    found = fitted.statistics()
    assert (found["pairs"], found["aligned"], found["related"]) == (40, 2, 0)


def published_shares(n, m):
    """The loops of the published code over a pair of words, in fractions of its count."""
    found = np.zeros((m, n))
    for source, target in zip(np.tile(range(n), m), np.repeat(range(m), n), strict=True):
        found[target, source] += 1 / n / 2
    common = math.gcd(n, m)
    sources, targets = np.repeat(range(n), m // common), np.repeat(range(m), n // common)
    for source, target in zip(sources, targets, strict=True):
        found[target, source] += 1 / (n // common) / 2
    return found


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("m", range(1, 6))
def test_counts_of_words_are_divided_as_in_the_published_code(n, m):
    np.testing.assert_allclose(token_shares(n, m), published_shares(n, m))


def test_the_tokens_of_a_word_are_aligned_together(fit, row):
    """`xy` is one word of two tokens, `abc` one token."""
    words = row(fit([("xy", "abc")] * 30), "abc")
    assert words == pytest.approx({"x": 0.5, "y": 0.5})
    apart = row(fit([("xy", "abc"), ("x", "abc")] * 30, unit="tokens"), "abc")
    assert apart["x"] > apart.get("y", 0)


@pytest.fixture
def longer(byte_level):
    """New: `abc`, which is part of the new `abcd`."""
    merges = [("a", "b")]
    return byte_level(merges), byte_level([*merges, ("ab", "c"), ("abc", "d")])


def test_a_token_without_alignments_is_the_mean_of_the_longest_tokens_in_it(fit, row, longer):
    fitted = fit([("x", "abc")] * 30, longer)
    assert row(fitted, "abc") == {"x": 1.0}
    assert row(fitted, "abcd") == pytest.approx({"x": 0.5, "d": 0.5})
    assert (fitted.aligned_, fitted.related_) == (1, 1)


def test_source_tokens_that_begin_a_word_weigh_twice_among_relatives(fit, row, byte_level):
    merges = [("a", "b"), ("Ġ", "x")]
    tokenizers = byte_level(merges), byte_level([*merges, ("ab", "c"), ("abc", "d")])
    fitted = fit([(" x", "abc")] * 30, tokenizers)
    assert row(fitted, "abcd") == pytest.approx({"Ġx": 2 / 3, "d": 1 / 3})


@pytest.mark.parametrize("pairs", [[], [("", "abc"), ("x", "")]])
def test_parallel_text_without_a_pair_is_refused(fit, pairs):
    with pytest.raises(UserError, match="no pairs of sentences in its auxiliary 'parallel'"):
        fit(pairs)


def relatives_by_strings(known, token):
    """The published rule: strings that begin with the token, and the longest strings in it."""
    begin = {text for text in known if text.startswith(token)}
    inside = {text for text in known if text in token}
    return begin | {a for a in inside if not any(a != b and a in b for b in inside)}


@pytest.mark.parametrize("source_family", ["byte-level", "byte-fallback"])
@pytest.mark.parametrize("family", ["byte-level", "byte-fallback"])
def test_relatives_equal_those_by_vocabulary_strings(
    source_family, family, small_tokenizer, english, greek
):
    """Without alignments, the known tokens are those that share the spelling of a letter."""
    source = small_tokenizer(source_family, english, 400)
    target = small_tokenizer(family, greek, 500)
    fitted = initializer("transtokenizers").fit(
        source, target, auxiliary={"parallel": [("\u2603", "\u2603")]}
    )
    pair = pair_vocabularies(source, target)
    strings = target.convert_ids_to_tokens(range(pair.n_target))
    bytes_alone = pair.target_fallback_ids | set(pair.byte_ids.tolist())
    source_tokens = {
        strings[i]: source.convert_ids_to_tokens(int(pair.source_of[i]))
        for i in pair.shared_ids.tolist()
        if i not in bytes_alone
    }
    for token_id in np.setdiff1d(fitted.new_ids, [*pair.target_special_ids, *bytes_alone]).tolist():
        relatives = relatives_by_strings(source_tokens, strings[token_id])
        if strings[token_id] not in fitted.fallbacks_:
            weights = fitted.weights_[[token_id]].tocoo()
            pieces = {source.convert_ids_to_tokens(int(i)) for i in weights.coords[1]}
            assert pieces == {source_tokens[relative] for relative in relatives}


def test_the_middle_of_three_target_tokens_is_shared_by_two_source_tokens():
    np.testing.assert_allclose(token_shares(2, 3), [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize("family", ["byte-level", "byte-fallback"])
def test_no_fallback_byte_is_a_relative(family, small_tokenizer, english, greek):
    source = small_tokenizer("byte-fallback", english, 400)
    target = small_tokenizer(family, greek, 500)
    count = min(len(english), len(greek), 150)
    pairs = list(zip(english[:count], greek[:count], strict=True))
    fitted = initializer("transtokenizers").fit(source, target, auxiliary={"parallel": pairs})
    pair = pair_vocabularies(source, target)
    related = np.setdiff1d(fitted.new_ids, list(pair.target_fallback_ids))
    strings = target.convert_ids_to_tokens(related.tolist())
    related = related[[token not in fitted.fallbacks_ for token in strings]]
    assert fitted.related_ > 20
    assert fitted.weights_[related][:, sorted(pair.source_fallback_ids)].nnz == 0
