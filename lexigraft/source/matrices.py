"""The input and output matrices of a model folder: where they are stored, and their values.

Only the headers of the files and these two tensors are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import AutoModel, PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

from lexigraft.errors import UserError
from lexigraft.source.model import skeleton
from lexigraft.source.weights import read_tensor, tensors

# File of a tensor, its name in the file, and its shape.
Location = tuple[Path, str, tuple[int, ...]]


@dataclass(frozen=True)
class StoredMatrices:
    """The matrices of a model folder, by `input` and `output`.

    `names` are their parameter names in the model, `locations` those that the files hold.
    """

    names: Mapping[str, str]
    locations: Mapping[str, Location]
    # Whether transformers ties them by the configuration: of two nested settings, each
    # architecture follows one.
    tied_by_config: bool

    @property
    def rows(self) -> int:
        """Rows of the input matrix, padding rows included."""
        return self.locations["input"][2][0]

    def is_tied(self) -> bool:
        """Whether one matrix serves as input and output.

        If the configuration ties them but the files hold an output matrix with other values,
        transformers loads the model as untied, so it counts as untied here.
        """
        if not self.tied_by_config:
            return False
        return "output" not in self.locations or torch.equal(
            *(read_tensor(*self.locations[which][:2]) for which in ("input", "output"))
        )

    def tensors(self) -> dict[str, tuple[str, str]]:
        """The file in the folder and the tensor in it of each matrix; only `input` if tied."""
        is_tied = self.is_tied()
        return {
            which: (file.name, name)
            for which, (file, name, _) in self.locations.items()
            if which == "input" or not is_tied
        }


def find_matrices(folder: str | Path, model: PreTrainedModel | None = None) -> StoredMatrices:
    """Find the matrices of a model folder; `model` is its `skeleton`, if it is known.

    Raises `UserError` if the model has no such matrix, or the files hold no input matrix.
    """
    model = skeleton(folder) if model is None else model
    layers: dict[str, Any] = {
        "input": model.get_input_embeddings(),
        "output": model.get_output_embeddings(),
    }
    for which, layer in layers.items():
        if layer is None:
            raise UserError(f"source {folder}: {type(model).__name__} has no {which} matrix")
    names, locations = _locate(folder, model, layers)
    return StoredMatrices(names, locations, layers["input"].weight is layers["output"].weight)


def matrix_rows(folder: str | Path) -> int:
    """Rows of the input matrix, padding rows included, from the header of its file."""
    return find_matrices(folder).rows


def is_tied(folder: str | Path) -> bool:
    """Whether one matrix serves as input and output, see `StoredMatrices.is_tied`."""
    return find_matrices(folder).is_tied()


def read_matrices(
    folder: str | Path, stored: Mapping[str, tuple[str, str]] | None = None
) -> dict[str, numpy.ndarray]:
    """Read the input matrix and, unless tied, the output matrix, but no other tensor.

    Returns `input` and, for untied models, `output`: float32 arrays [rows, hidden]. `stored` are
    the `StoredMatrices.tensors` of the model, if they are known: finding them takes seconds.
    """
    stored = find_matrices(folder).tensors() if stored is None else stored
    return {
        which: read_tensor(Path(folder) / file, name).float().numpy()
        for which, (file, name) in stored.items()
    }


def read_input_matrix(folder: str | Path) -> numpy.ndarray:
    """The input matrix, float32 [rows, hidden], of a model of any kind, such as an encoder."""
    model = skeleton(folder, AutoModel)
    _, locations = _locate(folder, model, {"input": model.get_input_embeddings()})
    return read_tensor(*locations["input"][:2]).float().numpy()


def stored_parameters(folder: str | Path, model: PreTrainedModel) -> dict[str, Location]:
    """Location and shape of the model's parameters that are stored unchanged in the files.

    The name of a tensor in the file may differ from the model's (`wte.weight` for
    `transformer.wte.weight`, `embed_out.weight` for `lm_head.weight`). The mapping is the one that
    transformers applies when it loads the files. Parameters that it computes are not included.
    """
    mapping = get_model_conversion_mapping(model)
    renamings = [entry for entry in mapping if isinstance(entry, WeightRenaming)]
    converters = [entry for entry in mapping if isinstance(entry, WeightConverter)]
    options = (renamings, converters, model.base_model_prefix, model.state_dict())
    stored = {}
    for tensor, (file, shape) in tensors(folder).items():
        name, converted = rename_source_key(tensor, *options)
        if converted is None:
            stored[name] = (file, tensor, shape)
    return stored


def _locate(
    folder: str | Path, model: PreTrainedModel, layers: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Location]]:
    """Names of the weights of layers, and locations of those that the files hold."""
    names = {
        which: next(f"{name}.weight" for name, module in model.named_modules() if module is layer)
        for which, layer in layers.items()
    }
    stored = stored_parameters(folder, model)
    locations = {which: stored[name] for which, name in names.items() if name in stored}
    if "input" not in locations:
        raise UserError(f"source {folder}: its files contain no input matrix")
    return names, locations
