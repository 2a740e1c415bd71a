"""Source models on disk: configuration, tokenizer, weights, and the two token matrices alone.

A model is causal (predicts the next token) or masked (predicts masked tokens).
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError, first_line
from lexigraft.hardware import attention
from lexigraft.source.document_start import DOCUMENT_START, document_start, surrounding
from lexigraft.source.weights import read_tensor, tensors

if TYPE_CHECKING:
    import numpy
    import torch
    from transformers import (
        PretrainedConfig,
        PreTrainedModel,
        PreTrainedTokenizerBase,
        PreTrainedTokenizerFast,
    )

logger = logging.getLogger(__name__)

CAUSAL, MASKED = "causal", "masked"
ROLES = (
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
)  # fmt: skip
# Settings of a tokenizer that are neither in its pipeline nor tokens.
SETTINGS = (
    "model_max_length", "padding_side", "truncation_side", "model_input_names",
    "clean_up_tokenization_spaces", "split_special_tokens", "chat_template", "chat_control_tokens",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", "response_template",
)  # fmt: skip
# Names of the class that follows tokenizer.json, in transformers 4 and 5.
GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# File of a tensor, its name in the file, and its shape.
_Location = tuple[Path, str, tuple[int, ...]]


@dataclass(frozen=True)
class SourceModel:
    """A source model: its Hugging Face folder, its name, and its revision.

    `matrices` are its `matrix_tensors`, and `document_start` the token that its tokenizer does not
    add but that begins its texts, if they are known.
    """

    folder: Path
    name: str
    revision: str | None = None
    matrices: dict[str, tuple[str, str]] | None = None
    document_start: str | None = None

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Load its tokenizer, with its setting `document_start`."""
        tokenizer = load_tokenizer(self.folder)
        if self.document_start is not None:
            tokenizer.init_kwargs[DOCUMENT_START] = self.document_start
        return tokenizer


def open_source(folder: str | Path) -> SourceModel:
    """Open `results/source/<name>`, whose `source.json` holds the path of the model.

    Raises `UserError` if it cannot be read, or the model that it points to no longer exists.
    """
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


def load_tokenizer(folder: str | Path) -> "PreTrainedTokenizerFast":
    """The tokenizer of a Hugging Face folder, which encodes exactly as its `tokenizer.json` says.

    The class that `AutoTokenizer` selects may rebuild the normalizer and the pre-tokenizer and then
    encode differently, so only its settings are taken: the roles of special tokens, the side of
    padding, and others that are defaults of a class and in no file. A BERT without
    `tokenizer.json` has its WordPiece vocabulary in `vocab.txt`, which transformers converts.
    Raises `UserError` if there is neither.
    """
    from transformers import PreTrainedTokenizerFast

    file = Path(folder) / "tokenizer.json"
    if not file.is_file() and _has_word_pieces(Path(folder)):
        converted = auto_tokenizer(folder)
        if isinstance(converted, PreTrainedTokenizerFast):
            return converted
    if not file.is_file():
        advice = "load it with transformers and save it with tokenizer.save_pretrained(folder)"
        if (file.parent / "tokenizer.model").is_file():
            # The conversion of transformers encodes differently from the SentencePiece library.
            advice = "convert it with lexigraft.source.sentencepiece_to_fast(tokenizer.model)"
        raise UserError(
            f"source {folder}: has no tokenizer.json; only fast tokenizers can be extended; "
            f"{advice}"
        )
    try:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    # The tokenizers library raises bare Exception for a file that it cannot parse.
    except Exception as error:
        raise UserError(f"source {file}: not a tokenizer ({first_line(error)})") from error
    _take_settings_of_class(tokenizer, Path(folder))
    # transformers 5 ignores this setting if there is a tokenizer.json, even one that adds no BOS.
    begins = _read_json(file.parent / "tokenizer_config.json").get("add_bos_token")
    if begins is True and tokenizer.bos_token is not None:
        tokenizer.init_kwargs.setdefault(DOCUMENT_START, str(tokenizer.bos_token))
    return tokenizer


