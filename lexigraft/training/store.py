"""A trained cell on disk: the tensors that changed, adapters, and references to the rest."""

import json
import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.nn import Module, Parameter
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import atomic_file, atomic_folder
from lexigraft.artifacts.cards import INPUTS, check_inputs, fault_of, write_card
from lexigraft.artifacts.completion import check_references
from lexigraft.errors import UserError
from lexigraft.initialization.graft import carry_tables, untie
from lexigraft.initialization.storage import load_initialization
from lexigraft.initialization.token_ids import update_special_token_ids
from lexigraft.source.matrices import stored_parameters
from lexigraft.source.model import load_config, load_model, open_source, open_tokenizer
from lexigraft.source.token_tables import resize_vocabulary, set_tables, token_tables

CHANGED = "changed.safetensors"
LORA = ("adapter/adapter_config.json", "adapter/adapter_model.safetensors")
VOCADT = "adapter.npz"  # VocADT's adapters as recipes; merged, they are among the changed tensors
REFERENCES = ("source", "tokenizer", "initialization", "corpus")


def save_cell(
    folder: str | Path,
    model: PreTrainedModel,
    changed: Iterable[str],
    *,
    adapter: PeftModel | None = None,
    new_ids: Iterable[int] | None = None,
    job: dict[str, Any],
    read: Mapping[str, str],
    **facts: Any,
) -> None:
    """Write a cell: `changed.safetensors`, `adapter/` if there is one, and finally `card.json`.

    The card also lists `log.jsonl` and `adapter.npz` if they exist already.

    `changed` are the names of the parameters to store, in the dtype in which the source stores its
    weights. If `new_ids` is given, these are matrices with a row for each token, of which only the
    rows `new_ids` are stored: all others are the source's. `adapter` is the PEFT model of LoRA's
    adapters in `model`, which are stored separately, not merged, and removed from `model`. `job`
    and `facts` go into the card, with the paths of the job's inputs relative to `folder`, and
    their `output_checksums` when they were read, `read`.
    """
    folder = Path(folder)
    files = [CHANGED, *(name for name in ("log.jsonl", VOCADT) if (folder / name).exists())]
    if adapter is not None:
        _save_adapter(adapter, folder / "adapter")
        model = adapter.unload()
        files += LORA
    dtype = stored_dtype(open_source(Path(job["inputs"]["source"])).folder)
    names = set(changed)
    tensors = {
        name: parameter.detach() for name, parameter in model.named_parameters() if name in names
    }
    if new_ids is not None:
        rows = torch.tensor([*new_ids], dtype=torch.long)
        tensors = {name: tensor[rows] for name, tensor in tensors.items()}
    tensors = {name: tensor.to("cpu", dtype).contiguous() for name, tensor in tensors.items()}
    with atomic_file(folder / CHANGED) as file:
        save_file(tensors, file, metadata={"format": "pt"})
    references = {
        name: os.path.relpath(job["inputs"][name], folder) if job["inputs"].get(name) else None
        for name in REFERENCES
    }
    write_card(folder, job, files, read, references=references, **facts)


