"""Training in several processes, one GPU each: started by `torchrun`, replicated or sharded.

A single process has rank 0. Sharding (FSDP) uses torch's `fully_shard`, as accelerate's FSDP does.
It is called directly because accelerate supports GPUs only, and code that does not run on CPUs
would not be tested at all.
"""

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel

from lexigraft.hardware import autocast, device, precision
from lexigraft.training.objective import Objective
from lexigraft.training.trainable import decoder_layers

SHARDED = "LEXIGRAFT_SHARDED"  # 1: the model is sharded over the processes, not replicated
# How long a process waits for another: only rank 0 stores the cell and waits for file systems.
# torchrun notices at once when a process has died.
TIMEOUT = timedelta(hours=6)

T = TypeVar("T")


def init_processes() -> None:
    """Join the other processes, if there are any."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        from accelerate import PartialState

        PartialState(cpu=device().type == "cpu", timeout=TIMEOUT)


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def is_sharded() -> bool:
    """Whether the model is to be sharded over the processes."""
    return world_size() > 1 and os.environ.get(SHARDED) == "1"


def on_rank_zero(function: Callable[..., T], *arguments) -> T:
    """Call a function on rank 0, while all processes wait, and return its result on all."""
    if world_size() == 1:
        return function(*arguments)
    result = [function(*arguments) if rank() == 0 else None]
    dist.broadcast_object_list(result, src=0)
    return result[0]  # type: ignore[return-value]  # rank 0 has put it there


def barrier() -> None:
    """Wait until all processes have reached this point."""
    if world_size() > 1:
        dist.barrier()


def all_reduce_sum(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all processes' tensors."""
    if world_size() > 1:
        tensor = tensor.clone()
        dist.all_reduce(tensor)
    return tensor


class Computation(torch.nn.Module):
    """Calls a function of the model under autocast.

    DDP and FSDP act when the module that they wrap is called, but an objective does more than call
    the model, such as applying a head to some hidden states: all of this runs inside one call.
    """

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model
        # Read by the Trainer: whether the model is already sharded over the processes.
        self.is_distributed_loading_by_transformers = False

    def forward(self, compute: Callable[..., T], *arguments) -> T:
        """`compute(model, *arguments)`."""
        with autocast():
            return compute(self.model, *arguments)


@contextmanager
def group_of_one() -> Iterator[None]:
    """A group of only this process, which `shard` needs; it sends nothing."""
    if dist.is_initialized():
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if device().type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def shard(
    computation: Computation, objective: Objective, device: torch.device, *, offload: bool = False
) -> tuple[Computation, Objective]:
    """Copy model and objective consistently, with the model sharded over the processes.

    Each decoder layer is gathered when it is computed, in the precision of its linear layers;
    gradients are summed in float32. Parameters outside the layers are gathered for a whole pass,
    since objectives use them in different ways. A teacher of the objective is not copied.

    With `offload`, for a single process, trained parameters, their gradients and the optimizer's
    moments stay in CPU memory; frozen parameters are on the device. Numbers are the same, except
    for the order in which gradients of several passes are added.
    """
    inside = {id(module) for module in computation.modules()}
    shared: dict[int, Any] = {
        id(module): module for module in modules_of(objective) if id(module) not in inside
    }
    for parameter in computation.parameters():
        # FSDP copies what it shards, so the copy's parameters need no memory of their own.
        is_resident = offload and not parameter.requires_grad
        values = parameter.data.to(device) if is_resident else parameter.data
        shared[id(parameter)] = torch.nn.Parameter(values, parameter.requires_grad)
    sharded, objective = copy.deepcopy((computation, objective), shared)
    sharded.is_distributed_loading_by_transformers = True
    mesh = init_device_mesh(device.type, (world_size(),))
    lowered = MixedPrecisionPolicy(precision(), torch.float32, cast_forward_inputs=False)
    policy, frozen = OffloadPolicy(), set[torch.nn.Parameter]()
    layers: list[Any] = list(decoder_layers(sharded.model))
    if offload:
        policy = CPUOffloadPolicy(pin_memory=device.type == "cuda")
        frozen = {item for item in sharded.parameters() if not item.requires_grad}
        layers = [item for item in layers if any(p.requires_grad for p in item.parameters())]
    # DoRA computes the norms of weights, which must not be rounded for this.
    dora = any("lora_magnitude_vector" in name for name, _ in sharded.named_parameters())
    for module in [*layers, sharded]:
        # Autocast rounds neither norms nor embeddings, which are outside of the layers.
        in_float32 = offload or dora or module is sharded
        fully_shard(
            module,
            mesh=mesh,
            mp_policy=MixedPrecisionPolicy() if in_float32 else lowered,
            offload_policy=policy,
            ignored_params=frozen or None,
        )
        if device.type == "cpu":
            module.set_force_sum_reduction_for_comms(True)  # gloo cannot compute means
    return sharded, objective


def discard_gradients(model: torch.nn.Module) -> None:
    """Discard the gradients of an interrupted step, including those of gathered parameters."""
    model.zero_grad()
    if isinstance(model, FSDPModule):
        model.reset_iter_state()
        model.zero_grad()


def full_tensor(value: Any) -> Any:
    """Gather a tensor on the CPU, in the same order in all processes; leave anything else."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if isinstance(value, DTensor):
        value = value.full_tensor() if value.device_mesh.size() > 1 else value.to_local()
    return value.cpu()


def full_tensors(values: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    """Call `full_tensor` for every value; return nothing unless `keep`, to save memory."""
    tensors = {}
    for name, value in values.items():
        value = full_tensor(value)  # other processes need this one to take part
        if keep:
            tensors[name] = value
    return tensors


def shard_like(value: Any, parameter: torch.Tensor) -> Any:
    """This process's shard of a full tensor of a parameter's shape; anything else unchanged."""
    # The count of steps, for example, is a tensor of another shape.
    if not isinstance(parameter, DTensor) or getattr(value, "shape", None) != parameter.shape:
        return value
    mesh = parameter.device_mesh
    if mesh.size() > 1:
        value = distribute_tensor(value.to(parameter.device), mesh, parameter.placements).to_local()
    # Copied, since offloaded tensors are not on the device of the mesh, as `from_local` needs.
    sharded: Any = torch.zeros_like(parameter)
    sharded.to_local().copy_(value)
    return sharded


def modules_of(objective: Objective) -> Iterator[torch.nn.Module]:
    """The modules of an objective, such as a teacher, and of an objective that it extends."""
    for value in vars(objective).values():
        if isinstance(value, torch.nn.Module):
            yield value
        elif isinstance(value, Objective):  # which this one extends
            yield from modules_of(value)