def auto_tokenizer(folder: str | Path) -> Any:
    """The tokenizer that `AutoTokenizer` loads from a folder; None, with a warning, if it fails."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # of many kinds: a class may need other files, or a package
        logger.warning(
            "source %s: AutoTokenizer cannot load the tokenizer (%s), so settings that its files "
            "do not contain, such as the padding side, are those of PreTrainedTokenizerFast; "
            "install what is missing, or set them in tokenizer_config.json",
            folder, first_line(error),
        )  # fmt: skip
        return None


def settings_of(tokenizer: "PreTrainedTokenizerFast") -> dict[str, Any]:
    """The settings of a fast tokenizer besides its pipeline, as keywords of the generic class.

    These are roles of special tokens, chat template, lengths and sides, and the token that begins a
    text if the tokenizer does not add it; unset ones are omitted.
    """
    settings = _settings_of_any(tokenizer)
    if not surrounding(tokenizer)[0]:
        settings[DOCUMENT_START] = document_start(tokenizer)
    return settings


def _settings_of_any(tokenizer: "PreTrainedTokenizerBase") -> dict[str, Any]:
    """The settings that also a tokenizer written in Python has, which `AutoTokenizer` may load."""
    settings = {name: getattr(tokenizer, name) for name in SETTINGS}
    settings.update({role: tokenizer._special_tokens_map.get(role) for role in ROLES})
    settings["extra_special_tokens"] = list(tokenizer.extra_special_tokens)
    if named := tokenizer.init_kwargs.get("model_specific_special_tokens"):
        settings["model_specific_special_tokens"] = named
    return {name: value for name, value in settings.items() if value is not None}


def open_tokenizer(folder: str | Path) -> "PreTrainedTokenizerFast":
    """Load the tokenizer of a vocabulary's folder, or of a source, `results/source/<name>`."""
    is_source = (Path(folder) / "source.json").is_file()
    return open_source(folder).tokenizer() if is_source else load_tokenizer(folder)


def tokenizer_folder(folder: str | Path) -> Path:
    """The folder with the files of that tokenizer."""
    pointer = Path(folder) / "source.json"
    return open_source(folder).folder if pointer.is_file() else Path(folder)


def tokens_without_row(
    tokenizer: "PreTrainedTokenizerFast", rows: int, place: str
) -> frozenset[str]:
    """The added tokens of a model's tokenizer that have no row in its matrix of `rows` rows.

    A family of models may share a tokenizer: Gemma 3's has a token for images, for which the text
    models have no row. No text contains such a token unless a program writes it. A UserError that
    begins with `place` is raised if other tokens have no row, since the tokenizer is then another
    model's, or if one has a role or surrounds each text.
    """
    vocabulary = tokenizer.get_vocab()
    beyond = {token: number for token, number in vocabulary.items() if number >= rows}
    if not beyond:
        return frozenset()
    if not set(beyond.values()) <= tokenizer.added_tokens_decoder.keys():
        raise UserError(
            f"{place}: the tokenizer has tokens up to id {max(beyond.values())} but the model has "
            f"only {rows} rows, so the tokenizer does not belong to this model; use its own"
        )
    roles = {getattr(tokenizer, f"{role}_id"): role for role in ROLES}
    roles |= dict.fromkeys(tokenizer("a").input_ids, "a token around each text")
    for token, number in sorted(beyond.items(), key=lambda item: item[1]):
        if number in roles:
            raise UserError(
                f"{place}: {token!r} ({roles[number]}) has id {number} but the model has only "
                f"{rows} rows; choose a token with a smaller id for this role in "
                "tokenizer_config.json or tokenizer.json"
            )
    return frozenset(beyond)


def tokenizer_family(tokenizer: "PreTrainedTokenizerFast") -> str:
    """`byte-level BPE`, `byte-fallback BPE`, `BPE`, `Unigram`, `WordPiece` or `WordLevel`."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    model = content["model"]
    if model["type"] != "BPE":
        return model["type"]
    if is_byte_level(content):
        return "byte-level BPE"
    return "byte-fallback BPE" if model["byte_fallback"] else "BPE"


def is_byte_level(part: dict[str, Any] | None) -> bool:
    """Whether a tokenizer, or a component of one, as in `tokenizer.json`, is byte-level."""
    if not part:
        return False
    sequence = (*part.get("pretokenizers", ()), *part.get("decoders", ()))
    inner = (part.get("pre_tokenizer"), part.get("decoder"), *sequence)
    return part.get("type") == "ByteLevel" or any(map(is_byte_level, inner))


def load_config(folder: str | Path) -> "PretrainedConfig":
    """The model's configuration.

    Raises `UserError` if there is no readable `config.json`, this version of transformers does not
    know its model type, or the model needs code from its repository.
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
                "which is never run; choose a model that transformers supports natively"
            )
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"source {file}: cannot be used ({first_line(error)})") from None


