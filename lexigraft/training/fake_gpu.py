"""A simulated GPU: its code runs on fake tensors, and the bytes of live tensors are counted.

Fake tensors are on the CPU, which temporarily has the settings of a GPU. Other processes are
simulated too.
"""

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lexigraft.hardware import PRECISION, only_cpu
from lexigraft.inference.chunk_gradients import BLOCK
from lexigraft.inference.chunked_logits import CHUNK_LOGITS


@contextmanager
def as_one_of(number: int) -> Iterator[None]:
    """Simulate being the first of `number` processes; the others do not exist."""
    # Importing registers a group that sends nothing, and collectives of fake tensors.
    import torch.testing._internal.distributed.fake_pg

    if number > 1:
        import torch.distributed._tools.fake_collectives  # noqa: F401

    dist.init_process_group("fake", rank=0, world_size=number, store=dist.HashStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def as_on_a_gpu(dtype: torch.dtype, logits: int | None = None) -> Iterator[None]:
    """Use the settings of a GPU for fake tensors, which are on the CPU."""
    before, given = (CHUNK_LOGITS["cpu"], BLOCK["cpu"]), os.environ.get(PRECISION)
    CHUNK_LOGITS["cpu"], BLOCK["cpu"] = logits or CHUNK_LOGITS["cuda"], BLOCK["cuda"]
    os.environ[PRECISION] = str(dtype).removeprefix("torch.")
    try:
        with only_cpu():
            yield
    finally:
        CHUNK_LOGITS["cpu"], BLOCK["cpu"] = before
        if given is None:
            del os.environ[PRECISION]
        else:
            os.environ[PRECISION] = given


def give_memory(model: torch.nn.Module) -> None:
    """Replace tensors on the meta device by fake tensors; tied ones stay tied."""
    given: dict[int, tuple[Any, Any]] = {}  # the old tensors stay alive, so that ids differ
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, old in tensors.items():
                if old is None:
                    continue
                if id(old) not in given:
                    new = torch.zeros(old.shape, dtype=old.dtype)
                    if isinstance(old, torch.nn.Parameter):
                        new = torch.nn.Parameter(new, requires_grad=old.requires_grad)
                    given[id(old)] = new, old
                tensors[name] = given[id(old)][0]


class AliveBytes(TorchDispatchMode):
    """Counts the bytes of live storages; `tensors` are live from the beginning.

    The parameters `elsewhere` do not count, nor do the gradients that FSDP gives them. FSDP's
    temporary copies of these are live before as many other bytes are, so they create no peak. Rows
    of sparse adapters have `entries` entries.
    """

    def __init__(
        self,
        tensors: Iterable[torch.Tensor],
        elsewhere: Iterable[torch.nn.Parameter],
        entries: int,
    ):
        super().__init__()
        self.now = self.peak = 0
        self.sizes: dict[int, int] = {}
        self.elsewhere: set[int] = set()
        self.entries = entries
        self.hooks = []
        for parameter in elsewhere:
            self._leave_out(parameter)
            hook = parameter.register_post_accumulate_grad_hook(lambda p: self._leave_out(p.grad))
            self.hooks.append(hook)
        self._count(tensors)

    def __enter__(self):
        # FSDP frees and refills gathered tensors by resizing, which is not an operation on tensors.
        self.resize = resize = torch.UntypedStorage.resize_

        def counted(storage, size):
            resize(storage, size)
            self._update(storage)

        torch.UntypedStorage.resize_ = counted
        return super().__enter__()

    def __exit__(self, *raised):
        torch.UntypedStorage.resize_ = self.resize
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*raised)

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        # Sizes that depend on values are as large as possible.
        if function is torch.ops.aten.nonzero.default:
            found = torch.arange(arguments[0].numel())[:, None]
        elif function is torch.ops.aten._unique2.default:
            every = torch.arange(arguments[0].numel())
            found = every, every.view_as(arguments[0]).clone(), every[:0]
        elif function is torch.ops.aten.repeat_interleave.Tensor:
            found = torch.arange(len(arguments[0]) * self.entries) // self.entries
        elif function is torch.ops.aten.index.Tensor:
            tensor, places = arguments
            places = [torch.arange(len(place)) if place is not None and place.dtype == torch.bool
                      else place for place in places]  # fmt: skip
            found = function(tensor, places)
        else:
            found = function(*arguments, **(named or {}))
        self._count(one for one in tree_leaves(found) if isinstance(one, torch.Tensor))
        return found

    def _count(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            self._update(_storage(tensor))

    def _leave_out(self, tensor: torch.Tensor) -> None:
        storage = _storage(tensor)
        self.elsewhere.add(storage._cdata)
        self._update(storage)

    def _update(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        size = 0 if key in self.elsewhere else storage.nbytes()
        if key not in self.sizes:
            weakref.finalize(storage, self._forget, key)
        self.now += size - self.sizes.get(key, 0)
        self.sizes[key] = size
        self.peak = max(self.peak, self.now)

    def _forget(self, key: int) -> None:
        self.now -= self.sizes.pop(key)
        self.elsewhere.discard(key)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.untyped_storage()
