"""LoRA: what it adapts, its variants, and merging."""

import copy
import json
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from lexigraft.errors import UserError
from lexigraft.hardware import autocast
from lexigraft.inference.likelihood import score_texts
from lexigraft.training.lora import lora_targets, merge_lora
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import _save_adapter, load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import FrozenWeights, prepare_phase
from tests.training.interruption import EAGER, interrupted_at

SMALL = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
    "max_position_embeddings": 64, "initializer_range": 0.2,
}  # fmt: skip
EXPERTS = {
    "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
}  # fmt: skip
MAMBA2 = {"mamba_d_ssm": 64, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}
ARCHITECTURES = {
    "llama": {},
    "gpt2": {},
    "mixtral": EXPERTS,
    "granitemoe": EXPERTS,
    "llama4_text": EXPERTS | {"intermediate_size_mlp": 40},
    "deepseek_v3": EXPERTS | {"n_routed_experts": 4, "n_group": 1, "topk_group": 1,
                              "num_key_value_heads": 4, "first_k_dense_replace": 1,
                              "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
                              "qk_nope_head_dim": 8, "v_head_dim": 8},
    "jamba": EXPERTS | {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8},
    "falcon_h1": MAMBA2,
    "nemotron_h": EXPERTS | {"layers_block_type": ["mamba", "attention", "moe", "mlp"],
                             "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
                             "moe_shared_expert_intermediate_size": 24, "mamba_num_heads": 8,
                             "mamba_head_dim": 8, "ssm_state_size": 8, "n_groups": 2},
}  # fmt: skip
WITH_EXPERTS = [
    name for name, settings in ARCHITECTURES.items() if settings.keys() >= EXPERTS.keys()
]


def model_of(name):
    small = {**SMALL, **ARCHITECTURES[name]}
    if name == "nemotron_h":
        del small["num_hidden_layers"]
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **small)).eval()


def phase_of(**lora):
    settings = {"trainable": ["lora"], "length": 16, "lora": lora}
    return read_strategy({"phases": [settings]}).phases[0]


@pytest.mark.parametrize(
    ("name", "dora"), [*((name, False) for name in ARCHITECTURES), ("llama", True)]
)
def test_every_adapter_is_trained_and_merging_does_not_change_outputs(name, dora, tmp_path):
    from peft import PeftModel

    model = model_of(name)
    source, phase = copy.deepcopy(model), phase_of(dora=dora)
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    ids = torch.arange(3, 27).reshape(2, 12)
    _, adapter = prepare_phase(model, phase)
    model.eval()
    adapters = {key: value for key, value in model.named_parameters() if value.requires_grad}
    for key, parameter in adapters.items():
        if "lora_B" in key:
            torch.nn.init.normal_(parameter, std=0.1)
    for seed in range(4):  # each expert is chosen by a token
        batch = torch.randint(3, 60, (4, 16), generator=torch.Generator().manual_seed(seed))
        model(input_ids=batch, labels=batch).loss.backward()
    assert [key for key, parameter in adapters.items() if not parameter.grad.any()] == []
    expected = model(ids).logits.detach()
    _save_adapter(adapter, tmp_path / "adapter")
    changed = merge_lora(adapter)
    assert torch.allclose(model(ids).logits, expected, atol=1e-3)
    assert not torch.allclose(source(ids).logits, expected, atol=0.1)
    merged = dict(model.named_parameters())
    assert {key for key in weights if not torch.equal(weights[key], merged[key])} == set(changed)
    loaded = PeftModel.from_pretrained(source, str(tmp_path / "adapter")).merge_and_unload()
    assert torch.equal(loaded(ids).logits, model(ids).logits)


@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_experts_are_adapted_and_routers_are_not(name):
    model = model_of(name)
    targets = lora_targets(model, phase_of().lora)
    assert any("experts" in name or "input_linear" in name for name in targets.parameters)
    adapted = {f"{name}.weight" for name in targets.modules} | set(targets.parameters)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert not [name for name in adapted if shapes[name][0] == 4 and len(shapes[name]) == 2]
    assert not [name for name in adapted if "router" in name or name.endswith(".gate.weight")]


@pytest.mark.parametrize("name", ["falcon_h1", "nemotron_h"])
def test_weights_that_fused_kernels_read_are_left_out(name):
    targets = lora_targets(model_of(name), phase_of().lora)
    [left] = [key for key in targets.left_out if key.endswith(".out_proj")]
    assert "*" in left and targets.left_out[left].startswith("a fused kernel reads")
    assert not [name for name in targets.modules if name.endswith("out_proj")]


