"""Grafted folders are used as their sources are."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GemmaConfig, GemmaForCausalLM

from lexigraft import graft_folder, initializer
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.train import train_tokenizer


@pytest.fixture
def gemma(english, tmp_path):
    """A source that leaves the side of padding to the class of its tokenizer: left."""
    folder = tmp_path / "gemma"
    tokenizer = train_tokenizer(english, "byte-level-bpe", 300)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "GemmaTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(1)
    config = GemmaConfig(
        vocab_size=300, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=128,
        initializer_range=1.0, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    GemmaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("change", ["expanded", "replaced"])
def test_a_padded_prompt_is_continued_as_without_padding(gemma, change, english, telugu, tmp_path):
    target = expand_tokenizer(load_tokenizer(gemma), telugu, new_tokens=10)
    if change == "replaced":  # by the tokenizer of a model that pads on the right
        target = train_tokenizer(telugu, "sentencepiece-bpe", 400)
    graft_folder(gemma, target, initializer("mean"), tmp_path / "out", corpus=telugu)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    tokenizer.pad_token = tokenizer.eos_token
    assert tokenizer.padding_side == AutoTokenizer.from_pretrained(gemma).padding_side == "left"
    prompts = ["the cat", "a much longer sentence about the weather in the north"]
    alone, batch = (
        model.generate(
            **tokenizer(prompts[:count], return_tensors="pt", padding=True),
            max_new_tokens=4, do_sample=False, eos_token_id=None,
        )[0, -4:]
        for count in (1, 2)
    )  # fmt: skip
    assert torch.equal(alone, batch)