def load_model(
    folder: str | Path,
    dtype: "torch.dtype | str",
    device: "torch.device | str" = "cpu",
    prepare: "Callable[[PreTrainedModel], None] | None" = None,
) -> "PreTrainedModel":
    """Load a model in evaluation mode, tensor by tensor to a device, with its weights in `dtype`.

    `prepare` is called with the model before it has weights, on the meta device. A parameter whose
    dtype it changes is read in that dtype.
    """
    import torch

    config = load_config(folder)
    kind, own = auto_class(config), None
    if prepare is not None:
        empty = skeleton(folder)
        kind, own = _prepared(type(empty), prepare), empty.config
    model = kind.from_pretrained(
        folder,
        config=own,
        dtype=dtype,
        attn_implementation=attention(config),
        # With its index: transformers reads in threads, in which plain "cuda" is the first GPU.
        device_map=torch.empty(0, device=device).device,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
    )
    if prepare is not None:
        model.__class__ = type(empty)
    return model.eval()


def kind_of(config: "PretrainedConfig") -> str | None:
    """`causal`, `masked`, or None for any other architecture, such as encoder-decoders."""
    return _kind((config.architectures or [""])[0], config)


def is_masked(model: "PreTrainedModel") -> bool:
    """Whether a loaded model is a masked language model."""
    return _kind(type(model).__name__, model.config) == MASKED


def auto_class(config: "PretrainedConfig") -> Any:
    """The auto class of transformers for the model with its language modelling head."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    return AutoModelForMaskedLM if kind_of(config) == MASKED else AutoModelForCausalLM


def matrix_names(folder: str | Path) -> dict[str, str]:
    """Parameter names of the input matrix and of the output matrix, tied or not.

    E.g. `{"input": "model.embed_tokens.weight", "output": "lm_head.weight"}`.
    """
    return _matrix_names(skeleton(folder), folder)


def is_tied(folder: str | Path) -> bool:
    """Whether one matrix serves as input and output.

    If the configuration ties them but the files hold an output matrix with other values,
    transformers loads the model as untied, so it counts as untied here.
    """
    located, tied = _locations(folder)
    return tied and _is_one_matrix(located)


def matrix_rows(folder: str | Path) -> int:
    """Rows of the input matrix, padding rows included, from the header of its file."""
    return _locations(folder)[0]["input"][2][0]


def has_output_matrix(folder: str | Path) -> bool:
    """Whether the output matrix is tied, or stored in the files."""
    located, tied = _locations(folder)
    return tied or "output" in located


def matrix_tensors(folder: str | Path) -> dict[str, tuple[str, str]]:
    """The file in the folder and the tensor in it of `input` and, for untied models, of `output`.

    Raises `UserError` if the files hold no input matrix.
    """
    located, tied = _locations(folder)
    if tied and _is_one_matrix(located):
        located.pop("output", None)
    return {which: (file.name, name) for which, (file, name, _) in located.items()}


def read_matrices(
    folder: str | Path, stored: Mapping[str, tuple[str, str]] | None = None
) -> "dict[str, numpy.ndarray]":
    """Read the input matrix and, unless tied, the output matrix, but no other tensor.

    Returns `input` and, for untied models, `output`: float32 arrays [rows, hidden]. `stored` are
    the model's `matrix_tensors`, if they are known: finding them takes seconds, since it needs the
    model's class. Raises `UserError` if the files hold no input matrix.
    """
    tensors = matrix_tensors(folder) if stored is None else stored
    return {
        which: read_tensor(Path(folder) / file, name).float().numpy()
        for which, (file, name) in tensors.items()
    }


def read_input_matrix(folder: str | Path) -> "numpy.ndarray":
    """Read the input matrix, float32 [rows, hidden], of a model of any kind.

    Kinds include encoders and encoder-decoders.
    """
    from transformers import AutoModel

    model = skeleton(folder, AutoModel)
    name = _weight_name(model, model.get_input_embeddings())
    return _read(_located(folder, model, {"input": name})["input"]).float().numpy()


def stored_parameters(folder: str | Path, model: "PreTrainedModel") -> dict[str, _Location]:
    """Location and shape of the model's parameters that are stored unchanged in the files.

    The name of a tensor in the file may differ from the model's (`wte.weight` for
    `transformer.wte.weight`, `embed_out.weight` for `lm_head.weight`). The mapping is the one that
    transformers applies when it loads the files. Parameters that it computes are not included.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    mapping = get_model_conversion_mapping(model)
    renamings = [entry for entry in mapping if isinstance(entry, WeightRenaming)]
    converters = [entry for entry in mapping if isinstance(entry, WeightConverter)]
    options = (renamings, converters, model.base_model_prefix, model.state_dict())
    found = {}
    for key, (file, shape) in tensors(folder).items():
        name, converted = rename_source_key(key, *options)
        if converted is None:
            found[name] = (file, key, shape)
    return found


