"""The model as one module that computes whatever it is asked to."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import torch

from lexigraft.hardware import device, precision

if TYPE_CHECKING:
    from transformers import PreTrainedModel

T = TypeVar("T")


class Computation(torch.nn.Module):
    """Calls a function of the model, under autocast where the hardware is fast in bfloat16.

    What spreads a model over processes (DDP, FSDP) acts when the module that it wraps is called. An
    objective does not only call the model: it takes hidden states, applies a head to some of them,
    or a second head. As a function of the model it runs inside of one call all the same.

    Attributes
    ----------
    model
        The model, which keeps the names of its parameters.
    is_distributed_loading_by_transformers : bool
        The name is the Trainer's: the model is spread over the processes already.
    """

    def __init__(self, model: "PreTrainedModel"):
        super().__init__()
        self.model = model
        self.is_distributed_loading_by_transformers = False

    def forward(self, compute: Callable[..., T], *arguments) -> T:
        """`compute(model, *arguments)`."""
        with torch.autocast(
            device().type, dtype=torch.bfloat16, enabled=precision() == torch.bfloat16
        ):
            return compute(self.model, *arguments)
