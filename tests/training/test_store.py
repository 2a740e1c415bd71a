"""A cell comes back as it was trained, from its folder and what its card refers to."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from lexigraft.errors import UserError
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import load_cell, load_tensors, save_cell
from lexigraft.training.trainable import prepare_phase

TOKENS = torch.arange(3, 60)[None]


@pytest.fixture
def trained_cell(training_setup):
    """A cell trained for a few steps, and the logits of the model that was trained."""

    def build(trainable, tied=True, dtype=torch.float32):
        from transformers import AutoModelForCausalLM

        place = training_setup(tied=tied)
        if dtype != torch.float32:
            AutoModelForCausalLM.from_pretrained(place.source).to(dtype).save_pretrained(
                place.source
            )
        model = AutoModelForCausalLM.from_pretrained(place.source, dtype=torch.float32)
        settings = {
            "phases": [{"trainable": trainable, "length": 32}],
            "learning_rate": 1e-2,
            "batch_sequences": 2,
        }
        job = place.job(settings)
        strategy = read_strategy(job["settings"])
        names, adapter = prepare_phase(model, strategy.phases[0])
        text = SequenceDataset(pack(concatenate([list(range(300))]), 32), np.arange(10))
        folder = Path(job["outputs"]["folder"])
        run_phase(
            model, strategy.phases[0], strategy, text, seed=1, folder=folder / "checkpoints",
            checkpoint=None, callbacks=[], objective=CausalModeling(),
        )  # fmt: skip
        with torch.no_grad():
            logits = model.eval()(TOKENS).logits
        save_cell(folder, model, names, adapter=adapter, job=job, read={})
        return folder, logits

    return build


PARTS = [["embeddings", "head", "lora"], ["embeddings", "head", {"layers": [0, -1]}], ["all"]]


@pytest.mark.parametrize(("trainable", "tied"), zip(PARTS, (True, False, True), strict=True))
def test_a_loaded_cell_computes_what_the_trained_model_did(trained_cell, trainable, tied):
    folder, logits = trained_cell(trainable, tied)
    model, tokenizer = load_cell(folder)
    assert torch.allclose(model(TOKENS).logits, logits, atol=1e-5)
    assert not model.training and len(tokenizer) == 300
    head, embeddings = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    assert (head is embeddings) == tied


def test_peft_itself_reads_the_adapters(trained_cell, training_setup):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder, logits = trained_cell(["lora"])
    source = AutoModelForCausalLM.from_pretrained(training_setup().source)
    model = PeftModel.from_pretrained(source, folder / "adapter").eval()
    assert torch.allclose(model(TOKENS).logits, logits, atol=1e-5)
    assert load_file(folder / "changed.safetensors") == {}
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert config["target_modules"] == sorted(config["target_modules"])
    assert config["base_model_name_or_path"] is None


@pytest.mark.parametrize(
    ("stored", "dtype", "tied"),
    [(torch.float32, torch.bfloat16, True), (torch.bfloat16, None, False)],
)
def test_each_weight_is_merged_in_float32_and_rounded_once(trained_cell, stored, dtype, tied):
    from transformers import AutoModelForCausalLM

    folder, _ = trained_cell(["embeddings", "lora"], tied, stored)
    model, _ = load_cell(folder, dtype)
    kind = dtype or stored
    card = json.loads((folder / "card.json").read_text())
    source = folder / card["references"]["source"]
    expected = AutoModelForCausalLM.from_pretrained(source, dtype=kind).state_dict()
    changed = load_file(folder / "changed.safetensors")
    for name in expected:
        if name in changed or (tied and name == "lm_head.weight"):
            expected[name] = changed["model.embed_tokens.weight"].to(kind)
    adapter = load_file(folder / "adapter" / "adapter_model.safetensors")
    scale = 32 / 8  # alpha by rank
    for name in [name for name in adapter if "lora_A" in name]:
        delta = adapter[name.replace("lora_A", "lora_B")] @ adapter[name] * scale
        own = name.removeprefix("base_model.model.").replace("lora_A.", "")
        assert delta.any() and delta.dtype == torch.float32
        expected[own] = (expected[own].float() + delta).to(kind)
    found = model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert {tensor.dtype for tensor in found.values()} == {kind}


def test_a_cell_without_training_is_the_source(train, training_setup):
    from transformers import AutoModelForCausalLM

    folder = train({"phases": []}, strategy="none")
    assert load_file(folder / "changed.safetensors") == {}
    source = AutoModelForCausalLM.from_pretrained(training_setup().source)
    assert torch.equal(load_cell(folder)[0](TOKENS).logits, source(TOKENS).logits)
    (line,) = (folder / "log.jsonl").read_text().splitlines()
    card = json.loads((folder / "card.json").read_text())
    assert json.loads(line)["bits_per_byte"] == card["heldout_before"] == card["heldout_after"]
    assert (card["steps"], card["tokens"], card["trained_parameters"]) == (0, 0, 0)


@pytest.mark.parametrize("tied", [True, False])
def test_matrices_are_resized_to_the_rows_of_a_cell(tiny_llama, tied, tmp_path):
    model = tiny_llama(50, tied=tied)
    names = (
        ["model.embed_tokens.weight"] if tied else ["model.embed_tokens.weight", "lm_head.weight"]
    )
    rows = {name: torch.randn(57, 32) for name in names}
    load_tensors(model, rows, tmp_path)
    assert model.config.vocab_size == 57
    assert torch.equal(model.get_input_embeddings().weight, rows[names[0]])
    assert torch.equal(model.get_output_embeddings().weight, rows[names[-1]])
    assert model(torch.tensor([[56]])).logits.shape == (1, 1, 57)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


def test_two_stored_matrices_stay_untied_although_the_config_ties_them(tiny_llama, tmp_path):
    model = tiny_llama(50, tied=False)
    model.config.tie_word_embeddings = True
    rows = {name: torch.randn(57, 32) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    load_tensors(model, rows, tmp_path)
    assert torch.equal(model.lm_head.weight, rows["lm_head.weight"])
    assert torch.equal(model.model.embed_tokens.weight, rows["model.embed_tokens.weight"])


def cut(file):
    file.write_bytes(file.read_bytes()[:-20])


def flip(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.fault(
    "damage",
    "the tensors of a cell are damaged",
    "loading the cell fails with a one-line error message that names the file",
)
@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("changed.safetensors", cut, "changed.safetensors: has .* bytes instead of"),
        ("changed.safetensors", flip, "changed.safetensors: damaged"),
        ("adapter/adapter_model.safetensors", flip, "adapter_model.safetensors: damaged"),
        ("card.json", Path.unlink, "card.json: missing; the cell is not trained yet"),
        ("card.json", cut, "card.json: damaged"),
    ],
)
def test_a_damaged_file_is_named(trained_cell, name, damage, message):
    folder, _ = trained_cell(["embeddings", "lora"])
    damage(folder / name)
    with pytest.raises(UserError, match=message):
        load_cell(folder)


@pytest.mark.fault(
    "damage",
    "a file of a source model in the hub cache is truncated, changed or missing",
    "the step that reads it stops with a one-line error message that names the file",
)
def test_a_missing_source_is_named(trained_cell, training_setup):
    folder, _ = trained_cell(["embeddings"])
    shutil.rmtree(training_setup().source.parent)
    with pytest.raises(UserError, match=r"its source .* no longer exists"):
        load_cell(folder)


@pytest.mark.bad_input(
    "model", "a cell with tensors of another model", "a one-line error message names the tensors"
)
def test_tensors_of_another_model_are_refused(trained_cell):
    folder, _ = trained_cell(["embeddings"])
    save_file({"model.embed_tokens.weight": torch.zeros(320, 8)}, folder / "changed.safetensors")
    card = json.loads((folder / "card.json").read_text())
    from lexigraft.artifacts.cards import describe_file

    card["files"]["changed.safetensors"] = describe_file(folder / "changed.safetensors")
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(UserError, match="does not fit the source model"):
        load_cell(folder)


def test_a_cell_of_a_bfloat16_source_is_stored_in_bfloat16(trained_cell):
    folder, logits = trained_cell(["embeddings", {"layers": [0]}], dtype=torch.bfloat16)
    stored = load_file(folder / "changed.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    model, _ = load_cell(folder)
    assert model.dtype == torch.bfloat16
    assert (load_cell(folder, torch.float32)[0](TOKENS).logits - logits).abs().max() < 0.1


def test_a_cell_can_be_moved_together_with_its_inputs(trained_cell, tmp_path):
    folder, logits = trained_cell(["embeddings"])
    shutil.move(tmp_path / "results", tmp_path / "elsewhere")
    moved = tmp_path / "elsewhere" / folder.relative_to(tmp_path / "results")
    assert torch.allclose(load_cell(moved)[0](TOKENS).logits, logits, atol=1e-5)
