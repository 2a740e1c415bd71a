"""A model with attached adapters computes what the grafted one does, and so do merged ones."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch.func import functional_call
from transformers import AutoModelForMaskedLM

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
    "pad_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])


def llama(tied):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SIZE, tie_word_embeddings=tied))


def phi(tied):
    """Its head has a bias."""
    from transformers import PhiConfig, PhiForCausalLM

    model = PhiForCausalLM(PhiConfig(**SIZE, tie_word_embeddings=tied))
    torch.nn.init.normal_(model.lm_head.bias)
    return model


def gemma3(tied):
    """Its embedding scales what it looks up."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    return Gemma3ForCausalLM(Gemma3TextConfig(**SIZE, head_dim=8, tie_word_embeddings=tied))


MODELS = pytest.mark.parametrize(
    ("build", "tied"),
    [(llama, True), (phi, False), (gemma3, True)],
)


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


def settings(form, entries=400):
    return AdapterSettings(form=form, entries=entries)


def perturbed(model):
    """The model with perturbed adapters."""
    with torch.no_grad():
        for adapter in attached_adapters(model):
            for weights in adapter.parameters():
                weights.add_(0.1 * torch.randn_like(weights))
    return model


TOKENS = torch.tensor([[1, 300, 319, 7, 300, 55], [310, 2, 2, 319, 290, 305]])


@FORMS
@MODELS
def test_at_the_start_the_logits_are_those_of_the_grafted_model(build, tied, form, target, start):
    model = build(tied).eval()
    grafted = graft(copy.deepcopy(model), target, start)
    attach_adapters(model, target, start, settings(form))
    with torch.no_grad():
        torch.testing.assert_close(model(TOKENS).logits, grafted(TOKENS).logits)


@FORMS
@MODELS
def test_merged_adapters_do_not_change_outputs(build, tied, form, target, start):
    model = build(tied).eval()
    attach_adapters(model, target, start, settings(form))
    with torch.no_grad():
        attached = perturbed(model)(TOKENS).logits
        merge_adapters(model, target)
        torch.testing.assert_close(model(TOKENS).logits, attached, atol=1e-4, rtol=1e-4)
    assert model.config.vocab_size == 320
    assert model.get_output_embeddings().weight is not model.get_input_embeddings().weight


@FORMS
@MODELS
def test_gradients_equal_those_of_the_multiplied_matrices(build, tied, form, target, start):
    """By brute force: both matrices made whole, `A E`, and autograd through a plain model."""
    model = build(tied).eval()
    plain = graft(copy.deepcopy(model), target, start)
    matrices = [layer.weight.detach() for layer in layers(model)]
    bias = layers(model)[1].bias
    layers(plain)[0].padding_idx = None  # it keeps a row from learning, and no row of a recipe
    attach_adapters(model, target, start, settings(form))
    model.requires_grad_(False)
    for adapter in attached_adapters(perturbed(model)):
        adapter.requires_grad_(True)
    recipes = [
        torch.from_numpy(a.recipe().weights.toarray()).float() for a in attached_adapters(model)
    ]
    for recipe in recipes:
        recipe.requires_grad_()
    if tied:
        # As two matrices: the head's is another one than the input's.
        head = layers(plain)[1]
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    names = {id(p): name for name, p in plain.named_parameters()}
    made = {
        names[id(layer.weight)]: recipe @ matrix
        for layer, recipe, matrix in zip(layers(plain), recipes, matrices, strict=True)
    }
    if bias is not None:
        made[names[id(layers(plain)[1].bias)]] = recipes[1] @ bias.detach()
    logits = functional_call(plain, made, (), {"input_ids": TOKENS}).logits
    expected = loss(logits)
    expected.backward()
    batch = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS), "labels": TOKENS}
    found = CausalModeling().losses(model, batch).sum()
    found.backward()
    torch.testing.assert_close(found, expected)
    for adapter, recipe in zip(attached_adapters(model), recipes, strict=True):
        if form == "dense":
            torch.testing.assert_close(adapter.weights.grad, recipe.grad, atol=1e-5, rtol=1e-4)
            continue
        stored = adapter.recipe().left.tocoo()  # its last column is the mean of tokens 0 to 299
        of_bundles = torch.cat([recipe.grad, recipe.grad[:, :300].mean(1, keepdim=True)], dim=1)
        expected = of_bundles[stored.row, stored.col]
        torch.testing.assert_close(adapter.values.grad, expected, atol=1e-5, rtol=1e-4)
    assert all(p.grad is None for p in model.parameters() if not p.requires_grad)


def layers(model):
    return [model.get_input_embeddings(), model.get_output_embeddings()]


def loss(logits):
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten(), reduction="sum"
    )


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
    with pytest.raises(UserError, match="has more than one matrix"):
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


class Two(Objective):
    loss_names = ("first_loss", "second_loss")

    def count_targets(self, batch):
        return torch.tensor([3, 2])

    def losses(self, model, inputs, weights=None):
        return torch.tensor([6.0, 1.0])


class One(Two):
    loss_names = ()

    def count_targets(self, batch):
        return torch.tensor([3])

    def losses(self, model, inputs, weights=None):
        return torch.tensor([6.0])


@pytest.fixture
def adapters():
    return [SimpleNamespace(drift=lambda far=far: torch.tensor(far)) for far in (0.5, 0.25)]


def test_the_auxiliary_loss_is_an_additional_part(adapters):
    objective = WithAuxiliaryLoss(Two(), adapters, alpha=0.1)
    assert objective.loss_names == ("first_loss", "second_loss", "aux_loss")
    assert objective.count_targets({}).tolist() == [3, 2, 1]
    assert objective.losses(None, {}).tolist() == pytest.approx([6, 1, 0.1 * 0.75])


def test_the_auxiliary_loss_counts_once_per_step(adapters):
    objective = WithAuxiliaryLoss(One(), adapters, alpha=0.1)
    for passes in (1, 4):
        targets = torch.stack([objective.count_targets({}) for _ in range(passes)]).sum(0)
        losses = torch.stack([objective.losses(None, {}) for _ in range(passes)]).sum(0)
        assert (losses / targets).tolist() == pytest.approx([2, 0.075])
