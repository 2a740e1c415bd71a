"""The loss of masked tokens, against transformers' own."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from lexigraft.inference.chunked_logits import IGNORED
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.objectives.mlm import MaskedModeling
from lexigraft.training.registry import objective
from lexigraft.training.settings import Phase

SIZES = {
    "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
}  # fmt: skip
FAMILIES = {
    "roberta": SIZES,
    "distilbert": {"dim": 32, "hidden_dim": 32, "n_layers": 1, "n_heads": 2},
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


def test_a_micro_batch_without_masked_tokens_has_no_loss_and_no_gradient(model):
    empty = batch()
    empty["labels"][:] = IGNORED
    losses = MaskedModeling().losses(model, empty)
    assert losses.tolist() == [0.0]
    losses.sum().backward()
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)


def prepared(sequences, tokenizer, seed, name="mlm"):
    """Sequences as an objective reads them."""
    phase = Phase.model_validate({"trainable": ["all"], "length": 8, "objective": name})
    context = SimpleNamespace(tokenizer=tokenizer, phase=phase)
    return objective(name).prepare_data(sequences, context, seed)


@pytest.fixture
def plain(roberta_tokenizer):
    """Two visits of five sequences of random tokens that are not special."""
    special = set(roberta_tokenizer.all_special_ids)
    ids = [number for number in range(len(roberta_tokenizer)) if number not in special]
    tokens = np.random.default_rng(0).choice(ids, 320).astype(np.int32)
    return SequenceDataset(
        pack(concatenate([tokens]), 64), np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
    )


def test_each_visit_has_its_own_reproducible_mask(plain, roberta_tokenizer):
    masked, other = (
        prepared(plain, roberta_tokenizer, ["study", "cell", f"phase-{n}"]) for n in (0, 1)
    )
    first, again, second = masked[0], masked[0], masked[5]
    assert (first.tokens == again.tokens).all() and (first.labels == again.labels).all()
    assert (first.labels != second.labels).any()  # the same text, visited again
    for index in range(len(masked)):
        drawn = masked[index].labels != IGNORED
        assert (masked[index].labels[drawn] == plain[index].tokens[drawn]).all()
    assert (other[0].labels != first.labels).any()
    assert (masked.tokens() == plain.tokens()).all()
