"""A phase: its loss, its optimizer, and how its steps are split into micro-batches."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from transformers import Gemma2Config, Gemma2ForCausalLM, TrainerCallback

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training import phase as module
from lexigraft.training.data import SequenceDataset, collate, concatenate, pack
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.objectives.mtp import MultiTokenPrediction, new_extra_head
from lexigraft.training.phase import micro_batch_tokens, run_phase, split_step
from lexigraft.training.settings import read_strategy
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import prepare_phase
from tests.training.test_train import LAYERS, SHARED, TWO_STAGE, folder_of, log_of, tensors_of


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


def test_raw_extra_logits_change_the_second_loss_of_a_model_with_soft_caps(tmp_path):
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


def test_compiled_layers_train_like_others(tiny_llama, tmp_path, monkeypatch):
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


def test_the_loss_is_the_mean_over_the_step(tiny_llama, tmp_path, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "32")
    model = tiny_llama(50)
    model.accepts_loss_kwargs = False  # as old architectures: the Trainer would scale by itself
    next_loss, after_next_loss, loss = first_losses(model, 4, tmp_path)
    assert loss == pytest.approx(next_loss + after_next_loss, rel=1e-6)
    assert next_loss == pytest.approx(np.log(50), rel=0.1)  # it knows nothing yet


def trained_parameters(model, objective):
    """Trained parameters by name, including those of an extra head."""
    modules = {"": model, **{f"{name}.": module for name, module in objective.modules().items()}}
    named = ((f"{prefix}{name}", parameter)
             for prefix, module in modules.items()
             for name, parameter in module.named_parameters())  # fmt: skip
    return {name: parameter for name, parameter in named if parameter.requires_grad}


@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize(
    ("trainable", "tied", "name"),
    [
        (["all"], True, "clm"),
        (["embeddings", "head", "lora"], False, "clm"),
        (["new-rows"], False, "clm"),
        (["head", {"layers": [0]}], False, "mtp"),
    ],
)
def test_three_steps_are_those_of_adamw_with_the_learning_rate_of_each_matrix(
    tiny_llama, tmp_path, trainable, tied, name, offload
):
    """The optimizer is written out: Loshchilov and Hutter (2019), Algorithm 2."""
    model = tiny_llama(50, tied=tied)
    strategy = read_strategy(
        {
            "phases": [{"trainable": trainable, "length": 24, "objective": name}],
            "batch_sequences": 2, "learning_rate": 1e-3, "embedding_learning_rate": 0.2,
            "lora": {"dropout": 0.0, "learning_rate_ratio": 16}, "weight_decay": 0.1,
            "epsilon": 1e-4, "gradient_clipping": 1e6, "schedule": "linear", "warmup": 0.0,
        }
    )  # fmt: skip
    prepare_phase(model, strategy.phases[0], new_ids=[3, 40])
    objective = CausalModeling()
    if name == "mtp":
        extra_head = new_extra_head(model, "copied", 0)
        objective = MultiTokenPrediction(extra_head, as_head=True, trained=True)
    sequences = SequenceDataset(pack(concatenate([list(range(50)) * 3]), 24), np.arange(6))
    expected_model, expected_objective = copy.deepcopy((model, objective))
    run_phase(
        model, strategy.phases[0], strategy, sequences, objective=objective, seed=0,
        folder=tmp_path, checkpoint=None, callbacks=[], offload=offload,
    )  # fmt: skip

    expected = trained_parameters(expected_model, expected_objective)
    moments = dict.fromkeys(expected, (0.0, 0.0))
    for step in (1, 2, 3):
        batch = collate([sequences[2 * step - 2], sequences[2 * step - 1]])
        output = expected_model(batch["input_ids"], output_hidden_states=True)
        logits = [output.logits]
        logits += [head(output.hidden_states[-1]) for head in expected_objective.modules().values()]
        loss = sum(
            cross_entropy(of_head[:, :-ahead].flatten(0, 1), batch["labels"][:, ahead:].flatten())
            for ahead, of_head in enumerate(logits, 1)
        )
        gradients = torch.autograd.grad(loss, list(expected.values()))
        for (name, parameter), gradient in zip(expected.items(), gradients, strict=True):
            ratio = 0.2 if "embed" in name or "head" in name else 16 if "lora_B" in name else 1
            rate = ratio * 1e-3 * (4 - step) / 3
            first, second = moments[name]
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            moments[name] = first, second
            root = (second / (1 - 0.999**step)).sqrt()
            decay = 0.0 if "norm" in name else 0.1
            update = first / (1 - 0.9**step) / (root + 1e-4) + decay * parameter.data
            parameter.data -= rate * update
    for name, parameter in trained_parameters(model, objective).items():
        torch.testing.assert_close(parameter, expected.pop(name), atol=1e-6, rtol=1e-6)
    assert not expected


LENGTHS = st.lists(st.integers(2, 40), min_size=1, max_size=30)


@given(lengths=LENGTHS, tokens=st.integers(1, 200), processes=st.integers(1, 7))
def test_every_sequence_is_in_one_micro_batch_of_one_process(lengths, tokens, processes):
    everyone = split_step(lengths, tokens, processes)
    assert len(everyone) == processes
    assert len({len(passes) for passes in everyone}) == 1
    parts = [part for passes in everyone for part in passes]
    assert sorted(place for part in parts for place in part) == [*range(len(lengths))]
    assert all(len(part) * max((lengths[at] for at in part), default=0) <= tokens
               for part in parts if len(part) > 1)  # fmt: skip
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_a_micro_batch_is_filled_by_tokens():
    assert split_step([80] * 16, 4096) == [[[*range(16)]]]
    assert [len(part) for part in split_step([512] * 16, 4096)[0]] == [8, 8]
    # Seven sequences, at most three at once: not three, three and one.
    assert split_step([10] * 7, 30) == [[[0, 1, 2], [3, 4], [5, 6]]]


def test_a_process_without_a_sequence_has_a_micro_batch_without_targets():
    one, other = split_step([3, 3, 3], 3, 2)
    assert (one, other) == ([[0], [2]], [[1], []])
    empty = collate([])
    assert (empty["labels"] == IGNORED).all() and empty["labels"].shape == (1, 2)


@pytest.fixture
def limited(monkeypatch):
    """`limited(tokens)`: passes of more tokens than these run out of memory, half way through."""

    def build(tokens):
        losses = CausalModeling.losses

        def computed(self, model, inputs, weights=None):
            found = losses(self, model, dict(inputs), weights)
            if inputs["input_ids"].numel() > tokens:
                found.sum().backward()  # what was computed by then must not count
                torch.rand(3)
                raise torch.OutOfMemoryError("CUDA out of memory")
            return found

        monkeypatch.setattr(CausalModeling, "losses", computed)

    return build


@pytest.mark.fault(
    "machine",
    "GPU memory runs out in a training step",
    "it is repeated with micro-batches of half the size, bit-identical to starting with that size",
)
def test_a_step_that_does_not_fit_equals_one_of_smaller_micro_batches(
    training_setup, limited, monkeypatch, caplog
):
    setup, found = training_setup(), []
    for name in ("small", "halved"):
        if name == "small":
            monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "32")
        else:
            monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", "128")
            limited(32)
        job = setup.job({**SHARED, "phases": TWO_STAGE}, strategy=name)
        job["seed"] = ["study", "training", "same"]
        train_cell(job)
        steps = [(line["loss"], line["tokens"]) for line in log_of(folder_of(job), "step")]
        found.append((tensors_of(folder_of(job)), steps))
    (small, steps), (halved, others) = found
    assert steps == others and small.keys() == halved.keys()
    assert all(torch.equal(small[key], halved[key]) for key in small)
    said = [record.message for record in caplog.records if "does not fit" in record.message]
    assert [message.split()[-2] for message in said] == 2 * ["64", "32"]


def test_a_sequence_that_does_not_fit_alone_is_an_error(training_setup, limited):
    limited(16)
    with pytest.raises(torch.OutOfMemoryError):
        train_cell(training_setup().job({**SHARED, "phases": [LAYERS]}))


def test_a_process_reads_only_its_own_sequences(monkeypatch):
    read, blocks = [], pack(concatenate([list(range(50))]), 5)

    class Recorded(SequenceDataset):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

    monkeypatch.setattr(module, "world_size", lambda: 2)
    monkeypatch.setattr(module, "rank", lambda: 1)
    trainer = object.__new__(module.PhaseTrainer)
    sequences = Recorded(blocks, np.arange(10))
    trainer.tokens = 1000
    trainer.objective, trainer.args = CausalModeling(), SimpleNamespace(device="cpu")
    trainer._begin([3, 4, 5, 6], sequences.tokens()[3:7], sequences)
    assert read == [5, 6] and [len(one["input_ids"]) for one in trainer.micro_batches] == [2]


@given(lengths=LENGTHS, tokens=st.integers(40, 200), processes=st.integers(1, 7))
def test_there_are_no_more_micro_batches_than_needed(lengths, tokens, processes):
    [own, *_] = split_step(lengths, tokens, processes)
    if len(own) > 1:
        fewer = np.array_split(np.arange(len(lengths)), (len(own) - 1) * processes)
        assert any(len(part) > 1 and len(part) * max(lengths[at] for at in part) > tokens
                   for part in fewer)  # fmt: skip


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5"])
def test_an_invalid_number_of_tokens_in_the_environment_is_refused(given, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PASS_TOKENS", given)
    with pytest.raises(UserError, match=f"^{'LEXIGRAFT_PASS_TOKENS'} .*: "):
        micro_batch_tokens("cpu")
