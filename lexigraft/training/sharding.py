"""FSDP: each process holds a part of every matrix, of its gradient and of its optimizer state.

This is torch's `fully_shard`, on which accelerate builds FSDP too. It is called here because
accelerate does so on GPUs only, and what does not run on CPUs would not be tested at all.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from lexigraft.training.computation import Computation
from lexigraft.training.distributed import processes
from lexigraft.training.objectives.interface import Objective
from lexigraft.training.trainable import decoder_layers


def sharded_copy(
    computation: Computation, objective: Objective, device: torch.device
) -> tuple[Computation, Objective]:
    """Copies of both that go with each other, the model spread over the processes.

    Each decoder layer is put together when its turn comes. What lies outside of them, embeddings
    and head above all, is whole during a pass, since objectives use these in ways of their own.
    Modules of the objective that are not the model's, such as a teacher, are not copied.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    inside = {id(module) for module in computation.modules()}
    beside = {id(module): module for module in _modules_of(objective) if id(module) not in inside}
    spread, objective = copy.deepcopy((computation, objective), beside)
    spread.is_distributed_loading_by_transformers = True
    mesh = init_device_mesh(device.type, (processes(),))
    for module in (*decoder_layers(spread.model), spread):
        fully_shard(module, mesh=mesh)
        if device.type == "cpu":
            module.set_force_sum_reduction_for_comms(True)  # gloo computes no mean
    return spread, objective


def _modules_of(objective: Objective) -> Iterator[torch.nn.Module]:
    for value in vars(objective).values():
        if isinstance(value, torch.nn.Module):
            yield value
        elif isinstance(value, Objective):  # around which this one is
            yield from _modules_of(value)


def take_over(computation: Computation, spread: Computation) -> None:
    """Copy the trained parameters of a spread copy back into the original."""
    with torch.no_grad():
        for mine, trained in zip(computation.parameters(), spread.parameters(), strict=True):
            if mine.requires_grad:
                mine.copy_(whole(trained))


def whole(value: Any) -> Any:
    """A tensor put together from all processes' parts, on the CPU; anything else as it is.

    All processes must ask for the same tensors in the same order.
    """
    from torch.distributed.tensor import DTensor

    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    return (value.full_tensor() if isinstance(value, DTensor) else value).cpu()


def gathered(values: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    """Every value `whole`; nothing unless `keep`, so that one process alone holds what it stores.

    All processes must call this with the same keys in the same order.
    """
    kept = {}
    for name, value in values.items():
        value = whole(value)  # takes part for the others too
        if keep:
            kept[name] = value
    return kept


def part(value: Any, like: torch.Tensor) -> Any:
    """This process's part of a whole tensor, cut as the parameter `like` is if it has its shape."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or not isinstance(value, torch.Tensor):
        return value
    if value.shape != like.shape:
        return value  # such as the count of steps
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
