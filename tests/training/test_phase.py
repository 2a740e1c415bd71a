"""What the settings of a phase do to the training itself."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, TrainerCallback

from lexigraft.training import phase as module
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.objectives.mtp import MultiTokenPrediction, new_extra_head
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.trainable import prepare_phase


class Losses(TrainerCallback):
    def __init__(self, *names):
        self.names, self.seen = names, []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.seen.append(tuple(logs[name] for name in self.names))


def first_losses(model, batch_sequences, folder, **phase_settings):
    """(next, after next, total) of the first step of MTP on the head, 16 tokens a sequence."""
    phases = [{"trainable": ["head"], "length": 16, "objective": "mtp", **phase_settings}]
    strategy = read_strategy({"phases": phases, "batch_sequences": batch_sequences})
    prepare_phase(model, strategy.phases[0])
    losses = Losses("next_loss", "after_next_loss", "loss")
    run_phase(
        model, strategy.phases[0], strategy,
        SequenceDataset(pack(concatenate([list(range(50)) * 2]), 16), np.arange(4)),
        seed=0, folder=folder, checkpoint=None, callbacks=[losses],
        objective=MultiTokenPrediction(
            new_extra_head(model, "copied", 0),
            as_head=strategy.phases[0].extra_logits == "as-head",
            trained=True,
        ),
    )  # fmt: skip
    return losses.seen[0]


def test_raw_extra_logits_give_another_second_loss_where_the_model_caps_its_own(tmp_path):
    config = Gemma2Config(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, head_dim=16,
        num_attention_heads=2, num_key_value_heads=1, initializer_range=0.5,
        final_logit_softcapping=3.0,
    )  # fmt: skip
    first = {}
    for extra_logits in ("as-head", "raw"):
        torch.manual_seed(0)
        model = Gemma2ForCausalLM(config)
        first[extra_logits] = first_losses(model, 2, tmp_path, extra_logits=extra_logits)
    assert first["as-head"][0] == pytest.approx(first["raw"][0], rel=1e-6)
    assert first["as-head"][1] < first["raw"][1] - 0.5  # a cap keeps wrong guesses cheap


def test_compiled_layers_train_as_others_do(tiny_llama, tmp_path, monkeypatch):
    compiled, original = [], torch.nn.Module.compile

    def compile_without_a_compiler(module):
        compiled.append(module)
        original(module, backend="eager")

    def losses():
        model = tiny_llama(50)
        phases = [{"trainable": ["lora"], "length": 24, "lora": {"dropout": 0.0}}]
        strategy = read_strategy({"phases": phases, "batch_sequences": 2, "learning_rate": 1e-2})
        prepare_phase(model, strategy.phases[0])
        found = Losses("loss")
        run_phase(
            model, strategy.phases[0], strategy,
            SequenceDataset(pack(concatenate([list(range(50)) * 2]), 24), np.arange(4)),
            seed=0, folder=tmp_path, checkpoint=None, callbacks=[found], objective=CausalModeling(),
        )  # fmt: skip
        return found.seen

    monkeypatch.setattr(torch.nn.Module, "compile", compile_without_a_compiler)
    expected = losses()
    assert not compiled
    monkeypatch.setenv("LEXIGRAFT_COMPILE", "1")
    found = losses()
    assert len(compiled) == 4 and len(found) == 2
    for (loss,), (other,) in zip(found, expected, strict=True):
        assert loss == pytest.approx(other, rel=1e-4)


def test_the_loss_is_a_mean_over_the_step_whatever_the_model_accepts(
    tiny_llama, tmp_path, monkeypatch
):
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "32")
    model = tiny_llama(50)
    model.accepts_loss_kwargs = False  # as old architectures: the Trainer would scale by itself
    next_loss, after_next_loss, loss = first_losses(model, 4, tmp_path)
    assert loss == pytest.approx(next_loss + after_next_loss, rel=1e-6)
    assert next_loss == pytest.approx(np.log(50), rel=0.1)  # it knows nothing yet


def test_a_process_reads_its_own_sequences_alone(monkeypatch):
    read, blocks = [], pack(concatenate([list(range(50))]), 5)

    class Recorded(SequenceDataset):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

    monkeypatch.setattr(module, "world_size", lambda: 2)
    monkeypatch.setattr(module, "rank", lambda: 1)
    trainer = object.__new__(module.PhaseTrainer)
    trainer.train_dataset = Recorded(blocks, np.arange(10))
    trainer.lengths, trainer.tokens = trainer.train_dataset.tokens(), 1000
    trainer.objective, trainer.args = CausalModeling(), SimpleNamespace(device="cpu")
    trainer._begin([3, 4, 5, 6])
    assert read == [5, 6] and [len(one["input_ids"]) for one in trainer.micro_batches] == [2]
