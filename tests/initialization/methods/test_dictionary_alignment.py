import numpy as np
import pytest

from lexigraft.initialization.methods.dictionary_alignment import _ShrinkingTokenizer, _tokenized
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.word_alignment import expected_counts


@pytest.fixture
def fit(pair):
    """Fit to entries: `fit(entries, tokenizers=pair, **options)`."""

    def run(entries, tokenizers=pair, **options):
        return initializer("dictionary-alignment", **options).fit(
            *tokenizers, auxiliary={"dictionary": entries}
        )

    return run


ENTRIES = [("x", "abc"), ("y", "de"), ("xz", "abcz"), ("yz", "dez")]


def test_a_token_has_the_weights_of_its_alignments_in_the_entries(fit, row):
    fitted = fit(ENTRIES)
    for token, source, other in (("abc", "x", "y"), ("de", "y", "x")):
        weights = row(fitted, token)
        assert sum(weights.values()) == pytest.approx(1)
        assert weights[source] == max(weights.values())
        assert weights[source] > 2 * weights.get(other, 0)
    assert fitted.statistics()["entries"] == 4


def test_shorter_tokens_are_aligned_after_longer_ones_are_removed(fit, row, byte_level):
    """No entry is cut into `ab` while there is `abc`."""
    tokenizers = byte_level([]), byte_level([("a", "b"), ("ab", "c")])
    fitted = fit([("x", "abc"), ("y", "z")], tokenizers)
    assert fitted.aligned_ == 2
    assert fitted.rounds_ >= 2
    weights = row(fitted, "ab")
    assert weights["x"] == max(weights.values())


def test_letters_are_not_removed(fit, row, byte_level):
    """The published code removes `a`, so that no merge makes `ab` any more."""
    tokenizers = byte_level([]), byte_level([("a", "b"), ("ab", "c")])
    entries = [("x", "abc"), ("y", "a")]
    assert fit(entries, tokenizers).fallbacks_ == []
    assert fit(entries, tokenizers, alphabet="removed").fallbacks_ == ["ab"]


@pytest.mark.parametrize("family", ["byte-level", "byte-fallback", "unigram", "wordpiece"])
def test_without_removed_tokens_words_are_split_shorter_and_ids_stay(
    family, small_tokenizer, greek
):
    tokenizer = small_tokenizer(family, greek, 500)
    remaining, special = _ShrinkingTokenizer(tokenizer), {tokenizer.unk_token_id}
    before = _tokenized(remaining.tokenizer(), greek[:50], special)
    lengths = [len(tokenizer.convert_ids_to_tokens(i)) for i in range(len(tokenizer))]
    removed = {i for ids in before for i in ids if lengths[i] > 4}
    assert removed
    remaining.remove(removed)
    after = _tokenized(remaining.tokenizer(), greek[:50], special)
    strings = tokenizer.convert_ids_to_tokens
    for old, new in zip(before, after, strict=True):
        assert removed.isdisjoint(new)
        joined = ["".join(strings(ids)).replace("##", "") for ids in (old, new)]
        assert joined[0] == joined[1]
        assert (new != old) == bool(removed & {*old})
        assert len(new) >= len(old)


MODULE = "lexigraft.initialization.methods.dictionary_alignment"


def test_published_weights_are_counts_rounded_up(fit, pair, monkeypatch):
    """`abc` aligns in the first round, whose counts are here rounded up and divided by hand."""
    first_round = []

    def counts(bitext, iterations):
        first_round.append(expected_counts(bitext, iterations=iterations))
        return first_round[-1]

    monkeypatch.setattr(f"{MODULE}.expected_counts", counts)
    entries = [("x", "abc"), ("x", "abc"), ("xy", "abc"), ("xz", "abcde"), ("y", "de")]
    expected = fit(entries).weights_
    published = fit(entries, counts="rounded-up").weights_
    abc = pair[1].convert_tokens_to_ids("abc")
    exact = first_round[0].toarray()[:, abc]
    for weights, by_source in ((expected, exact), (published, np.ceil(exact.round(5)))):
        row = weights[[abc]].toarray()[0, : len(by_source)]
        np.testing.assert_allclose(row, by_source / by_source.sum(), atol=1e-9)
    assert abs(expected - published).max() > 0.01


def test_counts_are_rounded_to_six_digits_before_rounding_up(fit, monkeypatch):
    """The published code reads the six digits that fast_align prints."""
    weights = []
    for excess in (0.0, 1e-7):

        def counts(bitext, iterations, excess=excess):
            exact = expected_counts(bitext, iterations=iterations)
            exact.data = np.ceil(exact.data) + excess
            return exact

        monkeypatch.setattr(f"{MODULE}.expected_counts", counts)
        weights.append(fit(ENTRIES, counts="rounded-up").weights_)
    assert (weights[0] != weights[1]).nnz == 0


def test_a_token_in_no_entry_falls_back_to_its_pieces(fit, row):
    fitted = fit([("x", "abc")])
    assert fitted.fallbacks_ == ["de"]
    assert row(fitted, "de") == {"d": 0.5, "e": 0.5}
