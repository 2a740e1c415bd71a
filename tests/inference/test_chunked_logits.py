"""Losses by chunks of positions are those of all logits at once, and so are their gradients."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from lexigraft.inference import chunked_logits as module
from lexigraft.inference.chunked_logits import (
    IGNORED,
    SummedNLL,
    chunked_logits,
    nll_per_token,
    sum_nll,
    targets_ahead,
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Three positions of a vocabulary of 50."""
    monkeypatch.setitem(module.CHUNK_LOGITS, "cpu", 150)


def targets_of(inputs):
    """Next tokens; those of padding, and a few more, count for nothing."""
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, IGNORED)
    labels[0, 3] = IGNORED
    return targets_ahead(labels, 1)


def plain_nats(model, inputs):
    logits = model(**inputs).logits
    targets = targets_of(inputs).flatten()
    return cross_entropy(logits.float().flatten(0, 1), targets, reduction="sum")


def gradients(model, loss):
    model.zero_grad()
    (3 * loss).backward()  # whatever the loss is multiplied by
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(model, inputs):
    expected = plain_nats(model, inputs)
    wanted = gradients(model, expected)
    found = sum_nll(chunked_logits(model, inputs), targets_of(inputs))
    assert found.shape == (1,) and found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    given = gradients(model, found[0])
    assert given.keys() == wanted.keys()
    scale = max(gradient.abs().max().item() for gradient in wanted.values())
    for name, gradient in wanted.items():
        assert torch.allclose(given[name], gradient, rtol=1e-4, atol=1e-5 * scale), name


def assert_as_precise(model, inputs):
    """In bfloat16, chunks are as near to float32 as all logits at once: how it rounds differs.

    How far bfloat16 is from float32 depends on the processor, on some by a twentieth.
    """
    exact = plain_nats(model, inputs)
    wanted = gradients(model, exact)
    with torch.autocast(exact.device.type, dtype=torch.bfloat16):
        expected = plain_nats(model, inputs)
        plain = gradients(model, expected)
        found = sum_nll(chunked_logits(model, inputs), targets_of(inputs))
        chunked = gradients(model, found[0])
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected.item(), rel=0.005)
    assert chunked.keys() == wanted.keys()
    for name, gradient in wanted.items():
        size = gradient.norm()
        rounded = (plain[name] - gradient).norm() / size
        assert (chunked[name] - gradient).norm() / size <= 1.5 * rounded + 0.005, name


def test_loss_and_gradients_are_those_of_all_logits_at_once(family, padded):
    model, _ = family
    assert_same(model, padded())


@pytest.mark.parametrize("family", ["llama", "gemma2", "gptj"], indirect=True)
def test_gradients_that_are_added_to_grad_directly_are_the_same(family, padded):
    model, _ = family
    inputs = padded()
    wanted = gradients(model, sum_nll(chunked_logits(model, inputs), targets_of(inputs))[0])
    weight = torch.tensor(1.5)
    model.zero_grad()
    for _ in range(2):  # passes of a step: the second one has gradients to add to
        (
            weight * sum_nll(chunked_logits(model, inputs), targets_of(inputs), weight=weight)
        ).backward()
    scale = max(gradient.abs().max().item() for gradient in wanted.values())
    for name, parameter in model.named_parameters():
        if name in wanted:
            assert torch.allclose(parameter.grad, wanted[name], rtol=1e-4, atol=1e-5 * scale), name


