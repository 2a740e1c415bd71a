"""Every tensor with a row for each token follows its token, in each kind of architecture."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from lexigraft.errors import UserError
from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer
from tests.architectures import check_that_tokens_keep_their_rows, logits, tiny_model, tokenizers

# One model type of each kind of table, of head and of special id.
TYPES = [
    (AutoModelForCausalLM, "llama"),
    (AutoModelForCausalLM, "phi"),  # a bias of the head
    (AutoModelForCausalLM, "gemma3n_text"),  # per-layer embeddings
    (AutoModelForCausalLM, "gemma4_text"),
    (AutoModelForCausalLM, "deepseek_v4"),  # experts of each token
    (AutoModelForCausalLM, "codegen"),  # no padding token in its configuration
    (AutoModelForMaskedLM, "roberta"),  # positions after the padding token's id
    (AutoModelForMaskedLM, "mobilebert"),  # further columns of the head
    (AutoModelForMaskedLM, "neomme"),  # value embeddings
]


@pytest.mark.parametrize("change", ["expand", "prune"])
@pytest.mark.parametrize(("auto", "model_type"), TYPES)
def test_each_tensor_with_a_row_per_token_follows_its_token(auto, model_type, change, tmp_path):
    check_that_tokens_keep_their_rows(auto, model_type, change, tmp_path)


def grafted(model_type, method, seed=0):
    source, targets = tokenizers()
    model = tiny_model(AutoModelForCausalLM, model_type, len(source))
    torch.manual_seed(seed)
    fitted = initializer(method).fit(source, targets["expand"])
    return graft(model, targets["expand"], fitted), fitted


def test_per_layer_embeddings_of_new_tokens_follow_the_recipe():
    source = tiny_model(AutoModelForCausalLM, "gemma4_text", len(tokenizers()[0]))
    table = source.model.embed_tokens_per_layer.weight.detach()
    model, fitted = grafted("gemma4_text", "mean")
    expected = fitted.weights_.toarray() @ table.double().numpy()
    found = model.model.embed_tokens_per_layer.weight.detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_new_token_has_the_experts_of_the_source_token_with_the_largest_weight():
    source = tiny_model(AutoModelForCausalLM, "deepseek_v4", len(tokenizers()[0]))
    experts = source.model.layers[0].mlp.gate.tid2eid
    model, fitted = grafted("deepseek_v4", "merge")
    heaviest = fitted.weights_.toarray().argmax(axis=1)
    assert torch.equal(model.model.layers[0].mlp.gate.tid2eid, experts[heaviest])


def test_per_layer_embeddings_may_have_fewer_rows_than_the_vocabulary():
    """As Gemma 3n's have: the model reads row 0 for the other tokens."""
    source_tokenizer, targets = tokenizers()
    rows = len(source_tokenizer)
    model = tiny_model(AutoModelForCausalLM, "gemma3n_text", rows, per_layer_rows=rows - 5)
    before = logits(model, [3, rows - 1, rows - 6])
    fitted = initializer("mean").fit(source_tokenizer, targets["expand"])
    after = logits(graft(model, targets["expand"], fitted), [3, rows - 1, rows - 6])
    torch.testing.assert_close(after[:, :rows], before, atol=1e-5, rtol=1e-4)


def test_a_table_of_unknown_shape_is_refused_by_name():
    source, targets = tokenizers()
    model = tiny_model(AutoModelForCausalLM, "llama", len(source))
    kind, size = type(model), len(source)

    class WithPairs(kind):
        def __init__(self, config):
            super().__init__(config)
            self.register_buffer("pairs", torch.zeros(config.vocab_size, config.vocab_size))

    fitted = initializer("mean").fit(source, targets["expand"])
    before = WithPairs(model.config)
    with pytest.raises(UserError, match=rf"pairs \[{size}, {size}\]"):
        graft(before, targets["expand"], fitted)
    assert len(before.get_input_embeddings().weight) == size


@pytest.mark.parametrize("model_type", ["gemma3n_text", "gemma4_text", "deepseek_v4", "phi"])
def test_methods_without_a_recipe_carry_these_tensors_too(model_type, tmp_path):
    arguments = (AutoModelForCausalLM, model_type, "expand", tmp_path)
    check_that_tokens_keep_their_rows(*arguments, method="random")
