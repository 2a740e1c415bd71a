"""A source model on disk: opened, loaded, and its two matrices of token rows read by themselves."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.source.kind import auto_class
from lexigraft.source.special_roles import roles_of
from lexigraft.source.weights import read_tensor, tensors

if TYPE_CHECKING:
    import numpy
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class SourceModel:
    """A model to graft onto: the Hugging Face folder to load it from, its name, its revision."""

    folder: Path
    name: str
    revision: str | None = None


def open_source(folder: str | Path) -> SourceModel:
    """Open `results/source/<name>`, whose `source.json` says where the model lies.

    Raises
    ------
    UserError
        There is no readable `source.json`, or the model that it points to is gone.
    """
    folder = Path(folder)
    file = folder / "source.json"
    try:
        source = json.loads(file.read_text(encoding="utf-8"))
        model_folder = folder / source["path"]  # an absolute path stands for itself
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"source {file}: cannot be read ({error}); run the source again") from None
    if not (model_folder / "config.json").is_file():
        raise UserError(
            f"source {folder.name}: its model is no longer in {model_folder}; delete {folder} "
            "and run again"
        )
    return SourceModel(model_folder, folder.name, source.get("revision"))


def load_tokenizer(folder: str | Path) -> "PreTrainedTokenizerFast":
    """The tokenizer of a Hugging Face folder, exactly as its `tokenizer.json` has it.

    The generic class is used on purpose: `AutoTokenizer` may pick a class that rebuilds the
    normalizer and the pre-tokenizer and then encodes differently. Which special token has which
    role, a folder may leave to that class (`special_roles.roles_of`).

    Raises
    ------
    UserError
        The folder has no `tokenizer.json`, or it cannot be read.
    """
    from transformers import PreTrainedTokenizerFast

    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        way = "load it with transformers and save it with tokenizer.save_pretrained(folder)"
        if (file.parent / "tokenizer.model").is_file():
            # What transformers makes of a bare SentencePiece file encodes differently from it.
            way = "lexigraft.source.sentencepiece_to_fast(tokenizer.model) makes one"
        raise UserError(
            f"source {folder}: has no tokenizer.json; only fast tokenizers can be extended; {way}"
        )
    try:
        roles: dict[str, Any] = dict(roles_of(folder))
        return PreTrainedTokenizerFast.from_pretrained(folder, **roles)
    # The tokenizers library raises bare Exception for a file that it cannot parse.
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"source {file}: not a tokenizer ({reason})") from error


def open_tokenizer(folder: str | Path) -> "PreTrainedTokenizerFast":
    """The tokenizer of a vocabulary's folder, or of `results/source/<name>`, which points to it.

    Raises
    ------
    UserError
        See `open_source` and `load_tokenizer`.
    """
    pointer = Path(folder) / "source.json"
    return load_tokenizer(open_source(folder).folder if pointer.is_file() else folder)


def load_config(folder: str | Path) -> "PretrainedConfig":
    """The model's configuration.

    Raises
    ------
    UserError
        There is no `config.json`, it cannot be read, its model type is unknown to this version of
        transformers, or the model would need code from its repository.
    """
    from transformers import AutoConfig

    file = Path(folder) / "config.json"
    if not file.is_file():
        raise UserError(f"source {folder}: has no config.json, so it is not a model folder")
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        if "auto_map" in raw:
            raise UserError(
                f"source {folder}: needs code from its repository (auto_map in config.json), "
                "which is never run; choose a model that transformers supports itself"
            )
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"source {file}: cannot be used ({reason})") from None


def load_model(folder: str | Path, dtype: "torch.dtype | str") -> "PreTrainedModel":
    """The model in evaluation mode, on the CPU, with its weights in `dtype`."""
    model = auto_class(load_config(folder)).from_pretrained(
        folder, dtype=dtype, use_safetensors=True, local_files_only=True, trust_remote_code=False
    )
    return model.eval()


def matrix_names(folder: str | Path) -> dict[str, str]:
    """Parameter names of the input matrix and of the output matrix, tied or not.

    E.g. `{"input": "model.embed_tokens.weight", "output": "lm_head.weight"}`.
    """
    return _matrix_names(_skeleton(load_config(folder)), folder)


def is_tied(folder: str | Path) -> bool:
    """Whether one matrix serves as input and output.

    A model whose configuration ties them, but whose file holds an output matrix with other
    values, is loaded by transformers as untied, and counts as untied here.
    """
    if not _config_ties(load_config(folder)):
        return False
    locations = _locations(folder)
    if "output" not in locations:
        return True
    return bool(
        (read_tensor(*locations["input"][:2]) == read_tensor(*locations["output"][:2])).all()
    )


def matrix_rows(folder: str | Path) -> int:
    """Rows of the input matrix, padding rows included, from the header of its file."""
    return _locations(folder)["input"][2][0]


def has_output_matrix(folder: str | Path) -> bool:
    """Whether the model has the output matrix that its configuration promises: tied, or stored."""
    return _config_ties(load_config(folder)) or "output" in _locations(folder)


def read_matrices(folder: str | Path) -> "dict[str, numpy.ndarray]":
    """The input matrix and, unless tied, the output matrix; no other tensor is read.

    Returns
    -------
    dict
        `input` and, for untied models, `output`: float32 arrays [rows, hidden].

    Raises
    ------
    UserError
        The files hold no input matrix.
    """
    import torch

    locations = _locations(folder)
    wanted = ("input",) if is_tied(folder) else ("input", "output")
    return {which: read_tensor(*locations[which][:2]).to(torch.float32).numpy() for which in wanted}


def read_input_matrix(folder: str | Path) -> "numpy.ndarray":
    """The input matrix of a model of any kind, encoders and encoder-decoders too.

    Returns
    -------
    ndarray
        float32 [rows, hidden]; no other tensor is read.

    Raises
    ------
    UserError
        The folder holds no model, weights that are pickled, or no input matrix.
    """
    import torch
    from transformers import AutoModel

    config = load_config(folder)
    with torch.device("meta"):
        model = AutoModel.from_config(config, trust_remote_code=False)
    module = model.get_input_embeddings()
    names = {id(module): name for name, module in model.named_modules()}
    located = _located(folder, model, {"input": f"{names[id(module)]}.weight"})
    return read_tensor(*located["input"][:2]).to(torch.float32).numpy()


def _skeleton(config: "PretrainedConfig") -> "PreTrainedModel":
    """The model without memory for its weights: its modules and their names."""
    import torch

    with torch.device("meta"):
        return auto_class(config).from_config(config, trust_remote_code=False)


def _config_ties(config: "PretrainedConfig") -> bool:
    return bool(getattr(config.get_text_config(), "tie_word_embeddings", False))


def _matrix_names(model: "PreTrainedModel", folder: str | Path) -> dict[str, str]:
    modules = {"input": model.get_input_embeddings(), "output": model.get_output_embeddings()}
    names = {id(module): name for name, module in model.named_modules()}
    for which, module in modules.items():
        if module is None:
            raise UserError(f"source {folder}: {type(model).__name__} has no {which} matrix")
    return {which: f"{names[id(module)]}.weight" for which, module in modules.items()}


def _locations(folder: str | Path) -> dict[str, tuple[Path, str, tuple[int, ...]]]:
    """File, name in the file and shape of the two matrices, as far as the files hold them."""
    model = _skeleton(load_config(folder))
    return _located(folder, model, _matrix_names(model, folder))


def _located(
    folder: str | Path, model: "PreTrainedModel", names: dict[str, str]
) -> dict[str, tuple[Path, str, tuple[int, ...]]]:
    """File, name in the file and shape of some parameters of a model.

    Files may name a tensor otherwise than the model does (`wte.weight` for
    `transformer.wte.weight`, `embed_out.weight` for `lm_head.weight`); the renaming is the one
    that transformers applies when it loads them.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    held = tensors(folder)
    mapping = get_model_conversion_mapping(model)
    renamings = [entry for entry in mapping if isinstance(entry, WeightRenaming)]
    converters = [entry for entry in mapping if isinstance(entry, WeightConverter)]
    parameters = model.state_dict()
    key_of = {
        rename_source_key(key, renamings, converters, model.base_model_prefix, parameters)[0]: key
        for key in held
    }
    found = {
        which: (held[key_of[name]][0], key_of[name], held[key_of[name]][1])
        for which, name in names.items()
        if name in key_of
    }
    if "input" not in found:
        raise UserError(f"source {folder}: its files hold no input matrix")
    return found
