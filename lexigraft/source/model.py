"""Source models on disk: opening, configuration, loading.

A model is causal (predicts the next token) or masked (predicts masked tokens). A causal model may
also read images or sounds by further modules, its towers, which never change.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.models.auto import modeling_auto

from lexigraft.errors import UserError, first_line
from lexigraft.hardware import attention
from lexigraft.setting_types import CAUSAL, MASKED
from lexigraft.source.document_start import DOCUMENT_START
from lexigraft.source.tokenizer import load_tokenizer

# Names of transformers' classes. Some types, such as qwen3_5, have one with towers and one without.
_CAUSAL_CLASSES = {*modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()}
_CLASSES_WITH_TOWERS = {
    *modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()
} - _CAUSAL_CLASSES
_MASKED_CLASSES = {*modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()}


@dataclass(frozen=True)
class SourceModel:
    """A source model: its Hugging Face folder, its name, and its revision."""

    folder: Path
    name: str
    revision: str | None = None
    matrices: dict[str, tuple[str, str]] | None = None  # `StoredMatrices.tensors`, if known
    # The token that begins its texts, if its tokenizer does not add it.
    document_start: str | None = None

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Load its tokenizer, with its setting `document_start`."""
        tokenizer = load_tokenizer(self.folder)
        if self.document_start is not None:
            tokenizer.init_kwargs[DOCUMENT_START] = self.document_start
        return tokenizer


def open_source(folder: str | Path) -> SourceModel:
    """Open `results/source/<name>`, whose `source.json` holds the path of the model."""
    folder = Path(folder)
    file = folder / "source.json"
    try:
        source = json.loads(file.read_text(encoding="utf-8"))
        model_folder = folder / source["path"]  # relative to `folder`, or absolute
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"source {file}: cannot be read ({error}); run the source stage again"
        ) from None
    if not (model_folder / "config.json").is_file():
        raise UserError(
            f"source {folder.name}: its model is no longer in {model_folder}; delete {folder} "
            "and run again"
        )
    return SourceModel(
        model_folder,
        folder.name,
        source.get("revision"),
        source.get("matrices"),
        source.get(DOCUMENT_START),
    )


def open_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer of a vocabulary's folder, or of a source, `results/source/<name>`."""
    is_source = (Path(folder) / "source.json").is_file()
    return open_source(folder).tokenizer() if is_source else load_tokenizer(folder)


def tokenizer_folder(folder: str | Path) -> Path:
    """The folder with the files of that tokenizer."""
    return open_source(folder).folder if (Path(folder) / "source.json").is_file() else Path(folder)


def load_config(folder: str | Path) -> PretrainedConfig:
    """The model's configuration.

    Raises `UserError` if it cannot be read, or the model needs code from its repository.
    """
    file = Path(folder) / "config.json"
    if not file.is_file():
        raise UserError(f"source {folder}: has no config.json, so it is not a model folder")
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        if "auto_map" in raw and raw.get("model_type") not in CONFIG_MAPPING:
            raise UserError(
                f"source {folder}: needs code from its repository (auto_map in config.json), "
                "which is never run; choose a model that transformers supports natively"
            )
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        # The class of transformers is used, and the code is not part of an export.
        vars(config).pop("auto_map", None)
        return config
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"source {file}: cannot be used ({first_line(error)})") from None


def load_model(
    folder: str | Path,
    dtype: torch.dtype | str,
    device: torch.device | str = "cpu",
    prepare: Callable[[PreTrainedModel], None] | None = None,
) -> PreTrainedModel:
    """Load a model in evaluation mode, tensor by tensor to a device, with its weights in `dtype`.

    `prepare` is called with the model before it has weights, on the meta device. A parameter whose
    dtype it changes is read in that dtype.
    """
    config = load_config(folder)
    model_class = auto_class(config)
    if prepare is not None:
        empty = skeleton(folder)
        model_class, config = _prepared_class(type(empty), prepare), empty.config
    model = model_class.from_pretrained(
        folder,
        config=config if prepare is not None else None,
        dtype=dtype,
        attn_implementation=attention(config),
        # With its index: transformers reads in threads, in which plain "cuda" is the first GPU.
        device_map=torch.empty(0, device=device).device,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
    )
    return model.eval()


def skeleton(folder: str | Path, auto: Any = None) -> PreTrainedModel:
    """The model on the meta device: modules and their names, without weights."""
    config = load_config(folder)
    try:
        with torch.device("meta"):
            return (auto or auto_class(config)).from_config(config, trust_remote_code=False)
    except ImportError as error:
        raise UserError(
            f"source {folder}: its architecture needs a package ({first_line(error)}); install it, "
            "or choose another source"
        ) from None
    except ValueError as error:
        raise UserError(
            f"source {folder}: transformers cannot build it ({first_line(error)}); choose another "
            "source"
        ) from None


def model_kind(config: PretrainedConfig, architecture: str | None = None) -> str | None:
    """`causal`, `masked`, or None for any other architecture, such as encoder-decoders.

    The architecture is by default the first that the configuration names.
    """
    architecture = architecture or (config.architectures or [""])[0]
    if getattr(config, "is_encoder_decoder", False):
        return None
    if architecture in _CAUSAL_CLASSES | _CLASSES_WITH_TOWERS:
        return CAUSAL
    return MASKED if architecture in _MASKED_CLASSES else None


def is_masked(model: PreTrainedModel) -> bool:
    """Whether a loaded model is a masked language model."""
    return model_kind(model.config, type(model).__name__) == MASKED


def auto_class(config: PretrainedConfig) -> Any:
    """The auto class of transformers for the model with its language modelling head."""
    if model_kind(config) == MASKED:
        return AutoModelForMaskedLM
    has_towers = not _CLASSES_WITH_TOWERS.isdisjoint(config.architectures or [])
    return AutoModelForImageTextToText if has_towers else AutoModelForCausalLM


def text_modules(model: PreTrainedModel) -> list[Any]:
    """The outermost modules that compute with text: all of a model but its towers."""
    if model.config.get_text_config() is model.config:
        return [model]
    return [model.get_decoder(), model.get_input_embeddings(), model.get_output_embeddings()]


def _prepared_class(model_class: Any, prepare: Callable[[PreTrainedModel], None]) -> Any:
    """A subclass of a model class whose first instance is passed to `prepare` once it is built.

    transformers has no hook between building a model and reading its weights. Further instances,
    such as copies on the meta device, are plain ones.
    """
    waiting = [prepare]

    def build(self: Any, *arguments: Any, **named: Any) -> None:
        model_class.__init__(self, *arguments, **named)
        if waiting:
            waiting.pop()(self)

    # transformers uses the name of a class, for example, to find which outputs it records.
    names = {key: getattr(model_class, key) for key in ("__module__", "__qualname__")}
    return type(model_class.__name__, (model_class,), {**names, "__init__": build})
