"""What is trained may live in the memory of the machine: training is the same."""

import json
from functools import cache
from itertools import count

import pytest
import torch
import torch.distributed as dist

from lexigraft.training.distributed import Computation, full_tensor, group_of_one, shard
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.train import train_cell
from tests.training.interruption import EAGER, interrupted_at
from tests.training.test_phase import limited
from tests.training.test_train import folder_of, log_of, same_bits, tensors_of

limited = limited  # a fixture
SETTINGS = {
    "batch_sequences": 4,
    "epochs": 1,
    "learning_rate": 1e-2,
    "gradient_checkpointing": True,
}
# Frozen and trained layers, and a second head; then adapters beside a trained embedding.
LAYERS = {"trainable": ["embeddings", "head", {"layers": [0, -1]}], "objective": "mtp"}
ADAPTERS = {"trainable": ["embeddings", "lora"]}
PHASES = [{"length": 32, "share": 0.5, **phase} for phase in (LAYERS, ADAPTERS)]


@pytest.fixture(scope="module")
def trained(training_setup_in, tmp_path_factory):
    return runs(training_setup_in, tmp_path_factory)


def runs(training_setup_in, tmp_path_factory):
    """A function `(offload, tokens=10_000, …)`: tensors, losses and norms of a cell.

    By default a step is one pass, so that nothing is added in another order. With `stop`, the run
    is interrupted at that step, and resumed.
    """
    setup = training_setup_in(tmp_path_factory.mktemp("cells"))(tied=False, sentences=4)
    counter = count()

    @cache
    def run(offload, tokens=10_000, precision="float32", stop=None, adapters=False):
        phases = [{**ADAPTERS, "length": 32}] if adapters else PHASES
        job = setup.job({**SETTINGS, "phases": phases}, strategy=f"s{next(counter)}")
        job["seed"] = ["study", "training", "same"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LEXIGRAFT_OFFLOAD", str(int(offload)))
            patch.setenv("LEXIGRAFT_PRECISION", precision)
            patch.setenv("LEXIGRAFT_PASS_TOKENS", str(tokens))
            if stop is not None:
                with interrupted_at(stop):
                    train_cell(job, EAGER)
            train_cell(job, EAGER)
        card = json.loads((folder_of(job) / "card.json").read_text())
        assert (card["resumed_from_step"] or 0) == (stop or 1) - 1
        steps = [(one["loss"], one["grad_norm"]) for one in log_of(folder_of(job), "step")]
        return tensors_of(folder_of(job)), steps

    return run


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_offloaded_training_is_bit_identical(trained, precision):
    plain, steps = trained(False, precision=precision)
    tensors, others = trained(True, precision=precision)
    assert same_bits(plain, tensors)
    assert steps == others


@pytest.mark.fault(
    "kill",
    "training is interrupted early, late, or between two phases",
    "it resumes from its last checkpoint; the result is bit-identical",
)
@pytest.mark.parametrize("stop", [2, -1])
def test_an_interrupted_run_resumes_bit_for_bit(trained, stop):
    whole, steps = trained(True)
    resumed, others = trained(True, stop=stop % len(steps))
    assert same_bits(whole, resumed) and steps == others


@pytest.mark.fault(
    "machine",
    "GPU memory runs out in a training step",
    "it is repeated with micro-batches of half the size, bit-identical to starting with that size",
)
def test_a_step_that_does_not_fit_is_restarted(trained, limited):
    small = trained(True, tokens=32, adapters=True)
    limited(32)
    halved = trained(True, tokens=128, adapters=True)
    assert same_bits(small[0], halved[0]) and small[1] == halved[1]


def test_only_trained_parameters_are_offloaded(tiny_llama):
    model = tiny_llama(50, tied=False).requires_grad_(False)
    model.model.layers[0].requires_grad_(True)
    frozen = model.lm_head.weight
    with group_of_one():
        plain, objective = Computation(model), CausalModeling()
        sharded, own = shard(plain, objective, torch.device("cpu"), offload=True)
        assert sharded.model.lm_head.weight.data_ptr() == frozen.data_ptr()
        batch = {"input_ids": torch.arange(24).view(2, 12), "labels": torch.arange(24).view(2, 12)}
        own.total(sharded(own.losses, dict(batch), None)).backward()
        objective.total(plain(objective.losses, dict(batch), None)).backward()
        named = dict(sharded.model.named_parameters())
        for name, parameter in model.named_parameters():
            assert torch.equal(full_tensor(named[name]), parameter)
            if parameter.requires_grad:
                assert torch.equal(full_tensor(named[name].grad), parameter.grad), name
    assert not dist.is_initialized()
