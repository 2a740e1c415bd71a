"""A model with attached adapters computes what the grafted one does, and so do merged ones."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch.func import functional_call
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from lexigraft.errors import UserError
from lexigraft.initialization.graft import graft
from lexigraft.initialization.recipe import DenseRows, Recipe, RecipePair, assemble_recipe
from lexigraft.initialization.registry import initializer
from lexigraft.training.objective import Objective
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.settings import AdapterSettings
from lexigraft.training.vocadt_adapter import (
    WithAuxiliaryLoss,
    attach_adapters,
    attached_adapters,
    merge_adapters,
)
from lexigraft.vocabulary.expand import expand_tokenizer
from tests.architectures import tiny_model, tokenizers

SIZE = {
    "vocab_size": 310, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
    "head_dim": 8, "pad_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def random_model(name, tied):
    config = AutoConfig.for_model(name, **SIZE, tie_word_embeddings=tied)
    model = AutoModelForCausalLM.from_config(config).eval()
    if model.lm_head.bias is not None:
        torch.nn.init.normal_(model.lm_head.bias)
    return model


def llama(tied):
    return random_model("llama", tied)


def settings(form):
    return AdapterSettings(form=form, entries=400)


@pytest.fixture(scope="module")
def target(without_bos, telugu):
    return expand_tokenizer(without_bos, telugu, new_tokens=20)


@pytest.fixture(scope="module")
def start(without_bos, target):
    """Recipes that differ between input and head; the last token is the mean of all in both."""

    def recipe(method):
        rows = initializer(method).fit(without_bos, target, n_source=310).recipe_
        rows = csr_array(rows.weights[rows.new_ids])
        rows = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], 311)).tolil()
        rows[-1] = 0
        rows[-1, 310] = 1
        source_of = np.arange(320)
        source_of[300:] = -1
        return assemble_recipe(csr_array(rows), source_of, np.arange(300))

    return RecipePair(recipe("mean"), recipe("permutation"))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


TOKENS = torch.tensor([[1, 300, 319, 7, 300, 55], [310, 2, 2, 319, 290, 305]])


def layers(model):
    return [model.get_input_embeddings(), model.get_output_embeddings()]


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(  # a head with a bias, and an embedding that scales what it looks up
    ("name", "tied"), [("llama", True), ("phi", False), ("gemma3_text", True)]
)
def test_attached_and_merged_adapters_compute_what_a_grafted_model_does(
    name, tied, form, target, start
):
    model = random_model(name, tied)
    grafted = graft(copy.deepcopy(model), target, start)
    attach_adapters(model, target, start, settings(form))
    with torch.no_grad():
        torch.testing.assert_close(model(TOKENS).logits, grafted(TOKENS).logits)
        for adapter in attached_adapters(model):
            for weights in adapter.parameters():
                weights.add_(0.1 * torch.randn_like(weights))
        attached = model(TOKENS).logits
        merge_adapters(model, target)
        torch.testing.assert_close(model(TOKENS).logits, attached, atol=1e-4, rtol=1e-4)
    assert model.config.vocab_size == 320
    assert model.get_output_embeddings().weight is not model.get_input_embeddings().weight


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(("name", "tied"), [("llama", True), ("llama", False), ("phi", False)])
def test_gradients_equal_those_of_the_multiplied_matrices(name, tied, form, target, start):
    """By brute force: both matrices made whole, `A E`, and autograd through a plain model."""
    model = random_model(name, tied)
    plain = graft(copy.deepcopy(model), target, start)
    matrices, bias = [layer.weight.detach() for layer in layers(model)], layers(model)[1].bias
    layers(plain)[0].padding_idx = None  # it keeps a row from learning, and no row of a recipe
    layers(plain)[1].weight = torch.nn.Parameter(layers(plain)[1].weight.detach().clone())
    attach_adapters(model, target, start, settings(form))
    model.requires_grad_(False)
    adapters = attached_adapters(model)
    for adapter in adapters:
        for weights in adapter.parameters():
            weights.data.add_(0.1 * torch.randn_like(weights))
            weights.requires_grad_(True)
    recipes = [
        torch.from_numpy(adapter.recipe().weights.toarray()).float().requires_grad_()
        for adapter in adapters
    ]
    names = {id(parameter): name for name, parameter in plain.named_parameters()}
    made = {
        names[id(layer.weight)]: recipe @ matrix
        for layer, recipe, matrix in zip(layers(plain), recipes, matrices, strict=True)
    }
    if bias is not None:
        made[names[id(layers(plain)[1].bias)]] = recipes[1] @ bias.detach()
    logits = functional_call(plain, made, (), {"input_ids": TOKENS}).logits
    expected = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten(), reduction="sum"
    )
    expected.backward()
    batch = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS), "labels": TOKENS}
    found = CausalModeling().losses(model, batch).sum()
    found.backward()
    torch.testing.assert_close(found, expected)
    for adapter, recipe in zip(adapters, recipes, strict=True):
        if form == "dense":
            torch.testing.assert_close(adapter.weights.grad, recipe.grad, atol=1e-5, rtol=1e-4)
            continue
        left, right = adapter.recipe().left.tocoo(), adapter.right  # the recipe is their product
        wanted = (recipe.grad @ torch.from_numpy(right.toarray().T).float())[left.row, left.col]
        torch.testing.assert_close(adapter.values.grad, wanted, atol=1e-5, rtol=1e-4)


def test_configs_and_padding_become_those_of_a_grafted_model(target, start):
    model = llama(True)
    grafted = graft(copy.deepcopy(model), target, start)
    assert layers(model)[0].padding_idx == 2
    attach_adapters(model, target, start, settings("sparse"))
    merge_adapters(model, target)
    assert layers(model)[0].padding_idx == layers(grafted)[0].padding_idx == 2
    both = [{**m.config.to_dict(), "tie_word_embeddings": None} for m in (model, grafted)]
    assert both[0] == both[1]
    assert model.generation_config.to_dict() == grafted.generation_config.to_dict()


def test_only_rows_of_the_batch_are_computed(target, start, monkeypatch):
    model = llama(False)
    attach_adapters(model, target, start, settings("dense"))
    requested = []
    rows = attached_adapters(model)[0].rows
    monkeypatch.setattr(
        attached_adapters(model)[0], "rows", lambda ids, E: requested.append(ids) or rows(ids, E)
    )
    model(TOKENS)
    assert requested[0].tolist() == sorted(set(TOKENS.flatten().tolist()))


def test_a_model_that_does_not_call_its_head_is_refused():
    source, targets = tokenizers()
    model = tiny_model(AutoModelForMaskedLM, "mobilebert", len(source))
    start = initializer("mean").fit(source, targets["expand"]).recipe_
    with pytest.raises(UserError, match="not a plain embedding and a linear head"):
        attach_adapters(model, targets["expand"], start, settings("dense"))


def test_an_initialization_that_is_no_plain_recipe_is_refused(target, start):
    source_of = start.source_of
    drawn = DenseRows({"input": np.zeros((20, 16))}, source_of, 310)
    with pytest.raises(UserError, match="needs a recipe to start from"):
        attach_adapters(llama(True), target, drawn, settings("dense"))
    low = Recipe(start.input.left, start.input.right, start.input.new_ids, rank=4)
    with pytest.raises(UserError, match="reduced rank"):
        attach_adapters(llama(True), target, low, settings("dense"))


def test_another_model_or_tokenizer_is_refused(without_bos, target, start):
    with pytest.raises(UserError, match="fitted for 310 matrix rows"):
        attach_adapters(graft(llama(True), target, start), target, start, settings("dense"))
    with pytest.raises(UserError, match="fitted for 320"):
        attach_adapters(llama(True), without_bos, start, settings("dense"))


class TwoParts(Objective):
    loss_names = ("first_loss", "second_loss")

    def count_targets(self, batch):
        return torch.tensor([3, 2])

    def losses(self, model, inputs, weights=None):
        return torch.tensor([6.0, 1.0])


def test_the_auxiliary_loss_is_an_additional_part():
    drifts = [torch.tensor(0.5), torch.tensor(0.25)]
    adapters = [SimpleNamespace(drift=lambda drift=drift: drift) for drift in drifts]
    objective = WithAuxiliaryLoss(TwoParts(), adapters, alpha=0.1)
    assert objective.loss_names == ("first_loss", "second_loss", "aux_loss")
    assert objective.count_targets({}).tolist() == [3, 2, 1]
    assert objective.losses(None, {}).tolist() == pytest.approx([6, 1, 0.1 * 0.75])
