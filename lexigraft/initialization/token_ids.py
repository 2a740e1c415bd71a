"""Moves the token ids in a model's configuration and generation settings to another vocabulary."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from lexigraft.source.positions import follow_padding
from lexigraft.source.token_tables import token_tables

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_ROLES = ("bos", "eos", "pad", "sep", "cls", "mask", "unk", "decoder_start")
# `image_token_id`, `boi_token_index`, `visual_indicator_token_ids`; `mask_index` of XLM.
_ONE = re.compile(r"(^|_)token_(id|ids|index)$|^(mask|unk)_index$")
_MANY = ("suppress_tokens", "begin_suppress_tokens")

# The target ids that copy a source id.
_Copies = Callable[[int], list[int]]


def update_special_token_ids(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", source_of: np.ndarray
) -> None:
    """Replace the token ids in a model's configs by those of the target tokenizer, in place.

    `source_of` [n_target] is the source row that each target row copies, -1 for new tokens. An id
    whose token the target does not have is replaced by the target's own token of the same role, or
    removed; an id that names no token, such as -1, never becomes one that does. Generation ends at
    every target token that copies a token at which it ended before: tokens with equal rows are
    equally likely. Positions that are offset by the padding token's id are adjusted.
    """
    from huggingface_hub.errors import StrictDataclassFieldValidationError

    text, generation = model.config.get_text_config(), getattr(model, "generation_config", None)
    nested = [getattr(model.config, part) for part in model.config.sub_configs]
    # A part with a vocabulary size has a vocabulary of its own, e.g. of sounds.
    parts = [part for part in nested if part and not hasattr(part, "vocab_size")]
    configs = {id(one): one for one in (model.config, text, *parts, generation) if one}

    def copies(token_id: int) -> list[int]:
        return np.flatnonzero(source_of == token_id).tolist() if token_id >= 0 else []

    for config in configs.values():
        for key, value in vars(config).copy().items():
            if value is None or isinstance(value, bool):
                continue
            role = key.removesuffix("_token_id")
            moved: Any
            if role in _ROLES:
                own = getattr(tokenizer, key, None)
                moved = _of_role(value, own, copies, role == "eos" and config is generation)
            elif _ONE.search(key) and isinstance(value, int):
                moved = next(iter(copies(value)), None)
            elif _ONE.search(key) or key in _MANY:
                moved = [new for old in value for new in copies(old)] or None
            elif key == "bad_words_ids":
                moved = [[*word] for old in value for word in _words(old, copies)] or None
            elif key == "sequence_bias":
                pairs = value.items() if isinstance(value, dict) else value
                moved = [[[*word], bias] for old, bias in pairs for word in _words(old, copies)]
                moved = moved or None
            elif key == "forced_decoder_ids":
                moved = [[at, new] for at, old in value for new in copies(old)[:1]] or None
            elif key == "vocabulary_map":  # names of image tokens
                moved = {name: new for name, old in value.items() for new in copies(old)[:1]}
            else:
                continue
            try:
                setattr(config, key, moved)
            except StrictDataclassFieldValidationError:  # None is not allowed
                setattr(config, key, -1)
    if getattr(text, "unpadded_vocab_size", None):
        text.unpadded_vocab_size = max(tokenizer.get_vocab().values()) + 1
    padding = getattr(text, "pad_token_id", None)
    padding = None if padding is None or padding < 0 else padding
    tables: list[Any] = [
        model.get_submodule(name.rpartition(".")[0]) for name in token_tables(model)
    ]
    for module in (model.get_input_embeddings(), *tables):
        if getattr(module, "padding_idx", None) is not None:
            # The row at this index gets no gradient; the source's id may now be another token.
            module.padding_idx = padding
    follow_padding(model, padding)


def _words(word: Sequence[int], copies: _Copies) -> Iterator[tuple[int, ...]]:
    """A sequence of tokens as sequences of target ids: none if the target lacks one of them."""
    return product(*(copies(token_id) for token_id in word))


def _of_role(
    source: int | list[int], own: int | None, copies: _Copies, every: bool
) -> int | list[int] | None:
    """Target ids for the source ids of a role, with the target's own token of the role first.

    For each source id, all target tokens that copy it (`every`), or otherwise one of them. If there
    are none at all, the target's own token of the role, unless the source names no token.
    """
    named = [one for one in (source if isinstance(source, list) else [source]) if one >= 0]
    ids: set[int] = set()
    for token_id in named:
        found = copies(token_id)
        if not every:
            found = [own] if own is not None and own in found else found[:1]
        ids.update(found)
    if named and not ids and own is not None:
        ids = {own}
    ordered = sorted(ids, key=lambda token_id: (token_id != own, token_id))
    return ordered if isinstance(source, list) or len(ordered) > 1 else next(iter(ordered), None)
