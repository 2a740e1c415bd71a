"""On the GPU, too, float32 results depend neither on batches nor on a prefix that is read once."""

import pytest

from lexigraft.hardware import device
from lexigraft.inference.generation import continue_greedily
from lexigraft.inference.likelihood import score_texts
from lexigraft.inference.shared_prefix import shared_prefix
from tests.inference.test_shared_prefix import FAMILIES, PROMPTS, random_model

GIVEN = {"padding": 0, "stop_tokens": [], "max_new_tokens": 12}


@pytest.fixture(params=["llama", "mistral", "gemma2", "gpt2"])
def model(request):
    return random_model(FAMILIES[request.param]).to(device())


@pytest.fixture
def encoded(byte_tokenizer):
    return byte_tokenizer()(list(PROMPTS.values()))["input_ids"]


def test_texts_do_not_depend_on_the_batch(model, encoded):
    together = continue_greedily(model, encoded, **GIVEN).tolist()
    alone = [continue_greedily(model, [ids], **GIVEN).tolist()[0] for ids in encoded]
    assert together == alone


def test_texts_do_not_depend_on_a_shared_prefix(model, encoded):
    prefix = shared_prefix(model, encoded, GIVEN["max_new_tokens"])
    assert prefix is not None
    plain = continue_greedily(model, encoded, **GIVEN).tolist()
    assert continue_greedily(model, encoded, **GIVEN, prefix=prefix).tolist() == plain


def test_likelihoods_do_not_depend_on_the_batch(model, byte_tokenizer, english):
    texts = [line[:200] for line in english[:20]]
    together, alone = (
        score_texts(model, byte_tokenizer(), texts, batch_tokens=tokens).texts
        for tokens in (10_000, 1)
    )
    assert [one.nats for one in together] == pytest.approx([one.nats for one in alone], rel=1e-5)
