"""Configuration of a model whose vocabulary changes: special token ids and tied matrices."""

from typing import TYPE_CHECKING, Any

from lexigraft.source.positions import follow_padding

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_ROLES = ("bos", "eos", "pad", "sep", "cls", "mask", "unk", "decoder_start")


def untie(model: "PreTrainedModel") -> None:
    """Give a model's head a matrix of its own, in place, unless it has one already.

    A file may hold two matrices although its configuration ties them, and resizing follows the
    configuration, so the configuration is changed too.
    """
    import torch

    # transformers types its layers as plain modules, without the weights that they have.
    head: Any = model.get_output_embeddings()
    embeddings: Any = model.get_input_embeddings()
    if head.weight is embeddings.weight:
        own = head.weight.detach().clone()
        head.weight = torch.nn.Parameter(own, requires_grad=head.weight.requires_grad)
    model.config.tie_word_embeddings = False
    model.config.get_text_config().tie_word_embeddings = False


def update_special_token_ids(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", source_of: "np.ndarray"
) -> None:
    """Set the special token ids of a model's configs to the target's, in place.

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
            source = getattr(config, f"{role}_token_id", None)
            if source is not None:
                own = getattr(tokenizer, f"{role}_token_id", None)
                every = role == "eos" and config is generation
                setattr(config, f"{role}_token_id", _target_ids(source, own, source_of, every))
    embeddings: Any = model.get_input_embeddings()
    if getattr(embeddings, "padding_idx", None) is not None:
        # The row with this index gets no gradient; the source's id may now be another token.
        embeddings.padding_idx = text.pad_token_id
    follow_padding(model, text.pad_token_id)


def _target_ids(
    source: int | list[int], own: int | None, source_of: "np.ndarray", every: bool
) -> int | list[int] | None:
    """Target ids for the source ids in a config, with the target's own token of the role first.

    For each source id all targets that copy it (`every`), or else one; where none does, the
    target's own token of the role.
    """
    ids: list[int] = []
    for token_id in source if isinstance(source, list) else [source]:
        copies = (source_of == token_id).nonzero()[0].tolist()
        if not every:
            copies = [own] if own is not None and own in copies else copies[:1]
        ids += copies
    ids = sorted(set(ids), key=lambda token_id: (token_id != own, token_id))
    if not ids and own is not None:
        ids = [own]
    return ids if isinstance(source, list) or len(ids) > 1 else next(iter(ids), None)
