"""The token that begins a text, which is a fact about how a model was pretrained.

Pretraining concatenates documents with a token between them. A model that reads a text after
another token, such as the `<|im_end|>` of a chat format, predicts it clearly worse.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from lexigraft.errors import UserError
from lexigraft.source.model import CAUSAL, DOCUMENT_START, kind_of, load_config, load_model
from lexigraft.source.positions import context_length

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

# Tokens that pretraining puts between documents: first those that end a document (GPT-2, Pythia,
# Qwen, SmolLM2, OLMo; Granite, SmolLM3; BLOOM; …), then those that begin one.
_SEPARATORS = (
    "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<EOS_TOKEN>", "[EOS]",
    "<｜end▁of▁sentence｜>", "<seed:eos>", "<|begin_of_text|>", "<|startoftext|>", "<s>", "<bos>",
    "<|bos|>", "<BOS_TOKEN>", "[BOS]", "<｜begin▁of▁sentence｜>", "<seed:bos>",
)  # fmt: skip
_CANDIDATES = 5  # tokens that are compared by measurement
_LONGEST_START = 8  # tokens
_IGNORED = -100
_LARGEST = 1_000_000_000  # parameters of a model that a processor scores in seconds
# Texts for this comparison: short, since the first token matters most at the beginning.
_ENGLISH = (
    "The ferry leaves at half past six, so we should be at the harbour before it gets dark.",
    "Bread dough needs warmth and time, and it rises faster with a little sugar in the yeast.",
    "Nobody knew who had painted the old mill, but its red door could be seen from every hill.",
    "The committee will publish the results of its inquiry in the second week of November.",
    "She put the letters into a box, closed the lid and carried it up to the attic.",
    "Most of the rain falls in spring, when the river is high and the meadows are under water.",
)


def document_start(tokenizer: "PreTrainedTokenizerFast") -> str:
    """The token that begins a text, added by the tokenizer or by `start_ids`; empty without one."""
    own = _added_before(tokenizer)
    return "".join(own) if own else _separator(tokenizer)


def start_ids(tokenizer: "PreTrainedTokenizerFast") -> list[int]:
    """The ids to put before the tokens of a text: none, or the one of its document separator.

    A tokenizer that begins a text with a special token (Llama's BOS) is used unchanged. Otherwise
    the token is, in this order,

    1. the setting `document_start` of a source, which its vocabularies keep;
    2. the BOS token, if `tokenizer_config.json` says `add_bos_token` (see `load_tokenizer`);
    3. a special or added token whose name is that of a document separator: the EOS token if it is
       one, otherwise the first of a list (`<|endoftext|>`, `<|end_of_text|>`, `</s>` …). This is
       the separator of SmolLM2 and Qwen in pretraining even where EOS is `<|im_end|>`;
    4. the EOS token, or the BOS token.

    Without any of them, texts begin with their own first token, which is then not predicted.
    """
    if _added_before(tokenizer) or not (token := _separator(tokenizer)):
        return []
    return [tokenizer.backend_tokenizer.token_to_id(token)]


def set_document_start(tokenizer: "PreTrainedTokenizerFast", token: str, source: str) -> None:
    """Make a token begin texts, or none if it is empty; a UserError names the source.

    A tokenizer that itself begins a text with a special token keeps it.
    """
    own = "".join(_added_before(tokenizer))
    if own and token != own:
        raise UserError(
            f"source {source}: document_start is '{token}', but its tokenizer begins every text "
            f"with '{own}'; remove document_start"
        )
    if token and not own and token not in tokenizer.get_vocab():
        raise UserError(
            f"source {source}: document_start '{token}' is not a token of its tokenizer; choose "
            f"from {', '.join(_others(tokenizer)[:6]) or 'the tokens in its tokenizer.json'}"
        )
    tokenizer.init_kwargs[DOCUMENT_START] = token


def compare_starts(
    folder: str | Path, tokenizer: "PreTrainedTokenizerFast", parameters: int, source: str
) -> dict[str, Any]:
    """Facts for a source's card: the token that begins texts, and what measurements say about it.

    `document_start_bits_per_byte` are those of a few English texts after each token that may begin
    a text, and after none (the empty string). The first token of a text is not counted, since
    without a token before it, it cannot be predicted. If the model is not measured,
    `document_start_not_measured` says why: sources are prepared where Snakemake runs, which may be
    the login node of a cluster. Logs a warning if another token is better by at least 1 %.
    """
    import torch

    facts: dict[str, Any] = {DOCUMENT_START: (chosen := document_start(tokenizer))}
    texts = [
        tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] for text in _ENGLISH
    ]
    config, free = load_config(folder), psutil.virtual_memory().available
    positions = context_length(config)
    if kind_of(config) != CAUSAL:
        reason = "it is not a causal model"
    elif parameters > _LARGEST:
        reason = f"it has more than {_LARGEST / 1e9:g} billion parameters"
    elif 8 * parameters > free:  # 4 bytes per parameter, and as much for everything else
        reason = f"this machine has {free / 1e9:.1f} GB of free memory"
    elif positions is not None and max(map(len, texts)) + _LONGEST_START > positions:
        reason = f"its {positions} positions are too few"
    else:
        model = load_model(folder, torch.float32, torch.device("cpu"))
        vocabulary = tokenizer.get_vocab()
        before = [vocabulary[token] for token in _added_before(tokenizer)] or start_ids(tokenizer)
        starts = {chosen: before} | {token: [vocabulary[token]] for token in _others(tokenizer)}
        starts = dict(list(starts.items())[:_CANDIDATES]) | {"": []}
        measured = {token: _bits_per_byte(model, start, texts) for token, start in starts.items()}
        _warn(source, measured, chosen)
        return facts | {f"{DOCUMENT_START}_bits_per_byte": measured}
    return facts | {f"{DOCUMENT_START}_not_measured": reason}


def _bits_per_byte(
    model: "PreTrainedModel", start: list[int], texts: Sequence[list[int]]
) -> float | None:
    """Of texts without their first tokens; None if the model's weights are not finite."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    rows = [torch.tensor([*start, *ids]) for ids in texts]
    targets = [torch.tensor([*[_IGNORED] * (len(start) + 1), *ids[1:]]) for ids in texts]
    inputs = pad_sequence(rows, batch_first=True)
    labels = pad_sequence(targets, batch_first=True, padding_value=_IGNORED)
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    with torch.inference_mode():
        logits = model(input_ids=inputs, attention_mask=mask, use_cache=False).logits
    nats = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(),
        ignore_index=_IGNORED, reduction="sum",
    ).item()  # fmt: skip
    bytes_ = sum(len(text.encode()) for text in _ENGLISH)
    # Rounded, so that the card does not depend on the number of threads.
    return round(nats / math.log(2) / bytes_, 3) if math.isfinite(nats) else None


