"""New rows are trained as they would be in their matrices, and nothing else moves by a bit."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM, TrainerCallback

from lexigraft.errors import UserError
from lexigraft.initialization.registry import initializer
from lexigraft.initialization.storage import save_initialization
from lexigraft.training.data import SequenceDataset, concatenate, pack
from lexigraft.training.new_rows import attach_new_rows, merge_new_rows
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.phase import run_phase
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import load_cell
from lexigraft.training.train import train_cell
from lexigraft.training.trainable import prepare_phase
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.tokenizer_files import save_tokenizer
from tests.inference.conftest import SMALL, family_model
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import same_bits

IDS = [3, 4, 20, 49]  # neither all at the end nor all in one place
INKLING = {
    "num_experts": 4, "n_routed_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "moe_intermediate_size": 24,
}  # fmt: skip
OLD = [token for token in range(50) if token not in IDS]


def matrices(model):
    """Weights of both matrices and the head's bias, one of them once if they are tied."""
    modules = model.get_input_embeddings(), model.get_output_embeddings()
    tensors = [modules[0].weight, modules[1].weight, modules[1].bias]
    return list({id(tensor): tensor for tensor in tensors if tensor is not None}.values())


def loss_of(model, padded):
    batch = padded(3, 12)
    return CausalModeling().losses(model, {**batch, "labels": batch["input_ids"]})[0] / 33


@pytest.fixture(params=["tied llama", "llama", "gemma2", "gemma3_text", "gptj"])
def plain(request, tiny_llama):
    """Models with tied, untied, scaled and biased matrices, and rows of IDS that are trained."""
    return tiny_llama(50) if request.param == "tied llama" else family_model(request.param)


def test_three_steps_equal_those_of_whole_matrices_with_fixed_old_rows(plain, padded):
    whole = copy.deepcopy(plain).requires_grad_(False)
    before = [tensor.detach().clone() for tensor in matrices(whole)]
    for tensor in matrices(whole):
        tensor.requires_grad_(True)
    plain.requires_grad_(False)
    attach_new_rows(plain, IDS)
    learned = [p for p in plain.parameters() if p.requires_grad]
    optimizers = [torch.optim.SGD(some, lr=0.5) for some in (matrices(whole), learned)]
    for _ in range(3):
        for model, optimizer in zip((whole, plain), optimizers, strict=True):
            optimizer.zero_grad()
            loss_of(model, padded).backward()
            if model is whole:
                for tensor in matrices(whole):
                    tensor.grad[OLD] = 0
            optimizer.step()
    merge_new_rows(plain)
    for start, expected, found in zip(before, matrices(whole), matrices(plain), strict=True):
        assert torch.allclose(found, expected, atol=1e-5)
        assert torch.equal(found[OLD], start[OLD])
        assert (found[IDS] != start[IDS]).any()


