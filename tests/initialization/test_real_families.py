"""All recipe methods on a real byte-level and a real byte-fallback tokenizer."""

import numpy as np
import pytest

from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer

NEW = 60


@pytest.fixture(scope="module", params=["smollm2_cut", "mistral_cut"])
def pair(request, burmese):
    source = request.getfixturevalue(request.param)
    return source, expand_tokenizer(source, burmese, NEW)


@pytest.fixture(scope="module")
def recipes(pair, burmese):
    """All recipe methods, fitted."""
    return {
        name: initializer(name).fit(*pair, corpus=burmese)
        for name in ("align", "mean", "mean-of-all", "merge")
    }


def test_every_new_token_gets_a_convex_recipe_without_fallback(recipes):
    for fitted in recipes.values():
        found = fitted.statistics()
        assert found["new_tokens"] == NEW
        assert found["share_in_hull"] == 1.0
        assert found["share_fallback"] == len(fitted.fallbacks_) / NEW <= 0.05


def test_align_equals_mean_with_continued_merges(recipes):
    align, mean = recipes["align"], recipes["mean"]
    assert align.sentences_by_characters_ == 0
    rows = [fitted.recipe_.rows(fitted.new_ids) for fitted in (align, mean)]
    assert abs(rows[0] - rows[1]).max() < 1e-12


def test_merge_and_mean_use_the_same_bytes(recipes):
    for token_id in recipes["mean"].new_ids:
        pieces = []
        for fitted in (recipes["merge"], recipes["mean"]):
            row = fitted.recipe_.rows(np.array([token_id]))
            pieces.append(set(b"".join(fitted.pair_.source_bytes[i] for i in row.indices)))
        assert pieces[0] == pieces[1]


def test_no_recipe_uses_a_special_token(recipes):
    for name in ("align", "mean", "merge"):
        fitted = recipes[name]
        used = set(fitted.recipe_.rows(fitted.new_ids).indices.tolist())
        assert not used & fitted.pair_.source_special_ids
