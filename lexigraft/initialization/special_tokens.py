"""The special tokens that a model's configs name, when another vocabulary takes over."""

from typing import TYPE_CHECKING, Any

from lexigraft.source.positions import follow_padding

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_ROLES = ("bos", "eos", "pad", "sep", "cls", "mask", "unk", "decoder_start")


def follow_special_tokens(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", source_of: "np.ndarray"
) -> None:
    """Let a model's configs name the target's special tokens where they name the source's.

    Generation ends at every target token that copies one at which it ended before: with equal rows
    either is as likely. Positions that count from the padding token count from the target's.

    Parameters
    ----------
    tokenizer
        The target tokenizer.
    source_of
        [n_target]: the source row that each target row copies, -1 for new tokens.
    """
    text, generation = model.config.get_text_config(), getattr(model, "generation_config", None)
    configs = {id(config): config for config in (model.config, text, generation) if config}
    for config in configs.values():
        for role in _ROLES:
            named = getattr(config, f"{role}_token_id", None)
            if named is not None:
                own = getattr(tokenizer, f"{role}_token_id", None)
                every = role == "eos" and config is generation
                setattr(config, f"{role}_token_id", _moved(named, own, source_of, every))
    embeddings: Any = model.get_input_embeddings()
    if getattr(embeddings, "padding_idx", None) is not None:
        # The row of this number is kept from learning; it may be another token's by now.
        embeddings.padding_idx = text.pad_token_id
    follow_padding(model, text.pad_token_id)


def _moved(
    named: int | list[int], own: int | None, source_of: "np.ndarray", every: bool
) -> int | list[int] | None:
    """Target ids for the source ids that a config names: the role's own token first.

    For each source id all targets that copy it, or else one; where none does, the role's own token.
    """
    moved: list[int] = []
    for token_id in named if isinstance(named, list) else [named]:
        copies = (source_of == token_id).nonzero()[0].tolist()
        if not every:
            copies = [own] if own is not None and own in copies else copies[:1]
        moved += copies
    moved = sorted(set(moved), key=lambda token_id: (token_id != own, token_id))
    if not moved and own is not None:
        moved = [own]
    return moved if isinstance(named, list) or len(moved) > 1 else next(iter(moved), None)