EMBEDDINGS = {
    "llama": {},
    "gemma3_text": {},  # scales what it looks up
    "ctrl": {"dff": 48},  # changes what it has looked up in place
    "rwkv": {},
    "inkling_text": INKLING,  # normalizes it
}


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_rows_get_the_gradient_of_whole_matrices_whatever_the_embedding_does(name):
    config = AutoConfig.for_model(name, **{**SMALL, **EMBEDDINGS[name]})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)
    whole, ids = copy.deepcopy(model), [0, *IDS]  # the padding token is new, too
    tokens = torch.cat([torch.tensor([ids * 2]), torch.arange(1, 11)[None]])
    for matrix in (whole.get_input_embeddings(), whole.get_output_embeddings()):
        matrix.weight.requires_grad_(True)
    attach_new_rows(model, ids)
    for one in (whole, model):
        one(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    for part in ("get_input_embeddings", "get_output_embeddings"):
        expected = getattr(whole, part)().weight.grad[ids]
        found = getattr(model, part)().new_rows.grad
        assert found.any() and torch.allclose(found, expected, rtol=1e-4, atol=1e-7)
    padding = whole.get_input_embeddings().padding_idx
    merge_new_rows(model)
    assert model.get_input_embeddings().padding_idx == padding


class Shapes(TorchDispatchMode):
    """Shapes of all that is computed."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        made = function._schema.name not in ("aten::detach", "aten::t", "aten::index_copy_")
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if made and isinstance(tensor, torch.Tensor):
                self.seen.add(tuple(tensor.shape))
        return result


@pytest.mark.parametrize("tied", [True, False])
def test_no_tensor_of_the_size_of_a_matrix_is_allocated_in_a_step(tiny_llama, padded, tied):
    model = tiny_llama(50, tied=tied)
    sizes = {(50, 32), (32, 50)}
    with Shapes() as shapes:
        loss_of(model, padded).backward()
    assert shapes.seen & sizes  # their gradient
    model = tiny_llama(50, tied=tied).requires_grad_(False)
    attach_new_rows(model, IDS)
    with Shapes() as shapes:
        loss_of(model, padded).backward()
    assert not shapes.seen & sizes and (4, 32) in shapes.seen


class Sizes(TrainerCallback):
    def on_train_end(self, args, state, control, model=None, optimizer=None, **kwargs):
        self.state = [
            value.numel()
            for values in optimizer.optimizer.state.values()
            for value in values.values()
            if value.dim()
        ]


@pytest.mark.parametrize(
    ("beside", "tied"), [([], True), (["lora"], False), ([{"layers": [0]}], True)]
)
def test_a_phase_changes_the_new_rows_and_the_named_parts_only(tiny_llama, tmp_path, tied, beside):
    model = tiny_llama(50, tied=tied)
    phase = {"trainable": ["new-rows", *beside], "length": 16}
    strategy = read_strategy(
        {"phases": [phase], "batch_sequences": 2, "learning_rate": 1e-2, "warmup": 0}
    )
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    names, adapter = prepare_phase(model, strategy.phases[0], IDS)
    assert bool(names) == (beside == [{"layers": [0]}])
    sizes = Sizes()
    run_phase(
        model, strategy.phases[0], strategy,
        SequenceDataset(pack(concatenate([list(range(50)) * 2]), 16), np.arange(6)),
        seed=0, folder=tmp_path, checkpoint=None, callbacks=[sizes], objective=CausalModeling(),
    )  # fmt: skip
    if not beside:
        assert sizes.state == [4 * 32] * 2 * (1 if tied else 2)  # AdamW's two numbers of each
    merge_new_rows(model)
    if adapter is not None:
        model = adapter.unload()
    for name, parameter in model.named_parameters():
        rows = IDS if parameter.shape[0] == 50 else []
        still = [row for row in range(len(parameter)) if row not in rows]
        moves = name in names
        assert torch.equal(parameter[still], before[name][still]) != moves, name
        assert (parameter[rows] != before[name][rows]).all(), name


def test_a_vocabulary_without_new_tokens_is_refused(tiny_llama):
    phase = read_strategy({"phases": [{"trainable": ["new-rows"], "length": 16}]}).phases[0]
    with pytest.raises(UserError, match="new-rows needs a vocabulary with new tokens"):
        prepare_phase(tiny_llama(50), phase)


@pytest.fixture
def grafted(training_setup, without_bos, telugu):
    """`grafted(phases, tied=True)`: the job of a cell with 30 new tokens."""

    def build(phases, tied=True):
        place = training_setup(tied=tied, sentences=8)
        target = expand_tokenizer(without_bos, telugu, new_tokens=30)
        fitted = initializer("mean").fit(without_bos, target, n_source=320)
        folders = [place.results / stage for stage in ("vocabulary", "init")]
        save_tokenizer(target, folders[0])
        save_initialization(fitted, folders[1])
        settings = {"phases": phases, "epochs": 1, "learning_rate": 1e-2, "batch_sequences": 2}
        job = place.job(settings)
        job["inputs"] |= {"tokenizer": str(folders[0]), "initialization": str(folders[1])}
        return job, place.source

    return build


ROWS = {"trainable": ["new-rows"], "length": 32}


@pytest.mark.parametrize("tied", [True, False])
def test_a_cell_keeps_old_rows_bit_for_bit_and_lowers_the_loss(grafted, tied):
    job, source = grafted([ROWS], tied)
    train_cell(job)
    folder = Path(job["outputs"]["folder"])
    stored, old = load_file(folder / "changed.safetensors"), load_file(source / "model.safetensors")
    assert stored.keys() == {"model.embed_tokens.weight"} | (set() if tied else {"lm_head.weight"})
    for name, tensor in stored.items():
        assert torch.equal(tensor[:300], old[name][:300])
    card = json.loads((folder / "card.json").read_text())
    assert card["trained_parameters"] == 30 * 32 * (1 if tied else 2)
    assert card["heldout_after"] < card["heldout_before"]
    load_cell(folder)


@pytest.mark.fault(
    "kill",
    "training is interrupted early, late, or between two phases",
    "it resumes from its last checkpoint; the result is bit-identical",
)
def test_an_interrupted_cell_is_bit_identical_to_an_uninterrupted_one(grafted):
    lora = {"trainable": ["lora"], "length": 32, "share": 0.5}
    job, _ = grafted([{**ROWS, "share": 0.5}, lora])
    folder = Path(job["outputs"]["folder"])
    train_cell(job)
    whole = load_file(folder / "changed.safetensors")
    steps = json.loads((folder / "card.json").read_text())["steps"]
    with interrupted_at(steps - 1):
        train_cell(job, EAGER)
    train_cell(job, EAGER)
    assert json.loads((folder / "card.json").read_text())["resumed_from_step"]
    assert same_bits(whole, load_file(folder / "changed.safetensors"))


def test_attaching_new_rows_changes_neither_outputs_nor_names(plain, padded):
    names, kinds = list(dict(plain.named_parameters())), [type(m) for m in plain.modules()]
    expected = plain(**padded()).logits
    plain.requires_grad_(False)
    attach_new_rows(plain, IDS)
    assert torch.equal(plain(**padded()).logits, expected)
    assert set(names) < set(dict(plain.named_parameters()))
    merge_new_rows(plain)
    assert torch.equal(plain(**padded()).logits, expected)
    assert list(dict(plain.named_parameters())) == names
    assert [type(module) for module in plain.modules()] == kinds
    assert not dict(plain.get_input_embeddings().named_buffers()).keys() & {"places"}
