"""Tensors with a row for each token, besides the two matrices, and vocabularies that cannot change.

Per-layer embeddings (Gemma 3n and 4), value embeddings (NeoMME), tables from token ids to experts
(DeepSeek-V4) and columns of a factored head (MobileBERT) have to follow a changed vocabulary too.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from lexigraft.errors import UserError

# A table that may have fewer rows than the vocabulary.
_PER_LAYER = "vocab_size_per_layer_input"
# Settings of embeddings that are looked up by a hash of token ids, with no row of a single token.
_HASHES = ("ple_layer_ids", "encoder_hash_byte_group_vocab")


def token_tables(model: PreTrainedModel, subject: str = "model") -> dict[str, int]:
    """Names of all further tensors with a row for each token, and the dimension of their rows.

    The model may be on the meta device. Raises a `UserError`, which begins with `subject`, if the
    model's vocabulary cannot be changed.
    """
    embeddings: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    name, config = type(model).__name__, model.config
    if not isinstance(embeddings, torch.nn.Embedding) or not isinstance(head, torch.nn.Linear):
        raise UserError(
            f"{subject}: the matrices of {name} are {type(embeddings).__name__} and "
            f"{type(head).__name__}, not a plain embedding and a linear head, so its vocabulary "
            "cannot be changed; choose another source"
        )
    rows, outputs = len(embeddings.weight), len(head.weight)
    if rows != outputs:
        raise UserError(
            f"{subject}: the input matrix of {name} has {rows} rows and its output matrix "
            f"{outputs}; only models with as many input rows as output rows can get another "
            "vocabulary, so choose another source"
        )
    if keys := [key for key in _HASHES if getattr(config.get_text_config(), key, None)]:
        raise UserError(
            f"{subject}: {name} looks up embeddings by hashes of token ids ({keys[0]} in "
            "config.json), which would change with the vocabulary; choose another source"
        )
    if any(hasattr(getattr(config, part), "vocab_offset") for part in config.sub_configs):
        raise UserError(
            f"{subject}: {name} takes all token ids from a number on (vocab_offset in config.json) "
            "as parts of images or sounds, so it cannot get new tokens; choose its text model alone"
        )
    matrices = {id(tensor) for tensor in (embeddings.weight, head.weight, head.bias)}
    row_counts = {rows, getattr(config.get_text_config(), _PER_LAYER, None)}
    candidates = {
        tensor_name: tensor.shape
        for tensor_name, tensor in _tensors(model).items()
        if id(tensor) not in matrices and not row_counts.isdisjoint(tensor.shape)
    }
    if not candidates:
        return {}
    # A dimension of that size may also be a coincidence.
    larger = copy.deepcopy(config)
    set_vocabulary_size(larger, rows, rows + 1)
    for part in (larger, larger.get_text_config()):
        part.pad_token_id = 0  # the target's may have no row yet
    with torch.device("meta"):
        shapes = {key: tensor.shape for key, tensor in _tensors(type(model)(larger)).items()}
    tables = {}
    for tensor_name, shape in candidates.items():
        sizes = list(zip(shape, shapes[tensor_name], strict=True))
        changed = [dimension for dimension, (old, new) in enumerate(sizes) if old != new]
        if len(changed) > 1 or any(sizes[dimension][1] != rows + 1 for dimension in changed):
            raise UserError(
                f"{subject}: the shape of {tensor_name} {list(shape)} depends on the vocabulary in "
                "an unknown way, so the vocabulary cannot be changed; choose another source"
            )
        if changed:
            tables[tensor_name] = changed[0]
    return tables


def has_factored_head(model: PreTrainedModel) -> bool:
    """Whether logits are computed from the output matrix and further columns, as in MobileBERT.

    Such a model does not call its head.
    """
    parents = (model.get_submodule(name.rpartition(".")[0]) for name in token_tables(model))
    return any(isinstance(parent, torch.nn.Linear) for parent in parents)


def empty_tables(
    model: PreTrainedModel, tables: Mapping[str, int], rows: int
) -> dict[str, torch.Tensor]:
    """Tables with another number of rows, without values, for simulations."""
    empty = {}
    for name, dimension in tables.items():
        table = model.get_parameter_or_buffer(name)
        shape = [*table.shape[:dimension], rows, *table.shape[dimension + 1 :]]
        empty[name] = table.new_empty(shape)
    return empty


def set_tables(model: PreTrainedModel, tables: Mapping[str, torch.Tensor]) -> None:
    """Replace tensors by tables with other numbers of rows, in place."""
    for name, values in tables.items():
        parent, _, attribute = name.rpartition(".")
        module: Any = model.get_submodule(parent)
        old = getattr(module, attribute)
        new = values.to(old.device, old.dtype)
        if isinstance(old, torch.nn.Parameter):
            old.data = new
        else:
            setattr(module, attribute, new)
        if isinstance(module, torch.nn.Embedding):
            module.num_embeddings = len(new)
            text = model.config.get_text_config()
            if getattr(text, _PER_LAYER, None):
                setattr(text, _PER_LAYER, len(new))


def resize_vocabulary(model: PreTrainedModel, rows: int) -> None:
    """Resize both matrices and the head's bias, which are then zero, and the configuration.

    Tied matrices stay tied, since each parameter stays the same object. The method of transformers
    is not used: some classes override it and draw new rows of further tables at random.
    """
    embeddings: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    old = len(embeddings.weight)
    parameters = [embeddings.weight, *(() if head is None else (head.weight, head.bias))]
    for parameter in parameters:
        if parameter is not None and len(parameter) != rows:
            parameter.data = parameter.data.new_zeros((rows, *parameter.shape[1:]))
    embeddings.num_embeddings = rows
    if head is not None:
        head.out_features = rows
    modules: Iterable[Any] = model.modules()
    for module in modules:
        if vars(module).get("vocab_size") == old:
            setattr(module, "vocab_size", rows)  # noqa: B010  # modules type it as a tensor
    set_vocabulary_size(model.config, old, rows)


def set_vocabulary_size(config: PretrainedConfig, old: int, rows: int) -> None:
    """Set all vocabulary sizes of a configuration for a number of rows that was `old`, in place."""
    text = config.get_text_config()
    text.vocab_size = rows
    for part in (config, text):
        for key, value in vars(part).copy().items():
            if (key == _PER_LAYER and value) or ("vocab_size" in key and value == old):
                setattr(part, key, rows)


def _tensors(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    return dict([*model.named_parameters(), *model.named_buffers()])
