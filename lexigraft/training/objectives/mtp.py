"""Multi-token prediction: during training, an extra head predicts the token after next.

Yamaguchi et al., §5, after Gloeckle et al. (2024).
"""

from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from lexigraft.errors import UserError
from lexigraft.randomness import seed_from
from lexigraft.settings import KeyedError
from lexigraft.training.objective import Objective
from lexigraft.training.settings import Phase, left_out

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from lexigraft.inference.chunked_logits import ChunkedLogits

AHEAD = (1, 2)  # how far ahead the model's own head and the extra one predict
EXTRA_HEAD = "extra_head"  # its name in the model during a phase


class MultiTokenPhase(Phase):
    """A phase that predicts two tokens."""

    extra_head: Literal["copied", "random"] = left_out(
        "copied", "how the extra head is initialized. Later phases continue with it"
    )
    extra_logits: Literal["as-head", "raw"] = left_out(
        "as-head",
        "`as-head` treats the extra logits like the model's own, which Gemma 2 caps",
    )

    @model_validator(mode="after")
    def _check_head(self) -> "MultiTokenPhase":
        for part, subject in {"new-rows": "new rows have", "adapter": "an adapter has"}.items():
            if part in self.trainable:
                reason = f"{subject} no head of their own to copy; remove 'mtp'"
                raise KeyedError("objective", reason)
        return self


class MultiTokenPrediction(Objective):
    """The sum of two mean losses: of next tokens, and of tokens after next.

    `extra_head` predicts the latter and is trained in place if `trained`. With `as_head`, the model
    treats its logits like its own; the code of Yamaguchi et al. uses them unchanged.
    """

    predicts = "the next token and, with an extra head, the token after it"
    phase = MultiTokenPhase
    loss_names = ("next_loss", "after_next_loss")

    def __init__(self, extra_head: "torch.nn.Linear", *, as_head: bool, trained: bool):
        self.extra_head = extra_head.requires_grad_(trained)
        self.as_head = as_head

    @classmethod
    def for_phase(cls, context):
        """The first phase with an extra head creates it and stores it in `progress` for later ones.

        Raises a UserError if the model's head is not a linear layer.
        """
        from lexigraft.training.trainable import trains_head

        phase, progress = context.phase, context.progress
        if progress.extra_head is None:
            seed = seed_from(*context.seed, "extra-head")
            progress.extra_head = new_extra_head(context.model, phase.extra_head, seed)
        as_head = phase.extra_logits == "as-head"
        return cls(progress.extra_head, as_head=as_head, trained=trains_head(phase))

    def modules(self):
        """The extra head."""
        return {EXTRA_HEAD: self.extra_head}

    def targets(self, batch):
        """For each head, the token that each position predicts."""
        from lexigraft.inference.chunked_logits import targets_ahead

        return [targets_ahead(batch["labels"], ahead, batch.get("position_ids")) for ahead in AHEAD]

    def losses(self, model, inputs, weights=None):
        """Nats of next tokens and of tokens after next, [2].

        Raises a UserError if the model's logits are not those of its head, position by position.
        """
        import torch

        from lexigraft.inference.chunked_logits import chunked_logits, sum_nll

        next_targets, later_targets = self.targets(inputs)
        inputs.pop("labels")
        logits = chunked_logits(model, {**inputs, "use_cache": False})
        if not logits.from_head:
            raise UserError(
                f"objective: mtp does not support {type(model).__name__}, whose logits are not the "
                "outputs of its head at each position; use clm"
            )
        next_weight, later_weight = (None, None) if weights is None else weights
        extra_logits = partial(self.extra_logits, logits)
        extra = sum_nll(logits, later_targets, extra_logits, weight=later_weight)
        return torch.cat([sum_nll(logits, next_targets, weight=next_weight), extra])

    def extra_logits(self, logits: "ChunkedLogits", states: "torch.Tensor") -> "torch.Tensor":
        """The extra head's logits [n, vocabulary] of states [n, hidden]."""
        return logits.logits(states, self.extra_head) if self.as_head else self.extra_head(states)


def new_extra_head(model: "PreTrainedModel", start: str, seed: int) -> "torch.nn.Linear":
    """A second, untied output head like the model's own.

    With `start` `copied`, it is a copy (Yamaguchi et al., §5); with `random`, it is normal with the
    standard deviation of the model's own initialization (Table 10). Raises a UserError if the
    model's head is not a linear layer.
    """
    import torch

    head = model.get_output_embeddings()
    if not isinstance(head, torch.nn.Linear):
        raise UserError(
            f"objective: mtp needs a linear output head, but {type(model).__name__} has none; use "
            "clm"
        )
    tensors = {name: tensor.detach().clone() for name, tensor in head.named_parameters()}
    if start == "random":
        # Drawn on the CPU, so that every device gets the same numbers.
        draw = torch.randn(head.weight.shape, generator=torch.Generator().manual_seed(seed))
        # Not every configuration names the deviation; 0.02 is the default of those that do.
        config = model.config.get_text_config()
        tensors["weight"].copy_(draw * getattr(config, "initializer_range", 0.02))
        if "bias" in tensors:
            tensors["bias"].zero_()
    return extra_head_of(tensors)


def extra_head_of(tensors: "dict[str, torch.Tensor]") -> "torch.nn.Linear":
    """Create an extra head from `weight` [rows, hidden] and, if given, `bias` [rows]."""
    import torch

    rows, hidden = tensors["weight"].shape
    head = torch.nn.Linear(hidden, rows, bias="bias" in tensors, device="meta")
    head.load_state_dict(tensors, assign=True)
    return head
