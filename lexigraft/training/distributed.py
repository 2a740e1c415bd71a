"""Several processes train one cell, a GPU each: what all agree on, and what only one may do.

`torchrun` starts them and says which is which. A process that was started alone is the first one.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import torch.distributed as dist

from lexigraft.hardware import device

if TYPE_CHECKING:
    import torch

SHARDED = "LEXIGRAFT_SHARDED"  # 1: the model is spread over the processes, not copied to each
# Until another process is given up: the first one alone scores, stores and waits for file systems.
# One that died is noticed by torchrun at once.
PATIENCE = timedelta(hours=6)

T = TypeVar("T")


def start() -> None:
    """Join the other processes, if there are any."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        from accelerate import PartialState

        PartialState(cpu=device().type == "cpu", timeout=PATIENCE)


def processes() -> int:
    """How many there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def process() -> int:
    """Which one this is, from 0."""
    return dist.get_rank() if processes() > 1 else 0


def by_first(function: Callable[..., T], *arguments) -> T:
    """Let the first process call a function, and hand what it returns to all of them.

    No process goes on before the first one is done.
    """
    if processes() == 1:
        return function(*arguments)
    result = [function(*arguments) if process() == 0 else None]
    dist.broadcast_object_list(result, src=0)
    return result[0]  # type: ignore[return-value]  # the first process has put it there


def wait() -> None:
    """Go on when all processes have come here."""
    if processes() > 1:
        dist.barrier()


def summed(tensor: "torch.Tensor") -> "torch.Tensor":
    """The sum of all processes' tensors."""
    if processes() > 1:
        tensor = tensor.clone()
        dist.all_reduce(tensor)
    return tensor


def sharded() -> bool:
    """Whether the model is to be spread over the processes."""
    return processes() > 1 and os.environ.get(SHARDED) == "1"
