import copy
from itertools import chain

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lexigraft.errors import UserError
from lexigraft.initialization.graft import graft
from lexigraft.initialization.registry import initializer

CORPUS = ["abc", "xaby", "cdabe", "de"]


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Arithmetic of the definition, whatever is faster here."""
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")


@pytest.fixture
def pair(byte_level):
    """New: `ab`, `de` and `xyz`, whose pieces are `xy` and `z`."""
    merges = [("x", "y")]
    return byte_level(merges), byte_level([*merges, ("a", "b"), ("d", "e"), ("xy", "z")])


@pytest.fixture
def build(pair, tiny_llama):
    return lambda tied=False: tiny_llama(len(pair[0]) + 1, tied=tied)


def fit(pair, model, corpus=CORPUS, seed=0, **options):
    options = {"epochs": 30, "learning_rate": 0.01, "batch_size": 2, **options}
    return initializer("distill", **options).fit(
        *pair, corpus=corpus, n_source=model.get_input_embeddings().weight.shape[0],
        auxiliary={"model": model}, seed=seed,
    )  # fmt: skip


def difference(pair, model, grafted, texts):
    """By definition: hidden states of both models at the ends of target tokens from the first new
    one on, each text by itself."""
    source, target = pair
    n_source, squares = len(source), []
    for text in texts:
        ids = target(text)["input_ids"]
        pieces = [source(target.decode([i]))["input_ids"] for i in ids]
        first = next(place for place, i in enumerate(ids) if i >= n_source)
        ends = np.cumsum([len(part) for part in pieces])[first:]
        bos = source.bos_token_id
        with torch.no_grad():
            old = model.model(torch.tensor([[bos, *chain(*pieces)]])).last_hidden_state[0]
            new = grafted.model(torch.tensor([[bos, *ids]])).last_hidden_state[0]
        squares.append((new[first + 1 :] - old[ends]).square())
    return float(torch.cat(squares).mean())


def test_training_reduces_the_difference_of_hidden_states(pair, build):
    model = build()
    mean = graft(build(), pair[1], initializer("mean").fit(*pair, n_source=len(pair[0]) + 1))
    fitted = fit(pair, model)
    assert fitted.losses_[0] == pytest.approx(difference(pair, model, mean, CORPUS), rel=1e-4)
    grafted = graft(build(), pair[1], fitted)
    assert fitted.losses_[-1] == pytest.approx(difference(pair, model, grafted, CORPUS), rel=1e-4)
    assert fitted.losses_[-1] < 0.5 * fitted.losses_[0]
    assert len(fitted.losses_) == 31
    statistics = fitted.statistics()
    assert (statistics["loss_before"], statistics["loss_after"]) == (
        fitted.losses_[0], fitted.losses_[-1],
    )  # fmt: skip
    assert statistics["snippets"] == 4


def test_only_rows_of_tokens_in_the_text_are_trained(pair, build):
    model = build()
    matrices = {"input": model.get_input_embeddings().weight, "output": model.lm_head.weight}
    mean = initializer("mean").fit(*pair, n_source=len(pair[0]) + 1)
    fitted = fit(pair, model, head="mean")
    assert fitted.statistics()["head_loss_before"] is None
    rows, means = (made.apply(matrices["input"]).detach() for made in (fitted, mean))
    # `xyz` is in no text.
    assert fitted.fallbacks_ == ["xyz"]
    assert fitted.statistics()["share_fallback"] == pytest.approx(1 / 3)
    vocabulary = pair[1].get_vocab()
    torch.testing.assert_close(rows[vocabulary["xyz"]], means[vocabulary["xyz"]])
    for token in ("ab", "de"):
        assert (rows[vocabulary[token]] - means[vocabulary[token]]).abs().max() > 0.01
    head, mean_head = (made.apply(matrices["output"], "output").detach() for made in (fitted, mean))
    torch.testing.assert_close(head, mean_head)
    assert torch.equal(rows[: len(pair[0])], matrices["input"][: len(pair[0])])


def next_token_loss(pair, grafted, texts, unseen):
    """By definition: the mean cross-entropy of each token of each text after those before it."""
    nats = []
    for text in texts:
        ids = torch.tensor([pair[0].bos_token_id, *pair[1](text)["input_ids"]])
        logits = grafted(ids[None]).logits[0, :-1]
        logits[:, unseen] = -torch.inf
        nats.append(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none"))
    return torch.cat(nats).mean()


@pytest.mark.parametrize("bias", [False, True])
def test_head_rows_follow_the_gradient_of_the_next_token_loss(pair, build, bias):
    model = build()
    if bias:
        head = torch.nn.Linear(*reversed(model.lm_head.weight.shape))
        head.weight = model.lm_head.weight
        model.lm_head = head
    mean = initializer("mean").fit(*pair, n_source=len(pair[0]) + 1)
    grafted = graft(copy.deepcopy(model), pair[1], mean)
    new, unseen = mean.new_ids.tolist(), pair[1].get_vocab()["xyz"]
    if bias:  # what rows that no recipe describes are given
        with torch.no_grad():
            grafted.lm_head.bias[new] = model.lm_head.bias.mean()
    loss = next_token_loss(pair, grafted, CORPUS, [unseen])
    (gradient,) = torch.autograd.grad(loss, grafted.lm_head.weight)
    # The first step of Adam.
    step = 0.01 * gradient / (gradient.abs() + 1e-8)
    expected = (grafted.lm_head.weight - step)[new].detach()
    fitted = fit(pair, model, epochs=1, batch_size=8)
    made = torch.from_numpy(fitted._trained["output"])
    torch.testing.assert_close(made, expected, atol=2e-5, rtol=1e-4)
    assert fitted.head_losses_[0] == pytest.approx(float(loss.detach()), rel=1e-5)
    # `xyz` is in no text: it neither moves nor competes.
    torch.testing.assert_close(made[new.index(unseen)], grafted.lm_head.weight[unseen].detach())


def test_a_head_whose_logits_are_transformed_is_refused(pair, build):
    model = build()
    own = model.forward

    def capped(**given):
        found = own(**given)
        found.logits = torch.tanh(found.logits)
        return found

    model.forward = capped
    with pytest.raises(UserError, match="set its option head: mean"):
        fit(pair, model)
    assert fit(pair, model, head="mean", epochs=1).head_losses_ == []


def test_the_source_model_is_not_changed(pair, build):
    model = build().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit(pair, model, epochs=1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert model.training


def test_a_tied_model_has_rows_for_its_one_matrix(pair, build):
    model = build(tied=True)
    fitted = fit(pair, model, epochs=2)
    graft(model, pair[1], fitted)
    assert model.lm_head.weight is model.get_input_embeddings().weight
    learned = model.lm_head.weight[fitted.new_ids].detach().numpy()
    assert np.array_equal(learned, fitted._trained["input"])
    assert fitted.head_losses_ == []


@pytest.mark.parametrize("name", ["gemma3_text", "inkling_text"])
def test_new_rows_are_scaled_or_normalized_by_the_embedding_layer(pair, name):
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        name, vocab_size=len(pair[0]), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, pad_token_id=0,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    fitted = fit(pair, model, epochs=2, head="mean")
    assert model.get_input_embeddings().padding_idx == 0
    grafted = graft(copy.deepcopy(model), pair[1], fitted)
    assert fitted.losses_[-1] == pytest.approx(difference(pair, model, grafted, CORPUS), rel=1e-4)


def test_a_snippet_of_one_token_does_not_train_the_head(byte_level, tiny_llama):
    pair = byte_level([]), byte_level([("a", "b")])
    pair[0].init_kwargs["document_start"] = ""  # or the token would follow one
    fitted = fit(pair, tiny_llama(len(pair[0]), tied=False), corpus=["ab"], epochs=2)
    mean = initializer("mean").fit(*pair)
    head = tiny_llama(len(pair[0]), tied=False).lm_head.weight
    expected = mean.apply(head, "output")[fitted.new_ids].detach().numpy()
    np.testing.assert_allclose(fitted._trained["output"], expected, rtol=1e-6)
    assert fitted.head_losses_ == [0, 0, 0]
    assert fitted.losses_[-1] < fitted.losses_[0]
