"""Prepare a source from the registry: locate, convert if needed, check, describe."""

import json
import logging
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import TEMPORARY_PREFIX, write_json
from lexigraft.artifacts.cards import describe_file
from lexigraft.errors import UserError
from lexigraft.setting_types import CAUSAL, MASKED
from lexigraft.source.document_start import (
    DOCUMENT_START,
    document_start,
    set_document_start,
    start_ids,
)
from lexigraft.source.hub import WANTED, resolve
from lexigraft.source.matrices import StoredMatrices, find_matrices
from lexigraft.source.model import load_config, model_kind, open_tokenizer, skeleton
from lexigraft.source.start_comparison import LARGEST, compare_starts
from lexigraft.source.token_tables import token_tables
from lexigraft.source.tokenizer import (
    auto_tokenizer,
    load_tokenizer,
    tokenizer_family,
    tokens_without_row,
)
from lexigraft.source.weights import check_finite, read_tensor, tensors

logger = logging.getLogger(__name__)

# What classes of tokenizers treat differently: spaces, contractions, digits, line feeds, composed
# letters, marks, and scripts without spaces.
_PROBE = "  They're 12,345\n\n\tcafe\u0301 कि ที่  人人生"
# Types whose code in transformers stands in the way, and how.
_REFUSED = {
    "dbrx": "its experts do not run in mixed precision",
    "deberta": "its attention masks do not fit into bfloat16",
    "git": "it changes the output of its embeddings in place",
    "luke": "its files leave out the bias of its head",
    "mpnet": "its padding token must have id 1",
    "reformer": "all its sequences must have one length",
    "ultrabert": "it computes no logits for some positions",
    "xmod": "its adapters of languages do not run in mixed precision",
}
# `format` of a model file in a package -> module and function that convert it, imported when used.
_CONVERTERS = {
    "gguf": ("lexigraft.source.gguf", "gguf_to_folder"),
    "llama2c": ("lexigraft.bundled.llama2c", "llama2c_to_folder"),
}


@dataclass(frozen=True)
class CheckedSource:
    """A model folder that can be grafted; `model` is on the meta device."""

    folder: Path
    config: PretrainedConfig
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    matrices: StoredMatrices


