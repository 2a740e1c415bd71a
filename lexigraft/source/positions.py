"""Learned positions that count from the padding token, as RoBERTa and its relatives have them.

The first token of a text stands at the position behind the padding token's id, and a token with
that id at none. So both the number of tokens that fit and the meaning of every position hang on
one id of the vocabulary.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module
    from transformers import PreTrainedModel


def positions_of(model: "PreTrainedModel") -> int | None:
    """How many tokens of one text a model holds; None where its configuration sets no limit."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if not limit or limit < 1:
        return None
    return limit - first_position(model)


def first_position(model: "PreTrainedModel") -> int:
    """The position of a text's first token: 0, or what follows the padding token's id."""
    paddings = [positions.padding_idx for _, positions in _from_padding(model)]
    return (paddings[0] or 0) + 1 if paddings else 0


def follow_padding(model: "PreTrainedModel", padding: int | None) -> None:
    """Let positions count from another padding token, in place: every text keeps its positions.

    Rows move within the matrix of positions, which grows or shrinks by as many as the id does.

    Parameters
    ----------
    padding
        Id of the padding token of the vocabulary that took over; without one nothing moves.
    """
    from torch import arange, long, no_grad, zeros
    from torch.nn import Embedding

    if padding is None:
        return
    for module, old in list(_from_padding(model)):
        shift = padding - old.padding_idx
        if not shift:
            continue
        rows, hidden = len(old.weight) + shift, old.embedding_dim
        place: dict[str, Any] = {"device": old.weight.device, "dtype": old.weight.dtype}
        new = Embedding(rows, hidden, padding_idx=padding, **place)
        new.weight.requires_grad_(old.weight.requires_grad)
        with no_grad():
            new.weight.zero_()  # ids below the padding token's are positions of nothing
            new.weight[padding:] = old.weight[old.padding_idx :]
        module.position_embeddings = new
        module.padding_idx = padding  # type: ignore[assignment]  # modules type it as a tensor
        # By position too, and of no length of their own.
        for name, fill in (("position_ids", arange(rows)), ("token_type_ids", zeros(rows))):
            if name in dict(module.named_buffers(recurse=False)):
                values = fill.to(place["device"], long).expand((1, -1))
                module.register_buffer(name, values, persistent=False)
        model.config.max_position_embeddings = rows


def _from_padding(model: "PreTrainedModel") -> "Iterator[tuple[Module, Any]]":
    """The modules whose learned positions count from the padding token, and these positions."""
    from torch.nn import Embedding

    for module in model.modules():
        positions = getattr(module, "position_embeddings", None)
        if isinstance(positions, Embedding) and positions.padding_idx is not None:
            yield module, positions
