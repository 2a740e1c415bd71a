"""Several processes train the cell that one does, whole or in parts, also after one was killed."""

import json
import signal
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from lexigraft.training.distributed import Computation, full_tensor, group_of_one, shard
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.settings import read_strategy
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import prepare_phase
from lexigraft.training.training_log import TrainingLog
from tests.training import test_adapter_cells
from tests.training.process_group import train
from tests.training.test_adapter_cells import DENSE, SPARSE, log_of, matrices_of

own_tokenizer, adapter_cells = test_adapter_cells.own_tokenizer, test_adapter_cells.cells


# Embeddings and a second head, then also adapters; no dropout, which processes draw for themselves.
MTP = {"objective": "mtp", "length": 32, "share": 0.5}
PHASES = [
    {**MTP, "trainable": ["embeddings", "head"]},
    {**MTP, "trainable": ["embeddings", "lora"]},
]
SETTINGS = {
    "phases": PHASES,
    "batch_sequences": 5,
    "epochs": 1,
    "learning_rate": 1e-2,
    "embedding_learning_rate": 0.5,
    "lora": {"dropout": 0.0, "learning_rate_ratio": 2.0},
    "gradient_checkpointing": True,
}


def outcome(job):
    """Tensors of a cell, its log without times, and its card."""
    folder = Path(job["outputs"]["folder"])
    tensors = {}
    for file in folder.rglob("*.safetensors"):
        tensors |= {(file.name, name): tensor for name, tensor in load_file(file).items()}
    clocks = {"seconds", "tokens_per_second", "peak_memory_bytes"}
    lines = TrainingLog(folder / "log.jsonl").lines()
    log = [{key: value for key, value in line.items() if key not in clocks} for line in lines]
    return tensors, log, json.loads((folder / "card.json").read_text())


@pytest.fixture
def job(training_setup):
    return training_setup(tied=False, sentences=8).job(SETTINGS)


@pytest.fixture(scope="module")
def whole(training_setup_in, tmp_path_factory):
    """`whole(processes=1, sharded=False, tokens=None)`: what a run leaves that nothing stops."""

    @cache
    def run(processes=1, sharded=False, tokens=None):
        place = training_setup_in(tmp_path_factory.mktemp("whole"))
        job = place(tied=False, sentences=8).job(SETTINGS)
        assert train(job, processes, sharded=sharded, tokens=tokens) == 0
        return outcome(job)

    return run


def close(one, other):
    tensors, log, _ = one
    others, other_log, _ = other
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert torch.allclose(tensor, others[name], atol=1e-3), name
    for line, other_line in zip(log, other_log, strict=True):
        assert line.keys() == other_line.keys()
        for key, value in line.items():
            same = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
            assert other_line[key] == same, key


@pytest.mark.parametrize(
    ("processes", "sharded", "tokens"), [(2, False, None), (2, True, None), (3, False, 64)]
)
def test_several_processes_take_the_same_steps_as_one(whole, processes, sharded, tokens):
    # Three processes split five sequences into two micro-batches each, of which some are empty.
    together = whole(processes, sharded, tokens)
    close(together, whole())
    assert together[2]["processes"] == processes and together[2]["sharded"] == sharded
    assert {line["phase"] for line in together[1] if line["event"] == "step"} == {0, 1}


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_layers_are_gathered_in_their_precision_of_computation(
    tiny_llama, tmp_path, monkeypatch, precision
):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", str(precision).removeprefix("torch."))
    batch = {"input_ids": torch.arange(24).view(2, 12), "labels": torch.arange(24).view(2, 12)}
    seen = {}

    def gradients(computation, objective):
        losses = computation(objective.losses, dict(batch), None)
        objective.total(losses).backward()
        named = computation.model.named_parameters()
        return losses.detach(), {name: full_tensor(parameter.grad) for name, parameter in named}

    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/store")
    try:
        plain, objective = Computation(tiny_llama(50, tied=False)), CausalModeling()
        sharded, other = shard(plain, objective, torch.device("cpu"))
        for name in ("model.layers.0.mlp.up_proj", "lm_head"):
            sharded.model.get_submodule(name).register_forward_hook(
                lambda module, *_, name=name: seen.update({name: module.weight.dtype})
            )
        losses, found = gradients(sharded, other)
        expected_losses, expected = gradients(plain, objective)
    finally:
        dist.destroy_process_group()
    assert seen["model.layers.0.mlp.up_proj"] == precision
    assert seen.get("lm_head", torch.float32) == torch.float32
    exact = precision == torch.float32
    torch.testing.assert_close(losses, expected_losses, rtol=1e-6 if exact else 1e-3, atol=0)
    for name, gradient in expected.items():
        assert found[name].dtype == torch.float32
        tolerance = (1e-5 if exact else 0.03) * gradient.abs().max().item()
        assert torch.allclose(found[name], gradient, atol=tolerance), name