def load_cell(
    folder: str | Path,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    *,
    linear_dtype: torch.dtype | None = None,
    merge: bool = True,
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a cell: the source model with the changed tensors, adapters merged, and its tokenizer.

    `folder` is a cell under `results/training/`, whose card refers to source and tokenizer. The
    model is in eval mode, by default in the dtype in which the source stores its weights; its
    configs name the tokenizer's special tokens. Weights are read directly to the `device`, where
    adapters are also merged. Linear layers other than the head are read in
    `linear_dtype`, if it is given. With `merge=False`, LoRA's adapters are left out.

    Raises
    ------
    UserError
        A file of the cell is missing or damaged, or what the card refers to is missing or is not
        what the cell was trained with.

    Examples
    --------
    With `cell` such as `"results/training/my-model/te/expand-500/align/2x2ls-clm-512/seed-0"`:

    >>> import lexigraft
    >>> model, tokenizer = lexigraft.load_cell(cell)
    >>> model.training
    False
    >>> _ = model.generate(**tokenizer("తెలుగు", return_tensors="pt"), max_new_tokens=2)
    """
    folder = Path(folder)
    card = read_card(folder)
    for name, described in card["files"].items():  # hashed: all tensors are read anyway
        if fault := fault_of(folder / name, described):
            raise UserError(f"{folder / name}: {fault}; train the cell again")
    inputs = [reference(folder, card, name) for name in ("source", "tokenizer")]
    check_inputs(inputs)
    source, tokenizer = open_source(inputs[0]).folder, open_tokenizer(inputs[1])

    def set_dtype(empty: PreTrainedModel) -> None:
        for weight in linear_weights(empty, stored_parameters(source, empty)).values():
            weight.data = weight.data.to(linear_dtype)

    model = load_model(
        source, dtype or stored_dtype(source), device, set_dtype if linear_dtype else None
    )
    tensors = load_file(folder / CHANGED)
    if card["references"]["initialization"]:
        initialization = load_initialization(reference(folder, card, "initialization"))
        update_special_token_ids(model, tokenizer, initialization.source_of)
        # Of some matrices, only new rows are stored: the other ones are copied from the source.
        parameters = dict(model.named_parameters())
        for name in matrix_names(model) & tensors.keys():
            if len(tensors[name]) == len(initialization.new_ids) < initialization.n_target:
                matrix = parameters[name].detach()
                source_of = torch.from_numpy(initialization.source_of)
                complete = matrix[source_of.clamp(min=0).to(matrix.device)]
                new_ids = torch.from_numpy(initialization.new_ids).to(matrix.device)
                complete[new_ids] = tensors[name].to(matrix)
                tensors[name] = complete
        # Such tables are stored only if they were trained.
        if tables := token_tables(model):
            set_tables(model, carry_tables(model, tables, initialization))
    load_tensors(model, tensors, folder / CHANGED)
    if merge and LORA[0] in card["files"]:
        # float32 adapters are added to the weights before rounding, once, to the model's dtype.
        model = PeftModel.from_pretrained(model, str(folder / "adapter")).merge_and_unload()
    return model.eval(), tokenizer


def load_continued(
    folder: str | Path, device: torch.device | str
) -> tuple[PreTrainedModel, set[str]]:
    """Load a cell in float32 to train it further; return the names of what it changed, too."""
    model, _ = load_cell(folder, torch.float32, device)
    if Path(folder, LORA[0]).exists():  # merged into nearly all weights
        return model, {name for name, _ in model.named_parameters()}
    with safe_open(Path(folder, CHANGED), "pt") as stored:
        return model, set(stored.keys())


def read_card(folder: Path) -> dict[str, Any]:
    """Read a cell's card; raise a UserError unless it and the cell's inputs are as trained."""
    file = folder / "card.json"
    try:
        card = json.loads(file.read_text("utf-8"))
    except OSError:
        raise UserError(f"{file}: missing; the cell is not trained yet") from None
    except ValueError:
        raise UserError(f"{file}: damaged; delete the folder and train the cell again") from None
    if not isinstance(card, dict) or not {"references", "files"} <= set(card):
        raise UserError(f"{file}: not the card of a trained cell")
    if INPUTS not in card:
        raise UserError(
            f"{file}: has no checksums of the cell's source model, tokenizer and initialization, "
            "because a version before 0.3 trained it; run the study again"
        )
    check_references(folder, card)
    return card


def reference(folder: Path, card: dict[str, Any], name: str) -> Path:
    """The folder that a cell's card refers to; raises a UserError if it does not exist."""
    path = Path(os.path.normpath(folder / card["references"][name]))
    if not path.is_dir():
        raise UserError(
            f"{folder}: its {name} {path} no longer exists; restore it (a cell can only be moved "
            "together with all of results/)"
        )
    return path


def stored_dtype(source: Path) -> torch.dtype:
    """The dtype in which a source folder stores its weights, according to its `config.json`."""
    dtype = load_config(source).dtype
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def parameter_names(
    model: PreTrainedModel, modules: Iterable[Module], recurse: bool = True
) -> set[str]:
    """Names of the parameters of `modules` in `model`; a tied matrix has one name."""
    ids = {id(parameter) for module in modules for parameter in module.parameters(recurse)}
    return {name for name, parameter in model.named_parameters() if id(parameter) in ids}


def matrix_names(model: PreTrainedModel) -> set[str]:
    """Names of the parameters that have a row for each token."""
    layers = [model.get_input_embeddings(), model.get_output_embeddings()]
    # Not those of norms within a layer of embeddings.
    return parameter_names(model, [each for each in layers if each is not None], recurse=False)


def linear_weights(
    model: PreTrainedModel, stored: Container[str] | None = None
) -> dict[str, Parameter]:
    """The (`stored`) weights of linear layers, but not those with a row or column per token."""
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    names = parameter_names(model, layers) - matrix_names(model)
    rows = model.config.get_text_config().vocab_size
    return {
        name: p
        for name, p in model.named_parameters()
        if name in names and rows not in p.shape and (stored is None or name in stored)
    }


def load_tensors(model: PreTrainedModel, tensors: dict[str, torch.Tensor], file: Path) -> None:
    """Copy tensors into the parameters of their names; embeddings are resized to the tensors.

    Tied matrices become untied if there is a tensor for each. A UserError names the `file` if a
    tensor does not fit.
    """
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is not None:
        named = model.named_parameters(remove_duplicate=False)
        names = {name for name, parameter in named if parameter is head.weight}
        # A cell may have two tensors where its source has one: merging adapters unties matrices.
        if head.weight is not embeddings.weight or len(names & tensors.keys()) > 1:
            untie(model)
    for name, parameter in list(model.named_parameters()):
        if parameter is embeddings.weight and len(tensors.get(name, parameter)) != len(parameter):
            resize_vocabulary(model, len(tensors[name]))
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name not in parameters or parameters[name].shape != tensor.shape:
                raise UserError(
                    f"{file}: its tensor {name} {list(tensor.shape)} does not fit the source "
                    "model; train the cell again"
                )
            parameters[name].copy_(tensor)


def _save_adapter(adapter: PeftModel, folder: Path) -> None:
    # PEFT writes sets in the order of their hashes and the path of the base model: both would make
    # the same cell differ between runs.
    settings = adapter.peft_config["default"].to_dict() | {"base_model_name_or_path": None}
    config = {
        key: sorted(value) if isinstance(value, set) else value for key, value in settings.items()
    }
    state = get_peft_model_state_dict(adapter, save_embedding_layers=False)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    with atomic_folder(folder) as temporary:
        text = json.dumps(config, indent=2, sort_keys=True) + "\n"
        (temporary / "adapter_config.json").write_text(text, encoding="utf-8")
        with atomic_file(temporary / "adapter_model.safetensors") as file:
            save_file(state, file, metadata={"format": "pt"})
