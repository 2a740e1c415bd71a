"""mergekit's subword means split a token's text; where that is also its spelling, both agree."""

import numpy as np
import pytest

from lexigraft.initialization.registry import initializer
from lexigraft.vocabulary.expand import expand_tokenizer


def readable(pair):
    """New tokens that are text, and that text."""
    for token in pair.new_ids.tolist():
        try:
            yield token, pair.target_bytes[token].decode()
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("language", ["greek", "telugu"])
def test_byte_level_means_equal_mergekit(language, request, smollm2_cut, matrix):
    import torch
    from mergekit.tokensurgeon import subword_approximate

    target = expand_tokenizer(smollm2_cut, request.getfixturevalue(language), 60)
    fitted = initializer("mean").fit(smollm2_cut, target)
    rows = matrix(len(smollm2_cut), 12)
    tokens, texts = zip(*readable(fitted.pair_), strict=True)
    expected = subword_approximate(torch.from_numpy(rows), texts, False, smollm2_cut)
    np.testing.assert_allclose(fitted.apply(rows)[list(tokens)], expected.numpy(), atol=1e-5)
    assert len(tokens) > 40


def test_sentencepiece_means_equal_mergekit_at_the_beginning_of_words(
    mistral_tokenizer, greek, matrix
):
    import torch
    from mergekit.tokensurgeon import subword_approximate

    target = expand_tokenizer(mistral_tokenizer, greek, 60)
    fitted = initializer("mean").fit(mistral_tokenizer, target)
    rows = matrix(len(mistral_tokenizer), 12)
    # The tokenizer itself puts a space before a text: without one it would be another's pieces.
    begins = {token: text[1:] for token, text in readable(fitted.pair_) if text.startswith(" ")}
    expected = subword_approximate(
        torch.from_numpy(rows), list(begins.values()), False, mistral_tokenizer
    )
    np.testing.assert_allclose(fitted.apply(rows)[list(begins)], expected.numpy(), atol=1e-5)
    assert len(begins) > 10