def test_dora_computes_norms_of_unrounded_weights(tiny_llama, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")
    model, seen = tiny_llama(50), set()
    phase = {"trainable": ["lora"], "length": 12, "lora": {"dora": True}}
    prepare_phase(model, read_strategy({"phases": [phase]}).phases[0])
    batch = {"input_ids": torch.arange(24).view(2, 12), "labels": torch.arange(24).view(2, 12)}
    with group_of_one():
        sharded, objective = shard(Computation(model), CausalModeling(), torch.device("cpu"))
        sharded.model.get_submodule("model.layers.0.mlp.up_proj").register_forward_hook(
            lambda layer, *_: seen.add(layer.base_layer.weight.dtype)
        )
        sharded(objective.losses, batch, None)
    assert seen == {torch.float32}


# Of about eight operations on files a step: in each of the two phases, and in the second one.
@pytest.mark.fault(
    "kill",
    "one of several training processes is killed",
    "all of them end; the next run resumes, and the result is bit-identical",
)
@pytest.mark.parametrize(("sharded", "deaths"), [(False, (25, 22)), (True, (40,))])
def test_several_processes_resume_bit_for_bit_after_one_was_killed(job, whole, sharded, deaths):
    for dies_at in deaths:
        assert train(job, 2, sharded=sharded, dies_at=dies_at) == -signal.SIGKILL
    assert train(job, 2, sharded=sharded) == 0
    again = outcome(job)
    tensors, log, _ = whole(2, sharded, None)
    assert 0 < again[2]["resumed_from_step"] < again[2]["steps"]
    assert again[1] == log
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in again[0].items())


@pytest.mark.fault(
    "kill",
    "training is killed repeatedly",
    "the result is bit-identical to that of an uninterrupted run",
)
def test_a_repeatedly_killed_run_equals_an_uninterrupted_one(job, whole):
    dies_at = 1
    while (status := train(job, dies_at=dies_at)) == -signal.SIGKILL:
        dies_at += 3  # of the eight or so of a step, another one each time
    assert status == 0 and dies_at > 20
    tensors, log, card = outcome(job)
    assert card["resumed_from_step"] > 0
    assert log == whole()[1]
    assert all(torch.equal(tensor, whole()[0][name]) for name, tensor in tensors.items())


@pytest.mark.parametrize(("phase", "sharded"), [(DENSE, True), (SPARSE, False)])
def test_two_processes_train_the_same_adapters_as_one(adapter_cells, phase, sharded):
    job = adapter_cells(sentences=6).job([phase])
    train_cell(job)
    alone, losses = matrices_of(job), [line["loss"] for line in log_of(job, "step")]
    assert train(job, 2, sharded=sharded) == 0
    assert [line["loss"] for line in log_of(job, "step")] == pytest.approx(losses, rel=1e-4)
    for which, matrix in matrices_of(job).items():
        torch.testing.assert_close(matrix, alone[which], atol=1e-4, rtol=1e-3)
