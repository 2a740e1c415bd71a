"""Tokenizers of models, which encode exactly as their `tokenizer.json` says, and their settings."""

import json
import logging
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lexigraft.errors import UserError, first_line
from lexigraft.source.document_start import DOCUMENT_START, document_start, surrounding

logger = logging.getLogger(__name__)

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


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a Hugging Face folder, which encodes exactly as its `tokenizer.json` says.

    The class that `AutoTokenizer` selects may rebuild the normalizer and the pre-tokenizer and then
    encode differently, so only its settings are taken: the roles of special tokens, the side of
    padding, and others that are defaults of a class and in no file.
    """
    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        # The WordPiece vocabulary of a BERT, unlike PhoBERT's file of that name.
        is_bert = _read_json(file.parent / "config.json").get("model_type") == "bert"
        if is_bert and (file.parent / "vocab.txt").is_file():
            converted = auto_tokenizer(folder)
            if isinstance(converted, PreTrainedTokenizerFast):
                return converted
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
    adds_bos = _read_json(file.parent / "tokenizer_config.json").get("add_bos_token")
    if adds_bos is True and tokenizer.bos_token is not None:
        tokenizer.init_kwargs.setdefault(DOCUMENT_START, str(tokenizer.bos_token))
    return tokenizer


def auto_tokenizer(folder: str | Path) -> Any:
    """The tokenizer that `AutoTokenizer` loads from a folder; None, with a warning, if it fails."""
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


def settings_of(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """The settings of a fast tokenizer besides its pipeline, as keywords of the generic class.

    The token that begins a text is one of them, if the tokenizer does not add it; unset ones are
    omitted.
    """
    settings = _settings_of_any(tokenizer)
    if not surrounding(tokenizer)[0]:
        settings[DOCUMENT_START] = document_start(tokenizer)
    return settings


def _settings_of_any(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The settings that also a tokenizer written in Python has, which `AutoTokenizer` may load."""
    settings = {name: getattr(tokenizer, name) for name in SETTINGS}
    settings.update({role: tokenizer._special_tokens_map.get(role) for role in ROLES})
    settings["extra_special_tokens"] = list(tokenizer.extra_special_tokens)
    if named := tokenizer.init_kwargs.get("model_specific_special_tokens"):
        settings["model_specific_special_tokens"] = named
    return {name: value for name, value in settings.items() if value is not None}


def have_same_settings(tokenizer: PreTrainedTokenizerFast, other: PreTrainedTokenizerFast) -> bool:
    """Whether two tokenizers have the same `settings_of`, whatever their pipelines are."""
    settings = [
        {name: str(value) for name, value in settings_of(each).items()}
        for each in (tokenizer, other)
    ]
    return settings[0] == settings[1]


def tokens_without_row(tokenizer: PreTrainedTokenizerFast, rows: int, place: str) -> frozenset[str]:
    """The added tokens of a model's tokenizer that have no row in its matrix of `rows` rows.

    Gemma 3's tokenizer has a token for images, for which the text models have no row. A UserError
    that begins with `place` is raised if other tokens have no row, since the tokenizer is then
    another model's, or if one has a role or surrounds each text.
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


def tokenizer_family(tokenizer: PreTrainedTokenizerFast) -> str:
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


def _take_settings_of_class(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Set what a folder leaves to the class of its tokenizer as this class sets it, in place.

    Gemma's class pads on the left, and which token masks or begins a text is known only to the
    classes of early folders (roberta-base, gpt2). Roles of tokens that `tokenizer.json` does not
    have are omitted: the class would add the tokens.
    """
    stated = _read_json(folder / "tokenizer_config.json").get("tokenizer_class")
    if stated in GENERIC_CLASSES or not (stated or (folder / "config.json").is_file()):
        return
    of_class = auto_tokenizer(folder)
    if of_class is None:
        return
    vocabulary, settings = tokenizer.get_vocab(), _settings_of_any(of_class)
    extra = settings["extra_special_tokens"]
    settings["extra_special_tokens"] = [token for token in extra if token in vocabulary]
    for name in (*SETTINGS, *ROLES, "extra_special_tokens"):
        if name in settings and (name not in ROLES or str(settings[name]) in vocabulary):
            setattr(tokenizer, name, settings[name])


def _read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing or cannot be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
