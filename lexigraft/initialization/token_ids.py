"""Token ids in a model's configuration and generation settings, for another vocabulary."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from huggingface_hub.errors import StrictDataclassFieldValidationError
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.source.positions import follow_padding
from lexigraft.source.token_tables import token_tables
from lexigraft.vocabulary.token_bytes import vocabulary_size

_ROLES = ("bos", "eos", "pad", "sep", "cls", "mask", "unk", "decoder_start")
# `image_token_id`, `boi_token_index`, `visual_indicator_token_ids`; `mask_index` of XLM.
_ID_KEY = re.compile(r"(^|_)token_(id|ids|index)$|^(mask|unk)_index$")
_LIST_KEYS = ("suppress_tokens", "begin_suppress_tokens")

# The ids of the target tokens that copy a source token.
_TargetIds = Callable[[int], list[int]]


def update_special_token_ids(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, source_of: np.ndarray
) -> None:
    """Replace the token ids in a model's configs by those of the target tokenizer, in place.

    `source_of` [n_target] is the source row that each target row copies, -1 for new tokens. An id
    whose token the target does not have is replaced by the target's token of the same role, or
    removed. Generation ends at every target token that copies a token at which it ended before.
    """
    text_config = model.config.get_text_config()
    generation_config = getattr(model, "generation_config", None)
    all_nested = [getattr(model.config, part) for part in model.config.sub_configs]
    # A part with a vocabulary size has a vocabulary of its own, e.g. of sounds.
    nested_configs = [part for part in all_nested if part and not hasattr(part, "vocab_size")]
    configs = {
        id(config): config
        for config in (model.config, text_config, *nested_configs, generation_config)
        if config
    }

    def target_ids(token_id: int) -> list[int]:
        return np.flatnonzero(source_of == token_id).tolist() if token_id >= 0 else []

    for config in configs.values():
        for key, value in vars(config).copy().items():
            if value is None or isinstance(value, bool):
                continue
            role = key.removesuffix("_token_id")
            new_value: Any
            if role in _ROLES:
                role_id = getattr(tokenizer, key, None)
                ends = role == "eos" and config is generation_config
                new_value = _role_ids(value, role_id, target_ids, ends)
            elif _ID_KEY.search(key) and isinstance(value, int):
                # Some models compare ids with this one, which -1 never equals.
                new_value = next(iter(target_ids(value)), -1)
            elif _ID_KEY.search(key) or key in _LIST_KEYS:
                new_value = [new for source_id in value for new in target_ids(source_id)] or None
            elif key == "bad_words_ids":
                words = [word for old in value for word in _target_sequences(old, target_ids)]
                new_value = [[*word] for word in words] or None
            elif key == "sequence_bias":
                pairs = value.items() if isinstance(value, dict) else value
                new_value = [
                    [[*word], bias]
                    for source_word, bias in pairs
                    for word in _target_sequences(source_word, target_ids)
                ] or None
            elif key == "forced_decoder_ids":
                new_value = [
                    [position, new] for position, old in value for new in target_ids(old)[:1]
                ] or None
            elif key == "vocabulary_map":  # names of image tokens
                new_value = {
                    name: new for name, old in value.items() for new in target_ids(old)[:1]
                }
            else:
                continue
            try:
                setattr(config, key, new_value)
            except StrictDataclassFieldValidationError:  # None is not allowed
                setattr(config, key, [] if isinstance(value, list) else -1)
    if getattr(text_config, "unpadded_vocab_size", None):
        text_config.unpadded_vocab_size = vocabulary_size(tokenizer)
    padding_id = getattr(text_config, "pad_token_id", None)
    padding_id = None if padding_id is None or padding_id < 0 else padding_id
    if any(hasattr(module, "make_weights") for module in model.modules()):
        # XGLM computes its positions, with zeros at that of the padding token's id. The source's
        # id is before the first position; the target's need not be.
        padding_id = text_config.pad_token_id = None
    parents = [name.rpartition(".")[0] for name in token_tables(model)]
    tables: list[Any] = [*map(model.get_submodule, parents)]
    for module in (model.get_input_embeddings(), *tables):
        if getattr(module, "padding_idx", None) is not None:
            # The row at this index gets no gradient; the source's id may now be another token.
            module.padding_idx = padding_id
    follow_padding(model, padding_id)


def _target_sequences(sequence: Sequence[int], target_ids: _TargetIds) -> Iterator[tuple[int, ...]]:
    """A sequence of source ids as sequences of target ids: none if the target lacks a token."""
    return product(*(target_ids(token_id) for token_id in sequence))


def _role_ids(
    source_value: int | list[int], role_id: int | None, target_ids: _TargetIds, all_copies: bool
) -> int | list[int] | None:
    """Target ids for the source ids of a role, with the target's token of the role first.

    For each source id, one target token that copies it or, with `all_copies`, all of them. If there
    are none at all, the target's token of the role, `role_id`, unless the source names no token.
    """
    values = source_value if isinstance(source_value, list) else [source_value]
    source_ids = [token_id for token_id in values if token_id >= 0]
    ids: set[int] = set()
    for token_id in source_ids:
        copies = target_ids(token_id)
        if not all_copies:
            copies = [role_id] if role_id is not None and role_id in copies else copies[:1]
        ids.update(copies)
    if source_ids and not ids and role_id is not None:
        ids = {role_id}
    ordered = sorted(ids, key=lambda token_id: (token_id != role_id, token_id))
    if isinstance(source_value, list) or len(ordered) > 1:
        return ordered
    return next(iter(ordered), None)
