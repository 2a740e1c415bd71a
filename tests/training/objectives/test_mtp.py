"""The extra head's logits and losses, against loops and forward passes written out by hand."""

import math

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference import chunked_logits as chunked_module
from lexigraft.inference.chunked_logits import IGNORED, chunked_logits
from lexigraft.training.data import TrainingSequence, collate
from lexigraft.training.objectives.mtp import MultiTokenPrediction, new_extra_head


def distinct_head(model):
    """An extra head that computes something else than the model's own."""
    extra = new_extra_head(model, "copied", 0)
    with torch.no_grad():
        extra.weight.copy_(extra.weight.flip(0) * 1.5)
    return extra


def objective_of(model, extra=None, as_head=True):
    """The objective, whose extra head is in the model as it is while a phase runs."""
    objective = MultiTokenPrediction(extra or distinct_head(model), as_head=as_head, trained=True)
    for name, module in objective.modules().items():
        model.add_module(name, module)
    return objective


def extra_logits(model, objective, inputs):
    """[positions, vocabulary]"""
    readout = chunked_logits(model, inputs)
    return objective.extra_logits(readout, readout.states.flatten(0, 1))


def by_hand(model, extra, inputs):
    hidden = model.base_model(**inputs).last_hidden_state.flatten(0, 1)
    return hidden @ extra.weight.T + (0 if extra.bias is None else extra.bias)


def test_extra_logits_are_treated_like_the_model_s_logits(family, padded):
    model, after = family
    expected = model(**padded()).logits
    objective = objective_of(model)
    raw = by_hand(model, objective.extra_head, padded())
    assert torch.allclose(extra_logits(model, objective, padded()), after(raw), atol=1e-5)
    assert torch.equal(model(**padded()).logits, expected)  # the model is as it was


@pytest.mark.parametrize("family", ["gemma2"], indirect=True)
def test_raw_extra_logits_are_the_output_of_the_extra_head(family, padded):
    model, _ = family
    objective = objective_of(model, as_head=False)
    raw = by_hand(model, objective.extra_head, padded())
    assert torch.allclose(extra_logits(model, objective, padded()), raw, atol=1e-5)


@pytest.mark.parametrize("family", ["gemma2", "gptj"], indirect=True)
def test_a_copied_head_starts_with_the_model_s_logits_and_is_untied(family, padded):
    model, _ = family
    own = model.get_output_embeddings()
    before = own.weight.detach().clone()
    objective = objective_of(model, new_extra_head(model, "copied", 0))
    found = extra_logits(model, objective, padded())
    assert torch.allclose(found, model(**padded()).logits.flatten(0, 1), atol=1e-5)
    with torch.no_grad():
        objective.extra_head.weight.zero_()
    assert torch.equal(own.weight, before)


@pytest.mark.parametrize("family", ["llama", "gptj"], indirect=True)
def test_a_random_head_has_the_model_s_deviation_and_follows_the_seed(family):
    model, _ = family
    own = model.get_output_embeddings()
    extra, again, other = (new_extra_head(model, "random", seed) for seed in (5, 5, 6))
    assert torch.equal(extra.weight, again.weight)
    assert not torch.equal(extra.weight, other.weight)
    assert extra.weight.shape == own.weight.shape
    assert extra.weight.std().item() == pytest.approx(0.5, rel=0.1)
    assert extra.weight.mean().item() == pytest.approx(0, abs=0.05)
    assert extra.bias is None or not extra.bias.any()


def test_losses_are_those_of_a_loop_over_positions(tiny_llama, monkeypatch):
    monkeypatch.setitem(chunked_module.CHUNK_LOGITS, "cpu", 200)  # four positions
    model = tiny_llama(50, tied=False)
    torch.nn.init.normal_(model.lm_head.weight)
    objective = objective_of(model)
    batch = collate(
        [TrainingSequence(torch.arange(n).numpy()) for n in (6, 2, 4)]
    )  # the middle one has no t + 2
    labels = batch["labels"]
    labels[0, 3] = IGNORED  # a token that is no target of either head
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    logits = [model(**inputs).logits, by_hand(model, objective.extra_head, inputs).view(3, 6, 50)]
    expected, counts = [0.0, 0.0], [0, 0]
    for row in range(3):
        for place in range(6):
            for which, ahead in enumerate((1, 2)):
                target = labels[row, place + ahead].item() if place + ahead < 6 else IGNORED
                if target != IGNORED:
                    scores = logits[which][row, place].tolist()
                    total = math.log(sum(math.exp(score) for score in scores))
                    expected[which] += total - scores[target]
                    counts[which] += 1
    assert counts == [(5 - 1) + 1 + 3, (4 - 1) + 0 + 2]
    assert objective.count_targets(batch).tolist() == counts
    assert objective.losses(model, batch).tolist() == pytest.approx(expected, rel=1e-4)


def test_gradients_of_both_losses_are_those_of_all_logits_at_once(tiny_llama, padded, monkeypatch):
    monkeypatch.setitem(chunked_module.CHUNK_LOGITS, "cpu", 150)
    model, inputs = tiny_llama(50), padded()
    objective, ids = objective_of(model), inputs["input_ids"]
    logits = model(**inputs).logits, by_hand(model, objective.extra_head, inputs).view(2, 7, 50)
    parts = [
        torch.nn.functional.cross_entropy(some[:, :-n].flatten(0, 1), ids[:, n:].flatten())
        for n, some in enumerate(logits, start=1)
    ]
    sum(parts).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    losses = objective.losses(model, {**inputs, "labels": ids})
    (losses / torch.tensor([12, 10])).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-6), name


def test_a_model_without_a_linear_head_is_refused(tiny_llama, monkeypatch):
    model = tiny_llama(50)
    monkeypatch.setattr(model, "get_output_embeddings", lambda: None)
    with pytest.raises(UserError, match="mtp needs a linear output head, but LlamaForCausalLM"):
        new_extra_head(model, "copied", 0)