@pytest.mark.parametrize("tied", [True, False])
def test_gradients_in_bfloat16_that_are_added_by_blocks_are_the_same(
    tiny_llama, padded, monkeypatch, tied
):
    model, inputs = tiny_llama(50, tied), padded()
    rows = 7 * model.config.hidden_size  # of 50
    monkeypatch.setitem(module.GRADIENT_BLOCK, "cpu", rows)
    weight, found = torch.tensor(2.0), []  # a power of two, so that rounding is the same
    for given in (None, weight):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for _ in range(2):
                (weight * sum_nll(chunked_logits(model, inputs), targets_of(inputs), weight=given)
                ).backward()  # fmt: skip
        found.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in found[0].items():
        scale = gradient.abs().max().item()
        assert torch.allclose(found[1][name], gradient, rtol=0.01, atol=0.004 * scale), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_that_is_computed_in_place_equals_torch_s_cross_entropy(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = (20 * torch.randn(6, 40, generator=generator)).to(dtype)
    targets = torch.tensor([0, 39, 7, IGNORED, 7, 12])
    sums, gradients = [], []
    for loss in (SummedNLL.apply, lambda *given: cross_entropy(*given, reduction="sum")):
        one = logits.clone().requires_grad_()
        sums.append(loss(one if loss is SummedNLL.apply else one.float(), targets))
        (3 * sums[-1]).backward()
        gradients.append(one.grad)
    torch.testing.assert_close(sums[0], sums[1])
    torch.testing.assert_close(gradients[0], gradients[1])
    assert gradients[0].dtype == dtype and (gradients[0][3] == 0).all()


def test_nats_per_position_equal_those_of_all_logits_at_once(family, padded):
    model, _ = family
    inputs = padded()
    targets = targets_of(inputs)
    with torch.no_grad():
        logits = model(**inputs).logits.float().flatten(0, 1)
    expected = cross_entropy(logits, targets.flatten(), reduction="none").view_as(targets)
    found = nll_per_token(chunked_logits(model, inputs), targets)
    assert found.shape == targets.shape and not found.requires_grad
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert (found[targets == IGNORED] == 0).all()


@pytest.mark.fault(
    "machine",
    "GPU memory runs out for a chunk of logits",
    "chunks are halved; gradients are the same",
)
@pytest.mark.parametrize(("fails", "weight"), [("forward", None), ("backward", torch.tensor(1.5))])
def test_chunks_that_do_not_fit_into_memory_are_halved_and_give_the_same_gradients(
    tiny_llama, padded, monkeypatch, caplog, fails, weight
):
    model, inputs = tiny_llama(50), padded(3, 12)
    monkeypatch.setitem(module.CHUNK_LOGITS, "cpu", 16 * 50)
    monkeypatch.setattr(module, "LEAST_LOGITS", 0)
    monkeypatch.setattr(module, "_halved", {})
    expected = plain_nats(model, inputs)
    wanted = gradients(model, expected)
    model.zero_grad()
    sizes, targets = [], targets_of(inputs)

    def out_of_memory(*_):
        raise torch.OutOfMemoryError

    def logits_of_five_positions(states):
        logits = readout.logits(states)
        sizes[-1].append(len(logits))
        if len(logits) > 5:
            logits.register_hook(out_of_memory) if fails == "backward" else out_of_memory()
        return logits

    for _ in range(2):  # micro-batches of a step
        sizes.append([])
        readout = chunked_logits(model, inputs)
        found = sum_nll(readout, targets, logits_of_five_positions, weight=weight)
        (found * (1 if weight is None else weight)).sum().backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    scale = 3 / 2 / (1 if weight is None else weight)
    for name, gradient in wanted.items():
        parameter = model.get_parameter(name)
        assert torch.allclose(parameter.grad * scale, gradient, rtol=1e-4, atol=1e-4), name
    # The first micro-batch finds out how many of 30 positions fit.
    assert sizes == [[15, 7, *[3] * 10], [*[4] * 7, 2]]
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("free", "gradients", "chunk"),
    [(2**40, 0, 2**28), (2**32, 0, 2**27), (2**32, 2**31, 2**26), (0, 0, 2**25)],
)
def test_chunks_follow_from_the_free_memory_of_a_gpu(monkeypatch, free, gradients, chunk):
    monkeypatch.setattr(module, "free_memory", lambda device: free)
    monkeypatch.setattr(module, "_halved", {})
    device = torch.device("cuda")
    assert module._chunk_logits(device, gradients) == chunk
    monkeypatch.setenv("LEXIGRAFT_LOGITS_CHUNK", "1000")
    assert module._chunk_logits(device, gradients) == 1000
    assert module._chunk_logits(torch.device("cpu"), 0) == 1000


