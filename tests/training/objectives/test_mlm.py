"""The loss of masked tokens, against transformers' own."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training.data import MaskedDataset, SequenceDataset, TextBlocks
from lexigraft.training.objectives.mlm import MaskedModeling
from lexigraft.training.registry import objective
from lexigraft.training.phase_settings import Phase

SIZES = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
}  # fmt: skip
FAMILIES = {
    "roberta": SIZES,
    "bert": SIZES,
    "distilbert": {"dim": 32, "hidden_dim": 32, "n_layers": 1, "n_heads": 2},
    "electra": {**SIZES, "embedding_size": 16},
    "modernbert": {**SIZES, "global_attn_every_n_layers": 1, "attn_implementation": "eager"},
}


@pytest.fixture(params=FAMILIES)
def model(request):
    config = AutoConfig.for_model(
        request.param, vocab_size=50, pad_token_id=1, **FAMILIES[request.param]
    )
    config.bos_token_id = config.eos_token_id = config.cls_token_id = config.sep_token_id = 2
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(config).eval()


def batch():
    """Two texts, the second padded; three tokens to restore."""
    ids = torch.randint(3, 50, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    labels = torch.full_like(ids, IGNORED)
    labels[0, 2], labels[0, 7], labels[1, 4] = 5, 6, 7
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def test_loss_and_gradients_are_those_of_transformers(model):
    expected = model(**batch()).loss * 3
    expected.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    losses = MaskedModeling().losses(model, batch())
    assert losses.shape == (1,)
    assert losses.item() == pytest.approx(expected.item(), rel=1e-5)
    losses.sum().backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(found[name], gradient, msg=name, atol=1e-6, rtol=1e-4)


def test_masked_tokens_are_counted(model):
    assert MaskedModeling().count_targets(batch()).tolist() == [3]


def test_a_pass_without_a_masked_token_has_no_loss_and_no_gradient(model):
    empty = batch()
    empty["labels"][:] = IGNORED
    losses = MaskedModeling().losses(model, empty)
    assert losses.tolist() == [0.0]
    losses.sum().backward()
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)


def test_only_phases_of_mlm_are_masked(roberta_tokenizer):
    plain = SequenceDataset(TextBlocks(np.arange(40, 72, dtype=np.int32), 8), np.arange(4))
    for name in ("clm", "mlm"):
        phase = Phase(trainable=["all"], length=8, objective=name)
        context = SimpleNamespace(tokenizer=roberta_tokenizer, phase=phase)
        data = objective(name).prepare_data(plain, context, ["cell"])
        assert (data is plain) == (name == "clm")
        assert isinstance(data, MaskedDataset) == (name == "mlm")