def _prepared(kind: Any, prepare: "Callable[[PreTrainedModel], None]") -> Any:
    """A subclass of a model class that calls `prepare` on a model as soon as it has been built."""

    def build(self: Any, *arguments: Any, **named: Any) -> None:
        kind.__init__(self, *arguments, **named)
        prepare(self)

    # transformers uses the name of a class, for example, to find which outputs it records.
    name = {key: getattr(kind, key) for key in ("__module__", "__qualname__")}
    return type(kind.__name__, (kind,), {**name, "__init__": build})


def _kind(architecture: str, config: "PretrainedConfig") -> str | None:
    from transformers.models.auto import modeling_auto

    if architecture in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        return CAUSAL
    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()
    if architecture in masked and not getattr(config, "is_encoder_decoder", False):
        return MASKED
    return None


def skeleton(folder: str | Path, auto: Any = None) -> "PreTrainedModel":
    """The model on the meta device: modules and their names, without weights.

    Raises a UserError if the architecture needs a package that is not installed.
    """
    import torch

    config = load_config(folder)
    try:
        with torch.device("meta"):
            return (auto or auto_class(config)).from_config(config, trust_remote_code=False)
    except ImportError as error:
        raise UserError(
            f"source {folder}: its architecture needs a package ({first_line(error)}); install it, "
            "or choose another source"
        ) from None


def _matrix_names(model: "PreTrainedModel", folder: str | Path) -> dict[str, str]:
    modules = {"input": model.get_input_embeddings(), "output": model.get_output_embeddings()}
    for which, module in modules.items():
        if module is None:
            raise UserError(f"source {folder}: {type(model).__name__} has no {which} matrix")
    return {which: _weight_name(model, module) for which, module in modules.items()}


def _weight_name(model: "PreTrainedModel", module: Any) -> str:
    return next(f"{name}.weight" for name, other in model.named_modules() if other is module)


def _is_one_matrix(located: dict[str, _Location]) -> bool:
    """Whether the output matrix of a model whose configuration ties them equals the input's."""
    return "output" not in located or bool(
        (_read(located["input"]) == _read(located["output"])).all()
    )


def _read(location: _Location) -> "torch.Tensor":
    return read_tensor(*location[:2])


def _locations(folder: str | Path) -> tuple[dict[str, _Location], bool]:
    """Locations of the two matrices, without those that the files do not hold, and whether
    transformers ties them: of two nested settings, each architecture follows one.
    """
    model = skeleton(folder)
    names = _matrix_names(model, folder)
    layers: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    return _located(folder, model, names), layers[0].weight is layers[1].weight


def _located(
    folder: str | Path, model: "PreTrainedModel", names: dict[str, str]
) -> dict[str, _Location]:
    """Locations of the named parameters, without those that the files do not hold."""
    stored = stored_parameters(folder, model)
    found = {which: stored[name] for which, name in names.items() if name in stored}
    if "input" not in found:
        raise UserError(f"source {folder}: its files contain no input matrix")
    return found


def _has_word_pieces(folder: Path) -> bool:
    """Whether `vocab.txt` is a WordPiece vocabulary of a BERT, unlike PhoBERT's, for example."""
    is_bert = _read_json(folder / "config.json").get("model_type") == "bert"
    return is_bert and (folder / "vocab.txt").is_file()


def _take_settings_of_class(tokenizer: "PreTrainedTokenizerFast", folder: Path) -> None:
    """Set what a folder leaves to the class of its tokenizer as this class sets it, in place.

    Gemma's class pads on the left, BERT's gives the second text of a pair another type, and which
    token masks or begins a text is known only to the classes of early folders (roberta-base, gpt2).
    Roles of tokens that `tokenizer.json` does not have are omitted: the class would add the tokens.
    """
    stated = _read_json(folder / "tokenizer_config.json").get("tokenizer_class")
    if stated in GENERIC_CLASSES or not (stated or (folder / "config.json").is_file()):
        return
    of_class = auto_tokenizer(folder)
    if of_class is None:
        return
    known, settings = tokenizer.get_vocab(), _settings_of_any(of_class)
    extra = settings["extra_special_tokens"]
    settings["extra_special_tokens"] = [token for token in extra if token in known]
    for name in (*SETTINGS, *ROLES, "extra_special_tokens"):
        if name in settings and (name not in ROLES or str(settings[name]) in known):
            setattr(tokenizer, name, settings[name])


def _read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing or cannot be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
