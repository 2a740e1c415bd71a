import numpy as np
import pytest
from tokenizers import processors

from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer

MERGES = [("a", "b"), ("▁", "ab"), ("bc", "d"), ("d", "d")]


@pytest.fixture(scope="module")
def fit(byte_fallback):
    """Fit to `texts`; a text begins with `<s>`, and `త` has no merge rule."""

    def run(texts, of_target=(("b", "c"),), seed=0):
        source = byte_fallback([("b", "c")])
        target = byte_fallback([*of_target], "త", MERGES if of_target else MERGES[:2])
        for tokenizer in (source, target):
            tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                single="<s> $A", special_tokens=[("<s>", 1)]
            )
        return initializer("align-as-published").fit(source, target, corpus=texts, seed=seed)

    return run


@pytest.fixture
def row(matrix):
    """The row of a token in a matrix, and the same by weights on source tokens."""

    def look(fitted, token, weights, which="input"):
        tokenizers = fitted.pair_.source_tokenizer, fitted.pair_.target_tokenizer
        matrices = {"input": matrix(len(tokenizers[0])), "output": matrix(len(tokenizers[0]), 8, 1)}
        made = fitted.rows(matrices).apply(matrices[which], which)
        source = matrices[which if which in weights else "input"]
        ids = tokenizers[0].get_vocab()
        expected = sum(
            weight * source[ids[piece]] for piece, weight in weights.get(which, weights).items()
        )
        return made[tokenizers[1].get_vocab()[token]], expected

    return look


@pytest.mark.parametrize("which", ["input", "output"])
def test_last_occurrences_count_and_a_first_token_includes_the_begin_of_text(fit, row, which):
    # Of "ab ab" the second occurrence counts: without <s>.
    fitted = fit(["ab ab", "ab"])
    weights = {"<s>": 1 / 8} | dict.fromkeys(("▁", "a", "b"), (1 / 3 + 1 / 4) / 2)
    np.testing.assert_allclose(*row(fitted, "▁ab", {which: weights}, which), atol=1e-6)
    assert fitted.statistics()["aligned"] == 1


def test_a_source_token_that_only_overlaps_is_dropped(fit, row):
    # The source splits ▁, a, bc; `ab` covers half of `bc`.
    fitted = fit(["dabc"], of_target=())
    np.testing.assert_allclose(*row(fitted, "ab", {"a": 1}), atol=1e-6)


def test_tokens_that_never_occur_are_merged_from_input_rows_or_random(fit, row):
    fitted = fit(["ab"])
    made, merged = row(fitted, "bcd", {"bc": 0.5, "d": 0.5}, "output")
    np.testing.assert_allclose(made, merged, atol=1e-6)
    assert fitted.fallbacks_ == ["త"]
    assert not row(fitted, "త", {}, "output")[0].any()
    assert (row(fitted, "త", {})[0] != row(fit(["ab"], seed=1), "త", {})[0]).all()


def test_a_corpus_is_needed(fit):
    with pytest.raises(UserError, match="'align-as-published': it needs a corpus"):
        fit(None)
