"""The gradients of a loss that is summed over chunks, computed together with the loss.

They are kept in the memory of one gradient: each chunk's is added to the sum in place, and freed
before the next chunk's is computed. On a CPU, large tensors that are allocated anew cost more time
than what is computed with them; on a GPU, a second gradient of a head may not fit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch.autograd.function import once_differentiable

# Elements of a gradient that are computed in low precision at once, and then added, by device.
BLOCK = {"cpu": 2**22, "cuda": 2**26}
# Weight -> its copy in the precision of autocast, while heads add the gradients of their weights to
# `.grad` themselves; None otherwise.
_casts: ContextVar[dict[torch.Tensor, torch.Tensor] | None] = ContextVar("casts", default=None)


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
            with torch.set_grad_enabled(bool(wanted)):
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

        with nullcontext() if weight is None else _heads_add_gradients():
            return sum(in_chunks(compute))

    @staticmethod
    @once_differentiable
    def backward(context, upstream):
        """Scale the gradients that `forward` computed by that of the sum, a scalar."""
        gradients, context.gradients = context.gradients, None  # frees their memory early
        rest = upstream if context.weight is None else upstream / context.weight
        scaled = (None if some is None else some.mul_(rest) for some in gradients)
        return None, None, None, *scaled


class SummedNLL(torch.autograd.Function):
    """The sum of the negative log-likelihoods of targets in nats, a float32 scalar.

    It is computed in float32 from logits [n, vocabulary] of any precision and targets [n], like
    `cross_entropy`, but with a single tensor of the size of the logits. Negative targets do not
    count. It allows one backward pass.
    """

    @staticmethod
    def forward(context, logits, targets):
        """The sum."""
        counted, targets = targets >= 0, targets.clamp(min=0)[:, None]
        # Exponentials, and later the gradient, are computed in place.
        scores = logits - logits.amax(dim=-1, keepdim=True).float()
        wanted = scores.gather(1, targets)
        sums = scores.exp_().sum(dim=-1, keepdim=True)
        context.found = scores, sums, targets, counted[:, None], logits.dtype
        return (sums.log() - wanted)[:, 0].mul(counted).sum()

    @staticmethod
    @once_differentiable
    def backward(context, upstream):
        """The gradient of the logits, in their precision."""
        (scores, sums, targets, counted, dtype), context.found = context.found, None
        weights = upstream * counted
        scores *= weights / sums
        scores.scatter_add_(1, targets, -weights)
        return scores.to(dtype), None


class _AddingLinear(torch.autograd.Function):
    """A linear layer that adds the gradient of its weight to `.grad` instead of returning it.

    This saves allocating and reading another large matrix for each chunk. `used` is the weight in
    the precision that is computed in.
    """

    @staticmethod
    def forward(context, states, weight, used):
        context.dtype, states = states.dtype, states.to(used.dtype)
        context.save_for_backward(states, weight, used)
        return torch.nn.functional.linear(states, used)

    @staticmethod
    @once_differentiable
    def backward(context, upstream):
        states, weight, used = context.saved_tensors
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        found = (upstream @ used).to(context.dtype)  # adds nothing to `.grad` if it does not fit
        before, after = upstream.flatten(0, -2).t(), states.flatten(0, -2)
        if used.dtype == weight.dtype:
            weight.grad.addmm_(before, after)
        else:
            rows = max(1, BLOCK[weight.device.type] // weight.shape[1])
            for part, gradient in zip(before.split(rows), weight.grad.split(rows), strict=True):
                gradient += part @ after
        return found, None, None


@contextmanager
def _heads_add_gradients() -> Iterator[None]:
    """Let heads add the gradients of their weights to `.grad` themselves."""
    token = _casts.set({})
    try:
        yield
    finally:
        _casts.reset(token)


def adding_linear(head: Any) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """A head's function that adds its weight's gradient in place; None if this is not possible."""
    plain = type(head) is torch.nn.Linear and head.bias is None and head.weight.requires_grad
    casts = _casts.get()
    if not plain or casts is None or not torch.is_grad_enabled():
        return None
    weight = head.weight
    if weight.dtype != torch.float32:
        return None
    used, kind = weight.detach(), weight.device.type
    if torch.is_autocast_enabled(kind):
        if weight not in casts:
            casts[weight] = used.to(torch.get_autocast_dtype(kind))
        used = casts[weight]
    return lambda states: _AddingLinear.apply(states, weight, used)


def _add_gradient(parameter: torch.Tensor, gradient: torch.Tensor | None) -> None:
    if parameter.grad is None:
        parameter.grad = gradient
    elif gradient is not None:
        parameter.grad += gradient