def _warn(source: str, measured: Mapping[str, float | None], chosen: str) -> None:
    own = measured[chosen]
    finite = {token: value for token, value in measured.items() if value is not None}
    best = min(finite, key=finite.__getitem__, default=chosen)
    if own is not None and finite[best] < 0.99 * own:
        names = [f"'{token}'" if token else "no token" for token in (chosen, best)]
        logger.warning(
            "source %s: texts begin with %s, after which English has %.3f bits per byte, but %.3f "
            "after %s; set document_start in its entry of sources.yaml",
            source, names[0], own, finite[best], names[1],
        )  # fmt: skip


def _added_before(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """The special tokens that a tokenizer itself puts before a text."""
    encoding = tokenizer("a", return_special_tokens_mask=True).encodings[0]
    pairs = zip(encoding.tokens, encoding.special_tokens_mask, strict=True)
    return [token for token, _ in takewhile(lambda pair: pair[1], pairs)]


def _separator(tokenizer: "PreTrainedTokenizerFast") -> str:
    """The token by the rule of `start_ids`, for a tokenizer that adds none; may be empty."""
    if (given := tokenizer.init_kwargs.get(DOCUMENT_START)) is not None:
        return str(given)
    roles = [str(role) for role in (tokenizer.eos_token, tokenizer.bos_token) if role is not None]
    named = _named(tokenizer)
    return next(iter([*(role for role in roles[:1] if role in named), *named, *roles]), "")


def _named(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """The tokens that have the name of a document separator, likely ones first."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    return [token for token in _SEPARATORS if token in added]


def _others(tokenizer: "PreTrainedTokenizerFast") -> list[str]:
    """Tokens that might begin texts: roles, separators, then other special tokens."""
    roles = [str(role) for role in (tokenizer.eos_token, tokenizer.bos_token) if role is not None]
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return list(dict.fromkeys([*roles, *_named(tokenizer), *special]))
