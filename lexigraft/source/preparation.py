"""Prepare a source from the registry: locate, convert if needed, check, describe."""

import json
import logging
import math
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.artifacts.atomic import PARTIAL, write_json
from lexigraft.artifacts.cards import describe_file
from lexigraft.errors import UserError
from lexigraft.source.document_start import DOCUMENT_START, set_document_start, start_ids
from lexigraft.source.hub import WANTED, resolve
from lexigraft.source.model import (
    CAUSAL,
    MASKED,
    auto_tokenizer,
    has_output_matrix,
    is_tied,
    kind_of,
    load_config,
    load_tokenizer,
    matrix_names,
    matrix_rows,
    matrix_tensors,
    open_tokenizer,
    skeleton,
    tokenizer_family,
    tokens_without_row,
)
from lexigraft.source.start_comparison import compare_starts
from lexigraft.source.token_tables import token_tables
from lexigraft.source.weights import check_finite, read_tensor, tensors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

# What classes of tokenizers treat differently: spaces, contractions, digits, line feeds, composed
# letters, marks, and scripts without spaces.
_PROBE = "  They're 12,345\n\n\tcafe\u0301 कि ที่  人人生"
# `format` of a model file in a package -> module and function that convert it, imported when used.
_CONVERTERS = {
    "gguf": ("lexigraft.source.gguf", "gguf_to_folder"),
    "llama2c": ("lexigraft.bundled.llama2c", "llama2c_to_folder"),
}