def test_a_cell_records_what_lora_left_out(training_setup, caplog, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")
    place = training_setup(tied=False, sentences=4)
    config = AutoConfig.for_model("mixtral", **SMALL | EXPERTS | {"vocab_size": 320})
    AutoModelForCausalLM.from_config(config).save_pretrained(place.source)
    phase = {"trainable": ["lora"], "length": 32}
    job = place.job({"phases": [phase], "epochs": 1, "batch_sequences": 4})
    with caplog.at_level(logging.INFO):
        train_cell(job)
    folder = Path(job["outputs"]["folder"])
    card = json.loads((folder / "card.json").read_text())
    assert card["lora_left_out"] == {
        "the setting dropout": "PEFT does not support dropout for fused experts"
    }
    assert "LoRA leaves out the setting dropout: PEFT does not support" in caplog.text
    model, tokenizer = load_cell(folder)
    texts = (place.corpus / "heldout.txt").read_text().splitlines()[:4]
    with autocast():
        found = score_texts(model, tokenizer, texts).bits_per_byte
    assert found == pytest.approx(card["heldout_after"], rel=1e-3)
    assert card["heldout_after"] < card["heldout_before"]


def test_dora_leaves_fused_experts_out():
    targets = lora_targets(model_of("mixtral"), phase_of(dora=True).lora)
    assert targets.modules and not targets.parameters
    assert targets.left_out["model.layers.*.mlp.experts.down_proj"].startswith("DoRA does not")


def test_a_model_without_linear_layers_is_refused_in_one_line(tiny_llama):
    model = tiny_llama(50)
    model.model.layers = torch.nn.ModuleList()
    with pytest.raises(UserError, match=r"^trainable: LlamaForCausalLM has no layer that LoRA"):
        prepare_phase(model, phase_of())


def strategy_of(**lora):
    return read_strategy(
        {
            "phases": [{"trainable": ["lora"], "length": 24, "lora": {"dropout": 0.0, **lora}}],
            "learning_rate": 1e-3, "schedule": "constant", "warmup": 0.0,
            "gradient_checkpointing": False,
        }
    )  # fmt: skip


@pytest.mark.parametrize(("rslora", "scale"), [(False, 2.0), (True, 4.0)])
def test_rslora_divides_the_update_by_the_root_of_the_rank(tiny_llama, rslora, scale):
    model = tiny_llama(50)
    before = model.model.layers[0].mlp.up_proj.weight.detach().clone()
    _, adapter = prepare_phase(model, strategy_of(r=4, alpha=8.0, rslora=rslora).phases[0])
    layer = model.model.layers[0].mlp.up_proj
    first, second = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    torch.nn.init.normal_(second)
    update = (second @ first).detach()
    merge_lora(adapter)
    after = model.model.layers[0].mlp.up_proj.weight
    assert torch.allclose(after, before + scale * update, atol=1e-5)


def test_dora_starts_with_the_norms_of_the_weights(tiny_llama, tmp_path, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")
    model = tiny_llama(50)
    model.save_pretrained(tmp_path)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    frozen = FrozenWeights(model, tmp_path)
    frozen.round_all_but(())
    frozen.prepare_phase(model, strategy_of(dora=True).phases[0])
    norms = {n: p for n, p in model.named_parameters() if "lora_magnitude_vector" in n}
    assert len(norms) == 4 * 7
    for name, norm in norms.items():
        weight = weights[name.replace(".lora_magnitude_vector.default", "")]
        assert norm.dtype == torch.float32 and norm.requires_grad
        assert torch.allclose(norm, weight.norm(dim=1), rtol=1e-6)


def test_a_cell_resumes_bit_for_bit_and_loads_as_it_was_trained(training_setup, telugu):
    """Of two phases with adapters of both kinds; those of the first are merged between them."""
    place = training_setup(tied=False, sentences=4)
    phase = {"trainable": ["lora"], "length": 32, "share": 0.5}
    kinds = [{"rslora": True}, {"dora": True, "learning_rate_ratio": 4.0}]
    job = place.job(
        {
            "phases": [{**phase, "lora": kind} for kind in kinds], "batch_sequences": 2,
            "epochs": 1, "learning_rate": 1e-2, "schedule": "wsd",
            "curve": {"sentences": 2, "points": 0},
        }
    )  # fmt: skip
    folder = Path(job["outputs"]["folder"])

    def outcome():
        files = sorted(folder.rglob("*.safetensors"))
        tensors = {(f.name, name): t for f in files for name, t in load_file(f).items()}
        return tensors, json.loads((folder / "card.json").read_text())

    train_cell(job)
    whole, card = outcome()
    model, tokenizer = load_cell(folder)
    found = score_texts(model, tokenizer, telugu[-10:-8])
    assert found.bits_per_byte == pytest.approx(card["heldout_after"], rel=1e-4)
    assert card["heldout_after"] < card["heldout_before"]
    with interrupted_at(card["steps"] - 1):
        train_cell(job, EAGER)
    train_cell(job, EAGER)
    again, resumed = outcome()
    assert resumed["resumed_from_step"] > card["steps"] / 2
    assert whole.keys() == again.keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())
