import math

import pytest
import torch

from lexigraft.evaluation.windows import score_windows
from lexigraft.inference.likelihood import score_texts

TEXTS = ["Καλημέρα κόσμε", "ένα δύο", "ναι", "x", "good morning, world"]


def brute_force(model, tokenizer, texts, window):
    """Each token from what precedes it in its window, one forward pass a token."""
    stream, scored = [], []
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        stream += [0, *ids]
        scored += [False] + [True] * len(ids)
    nats = 0.0
    for at in range(1, len(stream)):
        if scored[at]:
            begin = (at - 1) // (window - 1) * (window - 1)
            with torch.no_grad():
                logits = model(torch.tensor([stream[begin:at]])).logits[0, -1].double()
            nats -= torch.log_softmax(logits, dim=-1)[stream[at]].item()
    return nats, sum(scored)


@pytest.mark.parametrize("window", [2, 7, 1000])
@pytest.mark.parametrize("batch_tokens", [1, 50])
def test_every_token_is_predicted_once_from_its_window(window, batch_tokens, model, byte_tokenizer):
    tokenizer = byte_tokenizer()
    score = score_windows(model, tokenizer, TEXTS, window=window, batch_tokens=batch_tokens)
    nats, tokens = brute_force(model, tokenizer, TEXTS, window)
    assert score.tokens == tokens == sum(len(text.encode()) for text in TEXTS)
    assert score.bytes == tokens
    assert score.nats == pytest.approx(nats, rel=1e-5)
    assert score.perplexity == pytest.approx(math.exp(nats / tokens), rel=1e-4)


def test_the_first_token_of_a_text_without_a_start_is_only_context(tiny_llama, special_tokenizer):
    bare, model = special_tokenizer(), tiny_llama(300)
    texts = [text for text in TEXTS if text != "x"]
    found = [score_windows(model, bare, [text], window=1000) for text in texts]
    for one, text in zip(found, texts, strict=True):
        alone = score_texts(model, bare, [text])
        assert (one.tokens, one.bytes) == (alone.tokens, alone.bytes)
        assert one.nats == pytest.approx(alone.nats, rel=1e-5)
    whole = score_windows(model, bare, TEXTS, window=1000)
    assert whole.tokens == sum(one.tokens for one in found)


@pytest.mark.parametrize("window", [2, 7])
def test_each_text_has_the_nats_of_its_own_tokens(window, model, byte_tokenizer):
    tokenizer = byte_tokenizer()
    score = score_windows(model, tokenizer, TEXTS, window=window, batch_tokens=50)
    before = 0.0
    for number, own in enumerate(score.texts, 1):
        # A text's own tokens are what it adds to those of the texts before it.
        nats, _ = brute_force(model, tokenizer, TEXTS[:number], window)
        assert own.nats == pytest.approx(nats - before, rel=1e-4)
        assert own.tokens == own.bytes == len(TEXTS[number - 1].encode())
        before = nats
