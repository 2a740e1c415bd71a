"""Cells trained with two heads: as a plain loop would, and without a trace of the second head."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import lexigraft
from lexigraft.inference.text_encoding import encode
from lexigraft.randomness import seed_from
from lexigraft.training import train as training
from lexigraft.training.data import concatenate, pack
from lexigraft.training.plan import visiting_order
from lexigraft.training.training_log import TrainingLog

LAYERS = {
    "trainable": ["embeddings", "head", {"layers": [0, -1]}],
    "length": 32,
    "objective": "mtp",
}


SHARED = {"batch_sequences": 4, "epochs": 1, "learning_rate": 1e-2, "gradient_checkpointing": False}
TWO_STAGE = [
    {"trainable": ["embeddings", "head"], "length": 32, "objective": "mtp", "share": 0.5},
    {"trainable": ["embeddings", "head", "lora"], "length": 32, "objective": "mtp", "share": 0.5},
]


def steps_of(folder):
    return TrainingLog(Path(folder) / "log.jsonl").lines("step")


def by_hand(job, model, tokenizer, start):
    """Two-stage tuning with two heads, one sequence after the other; losses as pairs."""
    from peft import LoraConfig, get_peft_model
    from transformers import set_seed

    sentences = (Path(job["inputs"]["corpus"]) / "train.txt").read_text("utf-8").split("\n")[:-1]
    blocks = pack(concatenate(encode(tokenizer, sentences)), 32)
    body, head = model.model, model.lm_head
    extra = torch.nn.Linear(32, 320, bias=False)
    if start == "copied":
        extra.weight.data.copy_(head.weight)
    else:
        draw = torch.Generator().manual_seed(seed_from(*job["seed"], "extra-head"))
        extra.weight.data.copy_(0.02 * torch.randn(320, 32, generator=draw))
    losses = []
    for number, share in enumerate([(0, 0.5), (0.5, 1)]):
        set_seed(seed_from(*job["seed"], f"phase-{number}"))
        model.requires_grad_(False)
        if number == 1:
            targets = "all-linear"
            peft = get_peft_model(model, LoraConfig(r=8, lora_alpha=32, target_modules=targets))
        model.get_input_embeddings().weight.requires_grad_(True)
        head.weight.requires_grad_(True)
        trained = [p for p in [*model.parameters(), extra.weight] if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.01)
        order = visiting_order(blocks, 1, share, job["seed"])
        steps = math.ceil(len(order) / 4)
        warm = math.ceil(0.05 * steps)
        model.train()
        for step in range(steps):
            nats, counts = [0.0, 0.0], [0, 0]
            for index in order[4 * step : 4 * step + 4]:
                ids = torch.tensor(blocks[int(index)].tokens.tolist())
                hidden = body(input_ids=ids[None]).last_hidden_state[0]
                for which, layer in enumerate((head, extra)):
                    chosen = layer(hidden).log_softmax(-1)[: -1 - which]
                    after = ids[1 + which :]
                    nats[which] -= chosen[torch.arange(len(after)), after].sum()
                    counts[which] += len(after)
            parts = [total / count for total, count in zip(nats, counts, strict=True)]
            sum(parts).backward()
            losses.append([part.item() for part in parts])
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            done = (step - warm) / (steps - warm)
            rate = 0.5 * (1 + math.cos(math.pi * done))
            if step < warm:
                rate = (step + 1) / (warm + 1)
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 * rate
            optimizer.step()
            optimizer.zero_grad()
    return losses, peft.merge_and_unload()


@pytest.mark.parametrize(("start", "tied"), [("copied", False), ("random", True)])
def test_a_cell_equals_the_same_training_by_hand(training_setup, without_bos, start, tied):
    from transformers import AutoModelForCausalLM

    place = training_setup(tied=tied)
    phases = [{**phase, "extra_head": start} for phase in TWO_STAGE]
    job = place.job({**SHARED, "phases": phases, "lora": {"dropout": 0.0}})
    training.train_cell(job)
    source = AutoModelForCausalLM.from_pretrained(place.source)
    losses, expected = by_hand(job, source, without_bos, start)
    steps = steps_of(job["outputs"]["folder"])
    logged = [[line["next_loss"], line["after_next_loss"]] for line in steps]
    assert np.allclose(logged, losses, rtol=1e-4)
    assert [line["loss"] for line in steps] == pytest.approx([sum(p) for p in losses], rel=1e-4)
    model, _ = lexigraft.load_cell(job["outputs"]["folder"])
    for (name, parameter), other in zip(
        model.named_parameters(), expected.parameters(), strict=True
    ):
        assert torch.allclose(parameter, other, atol=5e-4), name


def test_the_extra_head_is_neither_stored_nor_exported(train, tmp_path):
    from transformers import AutoModelForCausalLM

    folder = train({**SHARED, "phases": TWO_STAGE})
    phases = [{**phase, "objective": "clm"} for phase in TWO_STAGE]
    plain = train({**SHARED, "phases": phases}, strategy="plain")
    stored, adapters = "changed.safetensors", "adapter/adapter_model.safetensors"
    for file in (stored, adapters):
        assert load_file(folder / file).keys() == load_file(plain / file).keys()
    cards = [json.loads((cell / "card.json").read_text()) for cell in (folder, plain)]
    assert [card["extra_head_parameters"] for card in cards] == [320 * 32, 0]
    for name in ("trained_parameters", "total_parameters"):
        assert cards[0][name] == cards[1][name]
    out = lexigraft.export(folder, tmp_path / "out")
    _, found = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not any(found.values()), found


def test_the_heldout_curve_is_that_of_the_next_token(train):
    def curve(objective):
        settings = {**SHARED, "phases": [{**LAYERS, "objective": objective}]}
        return TrainingLog(train(settings) / "log.jsonl").lines("heldout")

    one, other = curve("clm"), curve("mtp")
    assert one[0] == other[0] and one[-1] != other[-1]
    assert other[-1]["bits_per_byte"] < 0.95 * other[0]["bits_per_byte"]
