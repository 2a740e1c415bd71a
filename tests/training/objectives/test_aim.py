"""Attention influence modeling: its loss and gradients by brute force, and what it can train."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from lexigraft.errors import UserError
from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training import distributed
from lexigraft.training.data import TrainingSequence, collate
from lexigraft.training.objective import Progress
from lexigraft.training.objectives.aim import AimSettings, AttentionInfluence, layers_for
from lexigraft.training.settings import read_strategy
from lexigraft.training.trainable import prepare_phase
from tests.training.objectives.conftest import MOST


@pytest.fixture
def teacher(tiny_llama):
    return tiny_llama(320, tied=False, seed=5).requires_grad_(False)


def objective_of(teacher, model, **given):
    """As a training has it, without the checks of a phase."""
    made = AttentionInfluence(teacher, AimSettings(**given), MOST)
    made.layers = layers_for(given.get("layers"), model)
    return made


def influences(model, ids, chunks, layer):
    """By pair of chunks, later and earlier: the vectors of all heads that the one takes.

    From attention weights and cached values of the whole model, token by token.
    """
    cache, ids = DynamicCache(), torch.tensor(ids)[None]
    usual = model.config._attn_implementation
    model.set_attn_implementation("eager")
    weights = model(ids, past_key_values=cache, output_attentions=True).attentions[layer][0]
    model.set_attn_implementation(usual)
    values = cache.layers[layer].values[0]
    values = values.repeat_interleave(len(weights) // len(values), dim=0)
    chunks = [int(chunk) for chunk in chunks]
    found = {}
    for end, chunk in enumerate(chunks):
        if chunk == IGNORED or chunk in chunks[end + 1 :]:
            continue  # not the last token of one
        for at in range(end + 1):
            if (other := chunks[at]) != IGNORED:
                pair = (chunk, other)
                found[pair] = found.get(pair, 0) + weights[:, end, at, None] * values[:, at]
    return found


def by_brute_force(model, teacher, sequences, layer):
    """The mean squared differences summed over all pairs, and how many these are."""
    total, count = 0.0, 0
    for one in sequences:
        ours = influences(model, one.tokens, one.teacher.own_chunks, layer)
        theirs = influences(teacher, one.teacher.tokens, one.teacher.chunks, layer)
        assert ours.keys() == theirs.keys()
        total += sum((ours[pair] - theirs[pair]).square().mean() for pair in ours)
        count += len(ours)
    return total, count


@pytest.mark.parametrize("layers", [1, 3])
def test_loss_and_gradients_are_those_of_all_pairs(tiny_llama, teacher, sequences, layers):
    model = tiny_llama(380, tied=False)
    objective = objective_of(teacher, model, layers=layers)
    expected, count = by_brute_force(model, teacher, sequences, layers - 1)
    assert objective.count_targets(collate(sequences)).tolist() == [count] and count > 300
    losses = objective.losses(model, collate(sequences))
    assert losses.tolist() == pytest.approx([expected.item()], rel=1e-4)
    found = torch.autograd.grad(losses[0], list(model.parameters()), allow_unused=True)
    wanted = torch.autograd.grad(expected, list(model.parameters()), allow_unused=True)
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-5 * theirs.abs().max())


def test_separate_documents_do_not_influence_each_other(tiny_llama, teacher, sequences):
    """A sequence of two documents has the losses of both."""
    model = tiny_llama(380, tied=False)
    objective = objective_of(teacher, model)
    first, second = sequences[:2]
    shift = len(first.tokens)
    both = TrainingSequence(
        np.concatenate([first.tokens, second.tokens]),
        positions=np.concatenate([np.arange(shift), np.arange(len(second.tokens))]),
        teacher=replace(
            first.teacher,
            tokens=np.concatenate([first.teacher.tokens, second.teacher.tokens]),
            chunks=np.concatenate([first.teacher.chunks, moved(second.teacher.chunks, shift)]),
            own_chunks=np.concatenate(
                [first.teacher.own_chunks, moved(second.teacher.own_chunks, shift)]
            ),
            positions=np.concatenate(
                [np.arange(len(one.teacher.tokens)) for one in (first, second)]
            ),
        ),
    )
    alone = collate([first, second])
    assert torch.equal(objective.count_targets(collate([both])), objective.count_targets(alone))
    joined, apart = (objective.losses(model, one) for one in (collate([both]), alone))
    assert torch.allclose(joined, apart, rtol=1e-3)


def moved(chunks, shift):
    return np.where(chunks == IGNORED, IGNORED, chunks + shift)


def test_gradients_are_the_same_with_gradient_checkpointing(tiny_llama, teacher, sequences):
    model = tiny_llama(380, tied=False).train()
    objective = objective_of(teacher, model, layers=3)
    gradients = []
    for again in (False, True):
        if again:
            model.activation_checkpointing_enable(
                activation_checkpointing_kwargs={"use_reentrant": False}
            )
        objective.total(objective.losses(model, collate(sequences))).backward()
        gradients.append(model.get_input_embeddings().weight.grad.clone())
        model.zero_grad()
    assert torch.allclose(*gradients, rtol=1e-4, atol=1e-6)


def test_a_process_without_a_sequence_has_no_pairs(tiny_llama, teacher):
    model = tiny_llama(380, tied=False)
    objective = objective_of(teacher, model)
    assert objective.count_targets(collate([])).tolist() == [0]
    losses = objective.losses(model, collate([]))
    objective.total(losses).backward()
    assert losses.tolist() == [0] and not model.get_input_embeddings().weight.grad.any()


@pytest.mark.parametrize("architecture", ["gemma2", "gpt_neox"])
def test_the_attention_of_other_architectures_is_recorded(sequences, architecture):
    """Gemma 2 caps its scores; here it has a window that is shorter than a sequence, too."""
    model, teacher = (random_model(architecture, rows) for rows in (380, 320))
    objective = objective_of(teacher.requires_grad_(False), model, layers=1)
    expected, _ = by_brute_force(model, teacher, sequences[:1], 0)
    [loss] = objective.losses(model, collate(sequences[:1]))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)


def random_model(architecture, rows):
    own = {"sliding_window": 8, "attn_logit_softcapping": 0.5} if architecture == "gemma2" else {}
    sizes = {"vocab_size": rows, "hidden_size": 32, "intermediate_size": 64, "head_dim": 16}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = AutoConfig.for_model(architecture, **sizes, **layers, **own)
    torch.manual_seed(rows)
    return AutoModelForCausalLM.from_config(config).eval()


def phase_of(**given):
    phase = {"objective": "aim", "trainable": ["embeddings"], "length": 32, **given}
    return read_strategy({"phases": [phase]})


def context_of(model, teacher, strategy):
    return SimpleNamespace(
        model=model, strategy=strategy, phase=strategy.phases[0], progress=Progress(), seed=[],
        teacher=SimpleNamespace(config=teacher.config, model=lambda: teacher),
    )  # fmt: skip


def test_tied_rows_can_be_trained(tiny_llama):
    model, teacher = tiny_llama(380, tied=True), tiny_llama(320, tied=True)
    strategy = phase_of(trainable=["new-rows"])
    prepare_phase(model, strategy.phases[0], range(320, 380))
    objective = AttentionInfluence.for_phase(context_of(model, teacher, strategy))
    assert objective.layers == 2 and len(teacher.model.layers) == 2
    assert len(model.model.layers) == 4


@pytest.mark.parametrize(
    ("trainable", "lost"),
    [(["embeddings", "head"], "lm_head"), (["embeddings", {"layers": [0, -1]}], "layers.3")],
)
def test_parameters_that_the_loss_does_not_depend_on_are_refused(tiny_llama, trainable, lost):
    model = tiny_llama(380, tied=False)
    strategy = phase_of(trainable=trainable)
    prepare_phase(model, strategy.phases[0])
    with pytest.raises(UserError, match=rf"aim: .* does not depend on .*{lost}"):
        AttentionInfluence.for_phase(context_of(model, tiny_llama(320), strategy))


def test_a_sharded_model_is_refused(tiny_llama, monkeypatch):
    monkeypatch.setattr(distributed, "is_sharded", lambda: True)
    with pytest.raises(UserError, match="aim cannot train a sharded model"):
        AttentionInfluence.for_phase(context_of(tiny_llama(380), tiny_llama(320), phase_of()))


def test_more_layers_than_the_model_has_are_refused(tiny_llama):
    with pytest.raises(UserError, match=r"aim.layers: 5 is more than the model's 4 layers"):
        layers_for(5, tiny_llama(10))