def test_adapters_get_gradients_and_frozen_parameters_do_not(tiny_llama, padded):
    torch.manual_seed(0)
    model = tiny_llama(50, tied=True)
    model.requires_grad_(False)
    get_peft_model(model, LoraConfig(target_modules="all-linear", init_lora_weights=False))
    assert_same(model, padded())
    assert all("lora" in name for name, p in model.named_parameters() if p.grad is not None)


@pytest.mark.parametrize("tied", [True, False])
def test_autocast_rounds_where_it_does_in_the_model(tiny_llama, padded, tied):
    model, inputs = tiny_llama(50, tied=tied), padded(4, 16)
    assert_as_precise(model, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert chunked_logits(model, inputs).logits(torch.randn(2, 32)).dtype == torch.bfloat16


class VocabularyRows(TorchDispatchMode):
    """The most positions that any tensor with a column for each token had."""

    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary, self.most = vocabulary, 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.shape[-1:] == (self.vocabulary,):
                self.most = max(self.most, tensor.numel() // self.vocabulary)
        return result


def test_no_tensor_has_the_logits_of_more_positions_than_a_chunk(tiny_llama, padded, monkeypatch):
    model, inputs = tiny_llama(997), padded(3, 40)
    with VocabularyRows(997) as seen:
        plain_nats(model, inputs).backward()
    assert seen.most == 120
    monkeypatch.setitem(module.CHUNK_LOGITS, "cpu", 50 * 997)
    with VocabularyRows(997) as seen:
        sum_nll(chunked_logits(model, inputs), targets_of(inputs)).backward()
    assert 32 < seen.most <= 50  # 32 are the columns of the head's matrix


def test_without_targets_loss_and_gradients_are_zero(tiny_llama, padded):
    model, inputs = tiny_llama(50, tied=False), padded()
    targets = torch.full_like(inputs["input_ids"], IGNORED)
    loss = sum_nll(chunked_logits(model, inputs), targets)
    loss.sum().backward()
    assert loss.item() == 0
    # Not None: processes that share a model wait for all of them.
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_a_model_whose_logits_are_not_those_of_its_head_is_used_as_it_is(
    tiny_llama, padded, monkeypatch
):
    model = tiny_llama(50)
    elsewhere = torch.nn.Linear(32, 50)  # never called
    monkeypatch.setattr(model, "get_output_embeddings", lambda: elsewhere)
    assert not chunked_logits(model, padded()).from_head
    assert_same(model, padded())


def test_any_loss_of_the_logits_has_the_gradients_of_autograd(tiny_llama, padded):
    model, inputs = tiny_llama(50), padded()
    places = torch.tensor([1, 2, 3, 5, 8, 13, 9])
    factors = torch.arange(7.0)
    logits = model(**inputs).logits.flatten(0, 1)[places]
    expected = (factors * logits.square().sum(-1)).sum()
    wanted = gradients(model, expected)
    readout = chunked_logits(model, inputs)
    found = readout.sum(
        places,
        lambda states, chunk: (factors[chunk] * readout.logits(states).square().sum(-1)).sum(),
    )
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, gradient in gradients(model, found).items():
        assert torch.allclose(gradient, wanted[name], rtol=1e-4, atol=1e-5), name


def test_tied_matrices_get_the_gradients_of_both_uses(tiny_llama, padded):
    assert_same(tiny_llama(50, tied=True), padded())


def test_gradient_checkpointing_changes_nothing(tiny_llama, padded):
    model = tiny_llama(50).train()
    model.activation_checkpointing_enable({"use_reentrant": False})
    assert_same(model, padded())
