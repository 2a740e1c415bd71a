"""Whole cells: phases equal training by hand, and a killed run ends like one that was not."""

import json
import math
import runpy
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers.models.llama.modeling_llama import LlamaMLP

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import encode
from lexigraft.randomness import seed_from
from lexigraft.training.data import concatenate, pack
from lexigraft.training.plan import visiting_order
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of, same_bits

SHARED = {"batch_sequences": 4, "epochs": 1, "learning_rate": 1e-2, "gradient_checkpointing": False}
LORA = {"trainable": ["embeddings", "head", "lora"], "length": 32}
LAYERS = {"trainable": ["embeddings", "head", {"layers": [0, 1, -2, -1]}], "length": 32}
TWO_STAGE = [
    {"trainable": ["embeddings", "head"], "length": 32, "share": 0.5},
    {"trainable": ["lora"], "length": 32, "share": 0.5},
]
MTP = [{**phase, "objective": "mtp"} for phase in TWO_STAGE]
MTP[1]["trainable"] = ["embeddings", "head", "lora"]


def log_of(folder, event):
    return TrainingLog(folder / "log.jsonl").lines(event)


def tensors_of(folder):
    """Every tensor of a cell, adapters included."""
    files = [folder / "changed.safetensors", folder / "adapter" / "adapter_model.safetensors"]
    return {
        (file.name, name): tensor
        for file in files
        if file.exists()
        for name, tensor in load_file(file).items()
    }


@pytest.mark.parametrize(("phase", "tied"), [(LORA, True), (LAYERS, False)])
def test_training_lowers_the_loss_on_training_and_heldout_text(train, phase, tied):
    folder = train({**SHARED, "phases": [phase], "epochs": 2}, tied=tied)
    steps, curve = log_of(folder, "step"), log_of(folder, "heldout")
    assert steps[-1]["loss"] < 0.8 * steps[0]["loss"]
    assert curve[-1]["bits_per_byte"] < 0.9 * curve[0]["bits_per_byte"]
    assert curve[0]["step"] == 0 and curve[-1]["step"] == steps[-1]["step"]
    card = json.loads((folder / "card.json").read_text())
    assert card["heldout_after"] == curve[-1]["bits_per_byte"]
    assert card["steps"] == len(steps) and card["tokens"] == steps[-1]["tokens"]
    per_batch = card["flops_per_token"] * card["tokens"] / card["steps"]
    assert card["flops_per_batch"] == pytest.approx(per_batch) and per_batch > 0
    assert not (folder / "checkpoints").exists()


def test_a_training_of_one_step_learns_and_warns_of_its_warm_up(train, caplog):
    folder = train({**SHARED, "phases": [LAYERS], "batch_sequences": 10_000})
    [step], curve = log_of(folder, "step"), log_of(folder, "heldout")
    assert step["learning_rate"] == SHARED["learning_rate"] / 2
    assert curve[-1]["bits_per_byte"] < curve[0]["bits_per_byte"]
    assert "the warm-up takes the only step of this phase" in caplog.text
    assert "its learning rate reaches 0.005 instead of 0.01" in caplog.text