def prepare_source(
    settings: Mapping[str, Any], folder: str | Path, package: str | Path | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Write a source to `folder`, for `open_source`.

    Returns the names of the written files, and facts about the model for the card. For models that
    are not copied, `model_files` holds the size and checksum of each of their files.

    Parameters
    ----------
    settings
        `{"package": name, "file": path in it, "format": "gguf" or "llama2c"}`,
        `{"folder": path}` or `{"hub": "org/name", "revision": …}`; optionally with the `kind` of
        the model (see `check_source`), and the `document_start`, the token that begins a text.
    folder
        Receives `source.json`, and for packages the model itself.
    package
        The folder of the unpacked package.

    Raises
    ------
    UserError
        The model cannot be found, or cannot be grafted (see `check_source`), or a token's row is
        not finite.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if "package" in settings:
        if package is None:
            raise UserError(
                f"source package {settings['package']}: the job specifies no input package"
            )
        model, files = folder, _convert(settings, Path(package), folder)
        source = {"kind": "package", "path": ".", "repo": settings["package"], "revision": None}
        facts = describe_model(model)
    else:
        model, revision = resolve(settings)
        check_source(model, settings.get("kind", CAUSAL))
        kind = "folder" if "folder" in settings else "hub"
        repository = settings.get("hub")
        source = {"kind": kind, "path": str(model), "repo": repository, "revision": revision}
        files = []
        facts = describe_model(model)
        used = sorted(path for pattern in WANTED for path in model.glob(pattern))
        facts["model_files"] = {path.name: describe_file(path) for path in used}
    matrices, tokenizer = matrix_tensors(model), load_tokenizer(model)
    _compare_with_auto_tokenizer(model, tokenizer)
    for file, name in matrices.values():
        check_finite(read_tensor(model / file, name), tokenizer, f"source {model}: {name}")
    if (start := settings.get(DOCUMENT_START)) is not None:
        set_document_start(tokenizer, start, folder.name)
    size = {name: facts[name] for name in ("parameters", "rows")}
    facts |= compare_starts(model, tokenizer, folder.name, **size)
    source |= {
        "matrices": matrices,
        DOCUMENT_START: "".join(tokenizer.convert_ids_to_tokens(start_ids(tokenizer))),
    }
    write_json(folder / "source.json", source)
    return ["source.json", *files], {**facts, "revision": source["revision"]}


def check_source(folder: str | Path, kind: str = CAUSAL) -> None:
    """Check that a folder holds a language model and its tokenizer.

    The model must be `causal`, or `masked` for an encoder such as RoBERTa. Reads configuration,
    tokenizer and file headers, but no weights.

    Raises
    ------
    UserError
        No `config.json`; a model that is not a language model of this kind, is quantized, or
        needs remote code; a vocabulary that cannot be changed (`token_tables`); weights that are
        missing, pickled, truncated or damaged; no `tokenizer.json`; a tokenizer with more tokens
        than the input matrix has rows, unless they are added tokens that texts do not contain
        (`tokens_without_row`).
    """
    folder = Path(folder)
    config = load_config(folder)
    found = kind_of(config)
    if found != kind:
        architecture = config.architectures[0] if config.architectures else "no architecture"
        examples = {
            CAUSAL: "LlamaForCausalLM, GPT2LMHeadModel …",
            MASKED: "RobertaForMaskedLM, BertForMaskedLM …",
        }
        advice = "no other kind of model can be grafted"
        if found:
            advice = f"set `kind: {found}` in its entry of sources.yaml"
        raise UserError(
            f"source {folder}: config.json names {architecture}, which is not a {kind} language "
            f"model ({examples[kind]}); {advice}"
        )
    if getattr(config, "quantization_config", None):
        raise UserError(
            f"source {folder}: its weights are quantized (quantization_config in config.json); "
            "use the original model with unquantized weights"
        )
    rows = matrix_rows(folder)
    if not has_output_matrix(folder):
        raise UserError(
            f"source {folder}: config.json says that the output matrix is not tied, but the files "
            f"contain no {matrix_names(folder)['output']}; transformers would initialize it at "
            "random"
        )
    token_tables(skeleton(folder), f"source {folder}")
    if extra := tokens_without_row(load_tokenizer(folder), rows, f"source {folder}"):
        logger.warning(
            "source %s: the model has no rows for %d added tokens of its tokenizer, such as %r; "
            "texts must not contain these tokens",
            folder, len(extra), min(extra),
        )  # fmt: skip


def _compare_with_auto_tokenizer(folder: Path, tokenizer: "PreTrainedTokenizerFast") -> None:
    """Warn if `AutoTokenizer` segments texts otherwise than the folder's own tokenizer."""
    plain = auto_tokenizer(folder)
    if plain is not None and plain.tokenize(_PROBE) != tokenizer.tokenize(_PROBE):
        logger.warning(
            "source %s: %s, which AutoTokenizer loads, tokenizes texts differently from the "
            "source's tokenizer.json; lexigraft follows tokenizer.json, also in exports",
            folder, type(plain).__name__,
        )  # fmt: skip


def check_same_tokenizer(source: str | Path, other: str | Path) -> None:
    """Check that the tokenizers of two prepared sources encode every text as the same ids.

    Raises a UserError that names both if they do not.
    """
    own, shared = (_cuts(folder) for folder in (source, other))
    if own != shared:
        raise UserError(
            f"source {Path(source).name}: its tokenizer differs from that of {Path(other).name}, "
            "which its entry specifies as `tokenizer_of`; remove that key"
        )


def _cuts(source: str | Path) -> dict[str, Any]:
    """The parts of a source's tokenizer that determine how it segments texts."""
    content = json.loads(open_tokenizer(source).backend_tokenizer.to_str())
    return {key: content[key] for key in ("normalizer", "pre_tokenizer", "model", "added_tokens")}


def describe_model(folder: str | Path) -> dict[str, Any]:
    """Architecture, sizes and tokenizer family of a model folder, from its file headers.

    `parameters` is the number in the files, where a tied matrix counts once. `vocabulary_size` is
    the highest token id plus one; `rows` are the rows of the input matrix, including padding.
    """
    config = load_config(folder)
    text = config.get_text_config()
    tokenizer = load_tokenizer(folder)
    return {
        "architecture": (config.architectures or ["unknown"])[0],
        "parameters": sum(math.prod(shape) for _, shape in tensors(folder).values()),
        "layers": text.num_hidden_layers,
        "hidden_size": text.hidden_size,
        "rows": matrix_rows(folder),
        "vocabulary_size": max(tokenizer.get_vocab().values()) + 1,
        "tied": is_tied(folder),
        "tokenizer_family": tokenizer_family(tokenizer),
    }


def _convert(settings: Mapping[str, str], package: Path, folder: Path) -> list[str]:
    """Write the package's model to `folder`; its files appear only when all are complete."""
    file = package / settings["file"]
    if not file.is_file():
        raise UserError(f"source file {settings['file']}: not in package {settings['package']}")
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as temporary:
        module, function = _CONVERTERS[settings.get("format", "gguf")]
        getattr(import_module(module), function)(file, temporary)
        check_source(temporary, settings.get("kind", CAUSAL))
        written = sorted(Path(temporary).iterdir())
        for path in written:
            path.replace(folder / path.name)
    return [path.name for path in written]
