import sys

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference.generation import generate
from lexigraft.inference.vllm_model import VllmModel
from tests.fake_vllm import LLM, install

PROMPTS = {"a": "one two =", "b": "yes =", "c": "good morning, world =", "d": "="}


@pytest.fixture
def vllm(monkeypatch):
    """The module, as it is imported."""
    return install(monkeypatch)


@pytest.fixture
def folder(varied_llama, byte_tokenizer, tmp_path):
    varied_llama.save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def written(model, tokenizer, **options):
    return generate(model, tokenizer, PROMPTS, **{"max_new_tokens": 20, "batch_size": 2, **options})


@pytest.mark.parametrize("stop", [["\n"], ["\n", "aa"], []])
def test_the_same_texts_as_by_transformers(vllm, folder, varied_llama, byte_tokenizer, stop):
    tokenizer = byte_tokenizer()
    expected = written(varied_llama, tokenizer, stop=stop)
    model = VllmModel(folder, torch.float32)
    assert written(model, tokenizer, stop=stop) == expected
    assert any(output.text for output in expected.values())


def test_a_prompt_beyond_the_context_is_refused_before_vllm_starts(
    vllm, folder, byte_tokenizer, tmp_path
):
    with pytest.raises(UserError, match="context of 512"):
        generate(
            VllmModel(folder, torch.float32),
            byte_tokenizer(),
            {"big": "x" * 600},
            max_new_tokens=1,
            batch_size=1,
        )
    assert LLM.instances == []


def test_the_process_of_vllm_ends_when_the_model_is_closed(vllm, folder, byte_tokenizer, tmp_path):
    model = VllmModel(folder, torch.float32)
    written(model, byte_tokenizer())
    assert LLM.running == {str(folder)}
    model.close()
    assert not LLM.running


def test_a_text_that_vllm_would_truncate_is_refused(
    vllm, folder, byte_tokenizer, tmp_path, monkeypatch
):
    monkeypatch.setattr(LLM, "fitting", 40)
    model = VllmModel(folder, torch.float32)
    with pytest.raises(UserError, match="of 40 tokens, but a prompt with max_new_tokens has 42"):
        written(model, byte_tokenizer())
    assert written(model, byte_tokenizer(), max_new_tokens=17)


def test_a_missing_vllm_is_refused(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match=r"vLLM cannot be used .* docs/generation\.md"):
        VllmModel(folder, torch.float32)
