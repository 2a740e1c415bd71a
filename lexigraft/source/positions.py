"""Learned positions that are offset by the padding token's id, as in RoBERTa and its variants.

The first token of a text has the position after the padding token's id, so that both the maximum
length and the meaning of every position depend on the id of one token.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module
    from transformers import PretrainedConfig, PreTrainedModel


# Keys of a configuration: the second is MPT's, the third Whisper's, the last GPT-2's in its file.
POSITIONS = ("max_position_embeddings", "max_seq_len", "max_target_positions", "n_positions")


def context_length(config: "PretrainedConfig") -> int | None:
    """The number of positions of a model; None if its configuration sets no limit."""
    text = config.get_text_config()
    limit = next((getattr(text, name) for name in POSITIONS if getattr(text, name, None)), 0)
    return limit if limit > 0 else None


def positions_of(model: "PreTrainedModel") -> int | None:
    """The maximum number of tokens of a text; None if the configuration sets no limit."""
    limit = context_length(model.config)
    return None if limit is None else limit - first_position(model)


def answer_room(model: Any, max_new_tokens: int, beyond: bool) -> int:
    """The number of positions of a model's context that are kept free for an answer.

    With `beyond`, 0 for rotary position embeddings, which go on after the last position.
    """
    rotary = getattr(model.config.get_text_config(), "rope_parameters", None)
    return 0 if beyond and rotary else max_new_tokens


def first_position(model: "PreTrainedModel") -> int:
    """The position of a text's first token: 0, or the padding token's id plus one."""
    paddings = [positions.padding_idx for _, positions in _from_padding(model)]
    return (paddings[0] or 0) + 1 if paddings else 0


def follow_padding(model: "PreTrainedModel", padding: int | None) -> None:
    """Adjust the position embeddings, in place, to another padding token's id, if there is one.

    The position matrix grows or shrinks by the difference of the ids, so that every text keeps its
    position embeddings.
    """
    import torch  # settings of studies import this module, and torch takes seconds

    if padding is None:
        return
    for module, old in list(_from_padding(model)):
        shift = padding - old.padding_idx
        if not shift:
            continue
        rows, hidden = len(old.weight) + shift, old.embedding_dim
        options: dict[str, Any] = {"device": old.weight.device, "dtype": old.weight.dtype}
        new = torch.nn.Embedding(rows, hidden, padding_idx=padding, **options)
        new.weight.requires_grad_(old.weight.requires_grad)
        with torch.no_grad():
            new.weight.zero_()  # rows before the padding token's id are unused
            new.weight[padding:] = old.weight[old.padding_idx :]
        module.position_embeddings = new
        module.padding_idx = padding  # type: ignore[assignment]  # modules type it as a tensor
        # Buffers with one entry per position.
        for name, fill in (
            ("position_ids", torch.arange(rows)),
            ("token_type_ids", torch.zeros(rows)),
        ):
            if name in dict(module.named_buffers(recurse=False)):
                values = fill.to(options["device"], torch.long).expand((1, -1))
                module.register_buffer(name, values, persistent=False)
        model.config.max_position_embeddings = rows


def _from_padding(model: "PreTrainedModel") -> "Iterator[tuple[Module, Any]]":
    """Modules whose learned positions are offset by the padding token's id, and the embeddings."""
    for module in model.modules():
        positions = getattr(module, "position_embeddings", None)
        if getattr(positions, "padding_idx", None) is not None:
            yield module, positions
