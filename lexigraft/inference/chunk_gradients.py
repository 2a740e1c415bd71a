"""The gradients of a loss that is summed over chunks, computed together with the loss.

They are kept in the memory of one gradient: each chunk's is added to the sum in place, and freed
before the next chunk's is computed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch.autograd.function import once_differentiable

_adds_gradients: ContextVar[bool] = ContextVar("adds_gradients", default=False)


@contextmanager
def casts_each_weight_once() -> Iterator[None]:
    """Let autocast cache the weights that it casts: a head is cast once for all chunks."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(True)
    try:
        yield
    finally:
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(before)


class LossAndGradients(torch.autograd.Function):
    """Sums a loss over chunks of states together with its gradients."""

    @staticmethod
    @casts_each_weight_once()
    def forward(context, loss, in_chunks, weight, states, *parameters):
        """The sum, a scalar, of `loss(states[chunk], chunk)` over the chunks of `in_chunks`.

        `states` are [n, hidden]. With a `weight`, the gradients of `parameters`, times the weight,
        are added to their `.grad` here; without it, `backward` returns them.
        """
        needed = context.needs_input_grad[3:]
        wanted = [at for at, need in enumerate(needed) if need]
        # Each chunk has its own part of the states' gradient; those of parameters are summed.
        context.gradients = [torch.zeros_like(states) if needed[0] else None]
        context.gradients += [None] * len(parameters)
        context.weight = weight

        # A function, so that a chunk's gradients, which are as large as the head, are freed before
        # the next chunk's. Gradients are added in place, which allocates nothing.
        def compute(chunk):
            with torch.set_grad_enabled(bool(wanted)), _gradients_added(weight is not None):
                part = states[chunk].detach().requires_grad_(needed[0])
                one = loss(part, chunk)
            if wanted:
                tensors = [(part, *parameters)[at] for at in wanted]
                found = torch.autograd.grad(one, tensors, weight, allow_unused=True)
                for at, gradient in zip(wanted, found, strict=True):
                    if at == 0:
                        context.gradients[0][chunk] = gradient
                    elif weight is not None:
                        _add_gradient(parameters[at - 1], gradient)
                    elif context.gradients[at] is None:
                        context.gradients[at] = gradient
                    elif gradient is not None:
                        context.gradients[at] += gradient
            return one.detach()

        return sum(in_chunks(compute))

    @staticmethod
    @once_differentiable
    def backward(context, upstream):
        """Scale the gradients that `forward` computed by that of the sum, a scalar."""
        gradients, context.gradients = context.gradients, None  # frees their memory early
        rest = upstream if context.weight is None else upstream / context.weight
        scaled = (None if some is None else some.mul_(rest) for some in gradients)
        return None, None, None, *scaled


class _AddingLinear(torch.autograd.Function):
    """A linear layer that adds the gradient of its weight to `.grad` instead of returning it.

    This saves allocating and reading another large matrix for each chunk.
    """

    @staticmethod
    def forward(context, states, weight):
        context.save_for_backward(states, weight)
        return torch.nn.functional.linear(states, weight)

    @staticmethod
    @once_differentiable
    def backward(context, upstream):
        states, weight = context.saved_tensors
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        weight.grad.addmm_(upstream.flatten(0, -2).t(), states.flatten(0, -2))
        return upstream @ weight, None


@contextmanager
def _gradients_added(added: bool) -> Iterator[None]:
    """Set whether heads may add the gradients of their weights to `.grad` themselves."""
    token = _adds_gradients.set(added)
    try:
        yield
    finally:
        _adds_gradients.reset(token)


def adding_linear(head: Any) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """A head's function that adds its weight's gradient in place; None if this is not possible.

    A product in bfloat16 cannot be added to a float32 gradient without an intermediate tensor.
    """
    plain = type(head) is torch.nn.Linear and head.bias is None and head.weight.requires_grad
    if not (plain and _adds_gradients.get() and torch.is_grad_enabled()):
        return None
    weight = head.weight
    if weight.dtype != torch.float32 or torch.is_autocast_enabled(weight.device.type):
        return None
    return lambda states: _AddingLinear.apply(states, weight)


def _add_gradient(parameter: torch.Tensor, gradient: torch.Tensor | None) -> None:
    if parameter.grad is None:
        parameter.grad = gradient
    elif gradient is not None:
        parameter.grad += gradient