def prepare_source(
    settings: Mapping[str, Any], folder: str | Path, package: str | Path | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Write a source to `folder`, for `open_source`: `source.json`, and for packages the model.

    Returns the names of the written files, and facts about the model for the card. For models that
    are not copied, `model_files` holds the size and checksum of each of their files. `settings` is
    `{"package": name, "file": path in it, "format": "gguf" or "llama2c"}`, whose unpacked folder is
    `package`, or a `spec` of `hub.resolve`; optionally with the `kind` of the model, and the
    `document_start`, the token that begins a text. Raises the errors of `check_source`, and a
    `UserError` if a token's row is not finite.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    kind = settings.get("kind", CAUSAL)
    files: list[str] = []
    if "package" in settings:
        if package is None:
            raise UserError(
                f"source package {settings['package']}: the job specifies no input package"
            )
        files = _convert(settings, Path(package), folder, kind)
        location = {"kind": "package", "path": ".", "repo": settings["package"], "revision": None}
        source = check_source(folder, kind)
        facts = describe_model(source)
    else:
        model_folder, revision = resolve(settings)
        location = {
            "kind": "folder" if "folder" in settings else "hub",
            "path": str(model_folder),
            "repo": settings.get("hub"),
            "revision": revision,
        }
        source = check_source(model_folder, kind)
        facts = describe_model(source)
        model_files = sorted(path for pattern in WANTED for path in model_folder.glob(pattern))
        facts["model_files"] = {path.name: describe_file(path) for path in model_files}
    tokenizer, matrices = source.tokenizer, source.matrices.tensors()
    auto = auto_tokenizer(source.folder)
    if auto is not None and auto.tokenize(_PROBE) != tokenizer.tokenize(_PROBE):
        logger.warning(
            "source %s: %s, which AutoTokenizer loads, tokenizes texts differently from the "
            "source's tokenizer.json; lexigraft follows tokenizer.json, also in exports",
            source.folder,
            type(auto).__name__,
        )
    for file, name in matrices.values():
        matrix = read_tensor(source.folder / file, name)
        check_finite(matrix, tokenizer, f"source {source.folder}: {name}")
    if (start := settings.get(DOCUMENT_START)) is not None:
        set_document_start(tokenizer, start, folder.name)
    facts[DOCUMENT_START] = document_start(tokenizer)
    if kind == CAUSAL and facts["parameters"] <= LARGEST:
        starts = compare_starts(source.folder, tokenizer, folder.name, facts["rows"])
        facts[f"{DOCUMENT_START}_bits_per_byte"] = starts
    added_start = "".join(tokenizer.convert_ids_to_tokens(start_ids(tokenizer)))
    described = {**location, "matrices": matrices, DOCUMENT_START: added_start}
    write_json(folder / "source.json", described)
    return ["source.json", *files], {**facts, "revision": location["revision"]}


def check_source(folder: str | Path, kind: str = CAUSAL) -> CheckedSource:
    """Check that a folder holds a language model and its tokenizer, and open it.

    The model must be `causal`, or `masked` for an encoder such as RoBERTa. Reads configuration,
    tokenizer and file headers, but no weights. Raises a `UserError` if the model is not a language
    model of this kind, is quantized or needs remote code, if its vocabulary cannot be changed
    (`token_tables`), or if weights or tokenizer are missing, damaged or do not fit.
    """
    folder, subject = Path(folder), f"source {folder}"
    config = load_config(folder)
    architecture = config.architectures[0] if config.architectures else "no architecture"
    actual_kind = model_kind(config)
    if actual_kind != kind:
        examples = {CAUSAL: "LlamaForCausalLM …", MASKED: "RobertaForMaskedLM …"}[kind]
        advice = "no other kind of model can be grafted"
        if actual_kind:
            advice = f"set `kind: {actual_kind}` in its entry of sources.yaml"
        raise UserError(
            f"{subject}: config.json names {architecture}, which is not a {kind} language "
            f"model ({examples}); {advice}"
        )
    if getattr(config, "quantization_config", None):
        raise UserError(
            f"{subject}: its weights are quantized (quantization_config in config.json); "
            "use the original model with unquantized weights"
        )
    if reason := _REFUSED.get(config.model_type):
        raise UserError(
            f"{subject}: {architecture} cannot be adapted, because in transformers "
            f"{reason}; choose another source"
        )
    model = skeleton(folder)
    matrices = find_matrices(folder, model)
    if not matrices.tied_by_config and "output" not in matrices.locations:
        raise UserError(
            f"{subject}: config.json says that the output matrix is not tied, but the files "
            f"contain no {matrices.names['output']}; transformers would initialize it at random"
        )
    token_tables(model, subject)
    tokenizer = load_tokenizer(folder)
    if extra := tokens_without_row(tokenizer, matrices.rows, subject):
        logger.warning(
            "%s: the model has no rows for %d added tokens of its tokenizer, such as %r; texts "
            "must not contain these tokens",
            subject,
            len(extra),
            min(extra),
        )
    return CheckedSource(folder, config, model, tokenizer, matrices)


def describe_model(source: CheckedSource) -> dict[str, Any]:
    """Architecture, sizes and tokenizer family of a model folder, from its file headers.

    `parameters` is the number in the files, where a tied matrix counts once. `vocabulary_size` is
    the highest token id plus one; `rows` are the rows of the input matrix, including padding.
    """
    text = source.config.get_text_config()
    return {
        "architecture": (source.config.architectures or ["unknown"])[0],
        "parameters": sum(math.prod(shape) for _, shape in tensors(source.folder).values()),
        "layers": text.num_hidden_layers,
        "hidden_size": text.hidden_size,
        "rows": source.matrices.rows,
        "vocabulary_size": max(source.tokenizer.get_vocab().values()) + 1,
        "tied": source.matrices.is_tied(),
        "tokenizer_family": tokenizer_family(source.tokenizer),
    }


def check_same_tokenizer(source: str | Path, other: str | Path) -> None:
    """Check that the tokenizers of two prepared sources encode every text as the same ids."""
    first, second = (
        json.loads(open_tokenizer(folder).backend_tokenizer.to_str()) for folder in (source, other)
    )
    parts = ("normalizer", "pre_tokenizer", "model", "added_tokens")
    if any(first[part] != second[part] for part in parts):
        raise UserError(
            f"source {Path(source).name}: its tokenizer differs from that of {Path(other).name}, "
            "which its entry specifies as `tokenizer_of`; remove that key"
        )


def _convert(settings: Mapping[str, str], package: Path, folder: Path, kind: str) -> list[str]:
    """Write the package's model to `folder`; its files appear only when all are complete."""
    file = package / settings["file"]
    if not file.is_file():
        raise UserError(f"source file {settings['file']}: not in package {settings['package']}")
    module, function = _CONVERTERS[settings.get("format", "gguf")]
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=folder) as temporary:
        getattr(import_module(module), function)(file, temporary)
        check_source(temporary, kind)
        written = sorted(Path(temporary).iterdir())
        for path in written:
            path.replace(folder / path.name)
    return [path.name for path in written]