def by_hand(job, model, tokenizer):
    """Two-stage tuning as a plain loop: AdamW, cosine with warm-up, clipping, token mean."""
    from peft import LoraConfig, get_peft_model
    from transformers import set_seed

    sentences = (Path(job["inputs"]["corpus"]) / "train.txt").read_text("utf-8").split("\n")[:-1]
    blocks = pack(concatenate(encode(tokenizer, sentences)), 32)
    losses = []
    for number, share in enumerate([(0, 0.5), (0.5, 1)]):
        set_seed(seed_from(*job["seed"], f"phase-{number}"))
        if number == 0:
            model.requires_grad_(False)
            model.get_input_embeddings().weight.requires_grad_(True)
        else:
            config = LoraConfig(r=8, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear")
            model = get_peft_model(model, config)
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(
            trained, lr=1e-2, weight_decay=0.01, eps=job["settings"]["epsilon"]
        )
        order = visiting_order(blocks, 1, share, job["seed"])
        steps = math.ceil(len(order) / 4)
        warm = math.ceil(0.05 * steps)
        model.train()
        for step in range(steps):
            total, count = 0.0, 0
            for index in order[4 * step : 4 * step + 4]:
                ids = torch.tensor(blocks[int(index)].tokens.tolist())[None]
                logits = model(input_ids=ids).logits[0, :-1]
                total += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
                count += ids.shape[1] - 1
            (total / count).backward()
            losses.append((total / count).item())
            torch.nn.utils.clip_grad_norm_(trained, job["settings"]["gradient_clipping"])
            done = (step - warm) / (steps - warm)
            rate = 0.5 * (1 + math.cos(math.pi * done))
            if step < warm:
                rate = (step + 1) / (warm + 1)
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 * rate
            optimizer.step()
            optimizer.zero_grad()
    return losses, model.merge_and_unload()


# With a large epsilon, AdamW's updates depend on the size of the gradients, and so on clipping.
@pytest.mark.parametrize(("clipping", "epsilon"), [(1.0, 1e-8), (0.1, 1e-2)])
def test_two_phases_equal_the_same_training_by_hand(training_setup, without_bos, clipping, epsilon):
    from transformers import AutoModelForCausalLM

    place = training_setup()
    optimizer = {"gradient_clipping": clipping, "epsilon": epsilon}
    job = place.job({**SHARED, **optimizer, "phases": TWO_STAGE, "lora": {"dropout": 0.0}})
    train_cell(job)
    source = AutoModelForCausalLM.from_pretrained(place.source)
    losses, expected = by_hand(job, source, without_bos)
    logged = [line["loss"] for line in log_of(folder_of(job), "step")]
    assert logged == pytest.approx(losses, rel=1e-4)
    model, _ = load_cell(folder_of(job))
    for (name, parameter), other in zip(
        model.named_parameters(), expected.state_dict().values(), strict=False
    ):
        assert torch.allclose(parameter, other, atol=2e-4), name


def test_the_size_of_micro_batches_does_not_change_a_step(train, monkeypatch):
    settings = {**SHARED, "phases": [LAYERS], "epochs": 0.5}
    alone = log_of(train(settings), "step")
    for limit in (32, 64, 10_000):
        monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", str(limit))
        steps = log_of(train(settings), "step")
        assert [line["tokens"] for line in steps] == [line["tokens"] for line in alone]
        losses = [line["loss"] for line in alone]
        assert [line["loss"] for line in steps] == pytest.approx(losses, 1e-4)


def test_gradient_checkpointing_changes_no_bit(train, monkeypatch):
    calls, forward = [], LlamaMLP.forward
    monkeypatch.setattr(LlamaMLP, "forward", lambda *given: calls.append(0) or forward(*given))
    found, counts = [], []
    for checkpointing, share in ((False, "1"), (True, "1"), (True, "0.5")):
        monkeypatch.setenv("LEXIGRAFT_RECOMPUTE", share)
        calls.clear()
        settings = {**SHARED, "phases": [LORA], "gradient_checkpointing": checkpointing}
        found.append(tensors_of(train(settings)))
        counts.append(len(calls))
    assert all(same_bits(one, found[0]) for one in found)
    once, every, half = counts
    assert once < every and half - once == (every - once) / 2


def without_clocks(log):
    clocks = {"seconds", "tokens_per_second", "share_of_peak", "peak_memory_bytes"}
    return [{key: value for key, value in line.items() if key not in clocks} for line in log]


def uninterrupted_runs(training_setup_in, tmp_path_factory):
    """A function of phases: tensors and log of a run over six sentences that nothing stops."""
    runs = {}

    def run(phases):
        if repr(phases) not in runs:
            setup = training_setup_in(tmp_path_factory.mktemp("uninterrupted"))
            job = setup(sentences=6).job({**SHARED, "phases": phases})
            train_cell(job)
            runs[repr(phases)] = tensors_of(folder_of(job)), log_of(folder_of(job), None)
        return runs[repr(phases)]

    return run


@pytest.fixture(scope="module")
def uninterrupted(training_setup_in, tmp_path_factory):
    """What `uninterrupted_runs` gives, once for all tests."""
    return uninterrupted_runs(training_setup_in, tmp_path_factory)


@pytest.mark.fault(
    "kill",
    "training is interrupted early, late, or between two phases",
    "it resumes from its last checkpoint; the result is bit-identical",
)
@pytest.mark.parametrize(
    ("phases", "where"),
    [
        ([LORA], "early"),
        (TWO_STAGE, "after the boundary of phases"),
        (TWO_STAGE[::-1], "late"),
        (MTP, "early"),
        (MTP[::-1], "late"),
        ([MTP[0], {**MTP[1], "trainable": ["lora"]}], "late"),  # the second head is frozen
    ],
)
def test_an_interrupted_run_is_bit_identical_to_an_uninterrupted_one(
    training_setup, uninterrupted, phases, where
):
    job = training_setup(sentences=6).job({**SHARED, "phases": phases})
    whole, log = uninterrupted(phases)
    steps = [line for line in log if line["event"] == "step"]
    last_phase = [line["step"] for line in steps if line["phase"] == len(phases) - 1]
    places = {"early": 3, "late": len(steps) - 1, "after the boundary of phases": last_phase[0]}
    steps_before = places[where]
    with interrupted_at(steps_before):
        train_cell(job, EAGER)
    assert not (folder_of(job) / "card.json").exists()
    train_cell(job, EAGER)
    card = json.loads((folder_of(job) / "card.json").read_text())
    assert card["resumed_from_step"] == (steps_before - 1 or None)
    # In all of them the tied matrices, and adapters of rank 8 on the layers.
    assert card["trained_parameters"] == 320 * 32 + 8 * 4 * 512
    assert same_bits(tensors_of(folder_of(job)), whole)
    assert without_clocks(log_of(folder_of(job), None)) == without_clocks(log)


@pytest.mark.fault(
    "machine",
    "a loss, a gradient or a held-out likelihood is not finite",
    "training stops with a one-line error message that names the cell and the step",
)
def test_a_run_that_diverges_stops_with_one_line(train):
    with pytest.raises(UserError, match=r"tiny/te/.*: the loss is .* at step \d+; lower learning"):
        train({**SHARED, "phases": [LORA], "learning_rate": 1e30})


def test_separate_documents_are_trained_as_if_each_were_alone(training_setup, without_bos):
    from transformers import AutoModelForCausalLM

    place = training_setup()
    job = place.job({**SHARED, "packing": "apart", "phases": [LAYERS]})
    train_cell(job)
    sentences = (place.corpus / "train.txt").read_text("utf-8").split("\n")[:-1]
    blocks = pack(concatenate(encode(without_bos, sentences)), 32, "apart")
    model = AutoModelForCausalLM.from_pretrained(place.source)
    total, count = 0.0, 0
    for index in visiting_order(blocks, 1, (0, 1), job["seed"])[:4]:
        block = blocks[int(index)]
        begins = [*np.flatnonzero(block.positions == 0), len(block.tokens)]
        for begin, end in pairwise(begins):
            ids = torch.tensor(block.tokens[begin:end].tolist())[None]
            nats = torch.nn.functional.cross_entropy(
                model(input_ids=ids).logits[0, :-1], ids[0, 1:], reduction="sum"
            )
            total, count = total + nats.item(), count + len(ids[0]) - 1
    assert log_of(folder_of(job), "step")[0]["loss"] == pytest.approx(total / count, rel=1e-5)


def test_only_the_first_sentences_are_used(train, training_setup, without_bos):
    folder = train({**SHARED, "phases": [LAYERS], "sentences": 3})
    sentences = (training_setup().corpus / "train.txt").read_text("utf-8").split("\n")[:3]
    tokens = sum(map(len, encode(without_bos, sentences)))
    assert log_of(folder, "step")[-1]["tokens"] == tokens - (tokens % 32 == 1)


def test_the_script_repeats_a_cell_from_its_job_file(training_setup, monkeypatch, capsys):
    script = Path(__file__).resolve().parents[2] / "scripts" / "train.py"
    job = training_setup().job({**SHARED, "phases": [LORA]})

    def run(argument):
        monkeypatch.setattr(sys, "argv", [str(script), str(argument)])
        runpy.run_path(str(script), run_name="__main__")

    run(json.dumps(job))
    first = {path.name: path.read_bytes() for path in folder_of(job).rglob("*.safetensors")}
    run(folder_of(job) / "job.json")
    again = {path.name: path.read_bytes() for path in folder_of(job).rglob("*.safetensors")}
    assert first == again and len(first) == 2
    job["settings"]["epochs"] = -1
    with pytest.raises(SystemExit):
        run(json.dumps(job))
    assert capsys.readouterr().err.splitlines()[-1] == (
        "error: strategy.epochs: -1 is not above 0 (passes over the text)"
    )


def test_the_log_counts_the_tokens_of_all_micro_batches(train, training_setup, without_bos):
    folder = train({**SHARED, "phases": [LORA], "epochs": 2})
    sentences = (training_setup().corpus / "train.txt").read_text("utf-8").split("\n")[:-1]
    tokens = sum(map(len, encode(without_bos, sentences)))
    lone = tokens % 32 == 1
    assert log_of(folder, "step")[-1]["tokens"] == 2 * (tokens - lone)


def test_a_job_with_other_settings_starts_from_the_beginning(training_setup):
    place = training_setup()
    with interrupted_at(3):
        train_cell(place.job({**SHARED, "phases": [LORA]}), EAGER)
    job = place.job({**SHARED, "phases": [LORA], "weight_decay": 0.5})
    train_cell(job)
    assert json.loads((folder_of(job) / "card.json").read_text())["resumed_from_step"] is None


def test_bfloat16_training_keeps_float32_weights(train, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")
    folder = train({**SHARED, "phases": [LORA], "epochs": 0.5})
    card = json.loads((folder / "card.json").read_text())
    assert card["precision"] == "bfloat16"
    assert {tensor.dtype for tensor in tensors_of(folder).values()} == {torch.float32}
    steps = log_of(folder, "step")
    assert steps[-1]["loss"] < steps[0]["loss"]
