"""Beam search: the likeliest text of several, whatever else is in the batch."""

from types import SimpleNamespace

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference import generation
from lexigraft.inference.generation import continue_greedily, generate

PROMPTS = {"a": "one two", "b": "three", "c": "four five six seven", "d": "ναι"}


def test_with_beams_for_every_token_the_likeliest_pair_is_found(varied_llama, byte_tokenizer):
    tokens = len(byte_tokenizer())
    prompt = byte_tokenizer()("once")["input_ids"]
    with torch.inference_mode():
        first = varied_llama(torch.tensor([prompt])).logits[0, -1].log_softmax(0)
        every = torch.tensor([[*prompt, token] for token in range(tokens)])
        second = varied_llama(every).logits[:, -1].log_softmax(-1)
    best = int((first[:, None] + second).argmax())
    [pair] = continue_greedily(
        varied_llama, [prompt], padding=0, stop_tokens=[], max_new_tokens=2, beams=tokens
    ).tolist()
    assert pair == [best // tokens, best % tokens]


def test_texts_do_not_depend_on_the_batch_size(varied_llama, byte_tokenizer, tmp_path):
    found = [
        generate(
            varied_llama, byte_tokenizer(), PROMPTS, max_new_tokens=6, batch_size=size, beams=3,
            partial=tmp_path / f"{size}.jsonl", identity="",
        )
        for size in (1, 3, 4)
    ]  # fmt: skip
    assert found[0] == found[1] == found[2]
    assert len({output.text for output in found[0].values()}) > 1


def test_vllm_with_beams_is_refused(byte_tokenizer, tmp_path, monkeypatch):
    class Engine:
        config = SimpleNamespace(get_text_config=lambda: None)

    monkeypatch.setattr(generation, "VllmModel", Engine)
    with pytest.raises(UserError, match="set beams to 1"):
        generate(
            Engine(), byte_tokenizer(), PROMPTS, max_new_tokens=2, batch_size=1, beams=2,
            partial=tmp_path / "partial.jsonl", identity="",
        )  # fmt: skip
