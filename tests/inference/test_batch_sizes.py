"""Batches hold what fits into the free memory of a GPU, which is estimated, or what is set."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import DynamicCache, LlamaConfig

from lexigraft.errors import UserError
from lexigraft.inference import batch_sizes
from lexigraft.inference.batch_sizes import (
    activation_bytes_per_token,
    free_memory,
    generation_limits,
    run_batches,
    scoring_tokens,
    texts_with_logits,
)


def llama_3_8b(device="cuda"):
    """Its configuration, and where it would be."""
    config = LlamaConfig(
        vocab_size=128_256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    return SimpleNamespace(config=config, device=torch.device(device), dtype=torch.bfloat16)


@pytest.fixture
def gpu(monkeypatch):
    """`gpu(bytes)`: so much memory is free."""
    return lambda free: monkeypatch.setattr(batch_sizes, "free_memory", lambda device: free)


def test_batches_have_every_item_once_in_order_and_at_most_the_given_tokens():
    lengths = [9, 9, 8, 30, 7, 3, 3, 1, 1, 1, 1]
    batches = [batch for batch, _ in run_batches(lengths, int, list, max_tokens=20, max_items=3)]
    assert batches == [[9, 9], [8], [30], [7, 3], [3, 1, 1], [1, 1]]


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox"], indirect=True)
def test_the_estimated_bytes_of_keys_and_values_are_those_of_the_cache(family, padded):
    model, _ = family
    if not hasattr(type(model.config)(), "num_key_value_heads"):
        del model.config.num_key_value_heads  # these models do not read it
    inputs = padded()
    cache = DynamicCache(config=model.config)
    model(**inputs, past_key_values=cache, use_cache=True)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    logits = model.config.vocab_size * 12 / 7
    both = [activation_bytes_per_token(model, 7, cached=cached) for cached in (True, False)]
    assert both[0] - both[1] == pytest.approx(held / inputs["input_ids"].numel() + logits)


def test_batches_follow_from_the_free_memory(gpu):
    model, cpu, limits = llama_3_8b(), llama_3_8b("cpu"), []
    for gib in (60, 6):
        gpu(gib * 2**30)
        limits.append(generation_limits(model, 4224))
    (tokens, prompts), (fewer, _) = limits
    assert prompts == 128 and tokens == pytest.approx(10 * fewer)
    # 128 KiB of keys and values each, and about as much for a layer.
    assert 150_000 < tokens < 0.8 * 60 * 2**30 / 2**17
    assert generation_limits(model, 4224, 3) == (fewer, 3)
    gpu(60 * 2**30)
    # 10 bytes for each of 128,256 logits of a token, and less for a layer.
    assert 20 < texts_with_logits(model, 1024) < 0.8 * 60 * 2**30 / 1024 / 1_282_560
    assert (texts_with_logits(model, 32), texts_with_logits(model, 1024, 3)) == (128, 3)
    gpu(2**30)
    assert 2048 < scoring_tokens(model, 2048) < 2**15
    assert scoring_tokens(model, 2048, 100) == 100
    gpu(2**20)
    assert texts_with_logits(model, 1024) == 1
    assert generation_limits(cpu, 4224) == (math.inf, 8)
    assert (scoring_tokens(cpu, 2048), texts_with_logits(cpu, 4096)) == (2048, 8)


def test_settings_override_the_estimate(gpu, monkeypatch):
    gpu(2**30)
    monkeypatch.setenv("LEXIGRAFT_BATCH_TOKENS", "70000")
    for device in ("cuda", "cpu"):
        assert scoring_tokens(llama_3_8b(device), 2048, 100) == 70_000
        assert generation_limits(llama_3_8b(device), 4224) == (70_000, math.inf)
        assert texts_with_logits(llama_3_8b(device), 1000, 200) == 70
    monkeypatch.setenv("LEXIGRAFT_BATCH_TOKENS", "many")
    with pytest.raises(UserError, match=r"^LEXIGRAFT_BATCH_TOKENS .*: 'many' is not"):
        scoring_tokens(llama_3_8b(), 2048)


@pytest.mark.parametrize(("fraction", "expected"), [(1.0, 50 + 6), (0.5, 40 - 10 + 6)])
def test_free_memory_includes_unused_reserved_memory_up_to_the_allowed_share(
    monkeypatch, fraction, expected
):
    known = {"mem_get_info": (50, 80), "memory_reserved": 10, "memory_allocated": 4}
    for name, value in known.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)

    # torch accepts no device without an index here.
    monkeypatch.setattr(
        torch.cuda,
        "get_per_process_memory_fraction",
        lambda device=None: fraction if device is None else pytest.fail("needs an index"),
    )
    assert free_memory(torch.device("cuda")) == expected
