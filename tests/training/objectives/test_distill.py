"""Distillation: its loss against scipy and plain autograd, and which models can be the teacher."""

import copy
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from transformers import LlamaConfig, LlamaForCausalLM

from lexigraft.errors import UserError
from lexigraft.inference import chunked_logits as chunked_module
from lexigraft.inference.chunked_logits import IGNORED, targets_ahead
from lexigraft.training.objectives.distill import (
    DistillSettings,
    LogitDistillation,
    divergence,
)
from lexigraft.training.settings import read_strategy
from lexigraft.training.teacher import Teacher

SHARED = 47  # of 50 rows: the last three are padding


@pytest.fixture
def teacher():
    """Larger than the models that learn, with padding rows of its own, and sure of itself."""
    torch.manual_seed(9)
    config = LlamaConfig(
        vocab_size=56, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=64, initializer_range=0.5,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def batch_of(padded):
    """A padded batch, of which two labels count for nothing."""
    batch = padded(rows=3)
    labels = batch["input_ids"].where(batch["attention_mask"].bool(), IGNORED)
    labels[0, :2] = IGNORED
    return {**batch, "labels": labels}


def plain(model, teacher, batch, temperature):
    """Nats and divergence of all positions at once, [2], with autograd over whole logits."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    logits, soft = model(**inputs).logits.float(), teacher(**inputs).logits.float()
    targets = targets_ahead(batch["labels"], 1)
    counted = targets != IGNORED
    nats = torch.nn.functional.cross_entropy(logits[counted], targets[counted], reduction="sum")
    ours, theirs = (some[..., :SHARED][counted] / temperature for some in (logits, soft))
    kl = (theirs.softmax(-1) * (theirs.log_softmax(-1) - ours.log_softmax(-1))).sum()
    return torch.stack([nats, temperature**2 * kl])


def gradients(model, loss):
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: grad for name, grad in zip(names, found, strict=True) if grad is not None}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_the_divergence_is_scipys(temperature):
    draw = np.random.default_rng(0)
    logits, soft = draw.normal(size=(2, 5, 11)) * 3
    ours, theirs = (softmax(some / temperature, axis=-1) for some in (logits, soft))
    found = divergence(torch.tensor(logits), torch.tensor(soft), temperature)
    assert np.allclose(found, temperature**2 * rel_entr(theirs, ours).sum(-1))


@pytest.mark.parametrize("family", ["llama", "gemma2", "gptj"], indirect=True)
@pytest.mark.parametrize(("chunk", "temperature", "weight"), [(1, 2.0, 0.1), (10_000, 1.0, 1.0)])
def test_losses_and_gradients_are_those_of_whole_logits(
    family, teacher, padded, monkeypatch, chunk, temperature, weight
):
    model, _ = family
    monkeypatch.setitem(chunked_module.CHUNK_LOGITS, "cpu", chunk)
    objective = LogitDistillation(
        teacher, DistillSettings(teacher="t", temperature=temperature, weight=weight), SHARED
    )
    found = objective.losses(model, batch_of(padded))
    expected = plain(model, teacher, batch_of(padded), temperature)
    assert torch.allclose(found, expected, rtol=1e-4)
    assert torch.allclose(
        objective.total(found), (1 - weight) * expected[0] + weight * expected[1], rtol=1e-4
    )
    ours = gradients(model, objective.total(found))
    theirs = gradients(model, (1 - weight) * expected[0] + weight * expected[1])
    assert ours.keys() == theirs.keys()
    for name, gradient in ours.items():
        assert torch.allclose(gradient, theirs[name], rtol=1e-3, atol=1e-4), name


def test_gradients_that_are_added_in_place_equal_those_of_autograd(teacher, tiny_llama, padded):
    model = tiny_llama(50, tied=False)
    objective = LogitDistillation(teacher, DistillSettings(teacher="t", weight=0.2), SHARED)
    # Both parts of a step have five targets.
    wanted = gradients(model, objective.total(objective.losses(model, batch_of(padded))) / 5)
    losses = objective.losses(model, batch_of(padded), torch.tensor([0.8 / 5, 0.2 / 5]))
    assert model.lm_head.weight.grad is not None
    (objective.total(losses) / 5).backward()
    for name, gradient in wanted.items():
        assert torch.allclose(model.get_parameter(name).grad, gradient, rtol=1e-4, atol=1e-5), name


def test_rows_that_are_not_shared_do_not_enter_the_divergence(teacher, tiny_llama, padded):
    model = tiny_llama(50, tied=False)
    objective = LogitDistillation(teacher, DistillSettings(teacher="t"), SHARED)
    before = objective.losses(model, batch_of(padded))
    with torch.no_grad():
        model.lm_head.weight[SHARED:] += 1
        teacher.lm_head.weight[SHARED:] += 1
    after = objective.losses(model, batch_of(padded))
    assert after[1] == before[1]
    assert after[0] != before[0]  # they are tokens that the model might say, as in any training


DISTILL = {"objective": "distill", "distill": {"teacher": "large"}, "trainable": ["all"]}


def strategy():
    return read_strategy({"phases": [{**DISTILL, "length": 32}]})


def with_tokens(tokenizer, *added):
    """A copy of a tokenizer with more tokens behind its own."""
    larger = copy.deepcopy(tokenizer)
    larger.add_tokens(list(added))
    return larger


def refused(folder, tokenizer):
    with pytest.raises(UserError) as error:
        LogitDistillation.check_inputs({"teacher": folder}, tokenizer, strategy())
    return str(error.value)


def test_a_teacher_with_other_tokens_is_refused_and_additional_ones_are_allowed(
    teacher_folder, without_bos
):
    first, large = len(without_bos), teacher_folder(with_tokens(without_bos, "a b", "c d"))
    LogitDistillation.check_inputs({"teacher": large}, without_bos, strategy())
    message = refused(large, with_tokens(without_bos, "c d", "a b"))
    assert f"large assigns id {first + 1} to the cell's token 'c d' with id {first};" in message
    message = refused(large, with_tokens(without_bos, "ཀ"))
    assert f"distill.teacher: large lacks the cell's token 'ཀ' with id {first}" in message


def test_a_masked_language_model_cannot_teach(teacher_folder, without_bos):
    folder = teacher_folder()
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]}
    (folder / "config.json").write_text(json.dumps(config))
    assert "large predicts masked tokens" in refused(folder, without_bos)


def test_a_teacher_is_loaded_frozen_and_in_the_jobs_precision(
    teacher_folder, without_bos, monkeypatch
):
    [phase] = strategy().phases
    context = SimpleNamespace(
        phase=phase,
        strategy=strategy(),
        tokenizer=without_bos,
        teacher=Teacher(teacher_folder()),
    )
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        monkeypatch.setenv("LEXIGRAFT_PRECISION", name)
        model = LogitDistillation.for_phase(context).teacher
        assert model.dtype == dtype and not model.training
        assert not any(parameter.requires_grad for parameter in model.parameters())
