"""Where VocADT's adapters start: equations 1 to 3 of the paper."""

import numpy as np
import pytest

from lexigraft.initialization.registry import initializer


@pytest.fixture
def fit(byte_fallback):
    """`a` is a token of both, `త` of the target alone, which knows no piece of it."""
    source = byte_fallback([], fallback=False)
    target = byte_fallback([], new_characters="తల", new_merges=[("a", "b")], fallback=False)

    def build(seed=0, **options):
        return initializer("mean", **options).fit(
            source, target, n_source=len(source) + 3, seed=seed
        )

    return build


def test_a_token_without_pieces_has_random_weights_that_sum_to_one(fit):
    fitted = fit(without_pieces="random")
    vocabulary = fitted.pair_.target_tokenizer.get_vocab()
    rows = fitted.weights_[[vocabulary["త"], vocabulary["ల"]]].toarray()
    tokens = len(fitted.pair_.source_ids)
    assert (rows[:, :tokens] > 0).all() and not rows[:, tokens:].any()  # padding rows take no part
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    # Uniform draws over their sum: no weight is more than about twice the mean.
    assert rows.max() < 2.5 / tokens
    assert rows.std() == pytest.approx(1 / tokens / np.sqrt(3), rel=0.3)
    assert not np.allclose(rows[0], rows[1])
    assert fitted.fallbacks_ == ["త", "ల"]


def test_the_same_seed_draws_the_same_weights(fit):
    one, same, other = (fit(seed, without_pieces="random").weights_ for seed in (1, 1, 2))
    assert (one != same).nnz == 0 and (one != other).nnz > 0


def test_shared_tokens_are_copies_and_pieces_have_equal_weights(fit, row):
    fitted = fit(without_pieces="random")
    assert row(fitted, "a") == {"a": 1}
    assert row(fitted, "ab") == {"a": 0.5, "b": 0.5}
