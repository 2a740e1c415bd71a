"""A phase trains exactly what it names, in tied and untied models and any architecture."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import TrainerCallback

from lexigraft.errors import UserError
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.lora import lora_parameter_count
from lexigraft.training.objective import Progress
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.trainable import (
    prepare_phase,
    trained_parameter_count,
)

INPUT, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


def phase(*trainable, **settings):
    settings = {"trainable": list(trainable), "length": 16, **settings}
    return read_strategy({"phases": [settings]}).phases[0]


def unfrozen(model):
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def in_layers(model, *layers):
    return {
        name
        for name, _ in model.named_parameters()
        if any(name.startswith(f"model.layers.{layer}.") for layer in layers)
    }


@pytest.mark.parametrize(
    ("trainable", "tied", "untied"),
    [
        (["embeddings"], {INPUT}, {INPUT}),
        (["head"], {INPUT}, {OUTPUT}),
        (["embeddings", "head"], {INPUT}, {INPUT, OUTPUT}),
    ],
)
def test_tied_and_untied_matrices_are_unfrozen(tiny_llama, trainable, tied, untied):
    for is_tied, expected in ((True, tied), (False, untied)):
        model = tiny_llama(50, tied=is_tied)
        names, adapter = prepare_phase(model, phase(*trainable))
        assert unfrozen(model) == set(names) == expected
        assert adapter is None


def test_every_linear_layer_but_the_head_has_an_adapter(tiny_llama):
    model = tiny_llama(50, tied=False)
    names, adapter = prepare_phase(model, phase("head", "lora", lora={"r": 2}))
    linear = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    adapted = {name for name in unfrozen(model) if "lora_" in name}
    assert {name.split(".lora_")[0].split(".")[-1] for name in adapted} == set(linear)
    assert len(adapted) == 4 * 7 * 2
    assert unfrozen(model) - adapted == set(names) == {OUTPUT}
    # hidden 32, feed-forward 64, keys and values 16 wide: r x (in + out) for each
    sizes = [32 + 32, 32 + 16, 32 + 16, 32 + 32, 32 + 64, 32 + 64, 64 + 32]
    assert lora_parameter_count(adapter) == 4 * 2 * sum(sizes)


def test_trained_parameters_are_counted_once(tiny_llama):
    model, rows = tiny_llama(50), {INPUT}
    trained, merged = ({f"model.layers.{n}.mlp.up_proj.weight"} for n in (0, 1))
    prepare_phase(model, phase("lora"))
    progress = Progress(trained=trained, adapter_size=70, with_lora=merged, with_new_rows=rows)
    assert trained_parameter_count(model, progress, 3) == 32 * 64 + 70 + 3 * 32
    progress.trained |= rows
    assert trained_parameter_count(model, progress, 3) == 32 * 64 + 70 + 50 * 32


def flops_of_a_step(model, *trainable):
    """Multiplications and additions of a forward and backward pass over 3 sequences of 20."""
    prepare_phase(model, phase(*trainable))
    ids = torch.arange(60).view(3, 20) % 50
    with FlopCounterMode(display=False) as counter:
        CausalModeling().losses(model.train(), {"input_ids": ids, "labels": ids}).sum().backward()
    return counter.get_total_flops()


def test_frozen_layers_compute_no_gradients_of_their_weights(tiny_llama):
    model = tiny_llama(50, tied=False)
    frozen = [p.numel() for name, p in model.named_parameters() if name in in_layers(model, 1, 2)]
    weights = sum(size for size in frozen if size > 32)  # norms are no matrices
    saved = flops_of_a_step(model, "all") - flops_of_a_step(
        model, "embeddings", "head", {"layers": [0, -1]}
    )
    assert saved == 2 * 60 * weights


@pytest.mark.bad_input(
    "model",
    "a layer that the model does not have",
    "a one-line error message gives the number of layers",
)
def test_a_missing_layer_is_named(tiny_llama):
    with pytest.raises(UserError, match="layer 4 does not exist; the model has 4 layers"):
        prepare_phase(tiny_llama(50), phase({"layers": [4]}))


class Spy(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.with_gradient = {n for n, p in model.model.named_parameters() if p.grad is not None}

    def on_train_end(self, args, state, control, model=None, optimizer=None, **kwargs):
        names = {id(parameter): name for name, parameter in model.model.named_parameters()}
        self.with_state = {names[id(parameter)] for parameter in optimizer.optimizer.state}


@pytest.mark.parametrize(
    ("trainable", "tied"),
    [
        (["embeddings", "head", "lora"], False),
        (["embeddings", "head", {"layers": [0, -1]}], True),
    ],
)
def test_training_changes_exactly_the_unfrozen_parameters(tiny_llama, tmp_path, tied, trainable):
    model = tiny_llama(50, tied=tied)
    settings = {"trainable": trainable, "length": 16}
    strategy = read_strategy(
        {"phases": [settings], "batch_sequences": 2, "learning_rate": 1e-2, "warmup": 0}
    )
    prepare_phase(model, strategy.phases[0])
    expected = unfrozen(model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    text = pack(concatenate([list(range(50)) * 2]), 16)
    spy = Spy()
    run_phase(
        model, strategy.phases[0], strategy, SequenceDataset(text, np.arange(6)), seed=0,
        folder=tmp_path, checkpoint=None, callbacks=[spy],
        objective=CausalModeling(),
    )  # fmt: skip
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert moved == spy.with_gradient == spy.with_state == expected
    head = model.get_output_embeddings().weight
    assert (head is model.get_input_embeddings().weight) == tied
    if not tied:
        assert not torch.equal(head, before[OUTPUT])
