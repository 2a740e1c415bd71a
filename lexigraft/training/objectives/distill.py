"""Token-level distillation: a model learns what its teacher expects at every position.

Paper 003, §4.1, takes the teacher's logits as soft labels. It gives neither a temperature nor a
weight, and published code has no distillation; the loss is that of Hinton et al. (2015).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lexigraft.inference.chunked_logits import IGNORED, ChunkedLogits, chunked_logits, targets_ahead
from lexigraft.training.context import check_apart
from lexigraft.training.objectives.interface import Objective
from lexigraft.training.settings import DistillSettings, Phase
from lexigraft.training.teacher import load_teacher

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class Distill(Objective):
    """Next tokens as they are, and as the teacher expects them, weighed.

    `(1 - weight) x nats + weight x temperature² x KL(teacher || model)`. Both count the same
    positions: those whose next token is learned, so all of a text and of a sample the answer. In
    the log, the parts are without their weights: `next_loss` compares with that of other
    objectives.

    Parameters
    ----------
    teacher
        In evaluation mode, frozen, on the model's device.
    settings
        Temperature and weight.
    shared
        Token ids below this one are those that the two share. No others take part in the
        divergence: neither padding rows nor what the teacher has beyond them.
    """

    parts = ("next_loss", "kl_loss")

    def __init__(self, teacher: "PreTrainedModel", settings: DistillSettings, shared: int):
        self.teacher, self.settings, self.shared = teacher, settings, shared

    def count(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """How many next tokens count, once for each part, [2]."""
        return _targets(batch).ne(IGNORED).sum().expand(2)

    def losses(self, model: "PreTrainedModel", inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Nats of the next tokens, and temperature² times the divergence, [2].

        The gradient of each is not its own; that of their `total` is.
        """
        targets = _targets(inputs).flatten()
        inputs.pop("labels")
        known = {**inputs, "use_cache": False}
        with torch.no_grad():
            taught = chunked_logits(self.teacher, known)
        return self._sums(chunked_logits(model, known), taught, targets)

    def total(self, losses: torch.Tensor) -> torch.Tensor:
        """Both, weighed."""
        weight = self.settings.weight
        return (1 - weight) * losses[0] + weight * losses[1]

    def _sums(
        self, learned: ChunkedLogits, taught: ChunkedLogits, targets: torch.Tensor
    ) -> torch.Tensor:
        places = targets.ne(IGNORED).nonzero()[:, 0]
        wanted, states = targets[places], taught.states.flatten(0, 1)[places]
        temperature, weight = self.settings.temperature, self.settings.weight

        seen: list[torch.Tensor] = []  # both parts of each chunk, [2]

        def loss(own: torch.Tensor, chunk: slice) -> torch.Tensor:
            logits = learned.logits(own).float()
            nats = torch.nn.functional.cross_entropy(logits, wanted[chunk], reduction="sum")
            with torch.no_grad():
                soft = taught.logits(states[chunk]).float()[:, : self.shared]
            kl = divergence(logits[:, : self.shared], soft, temperature).sum()
            seen.append(torch.stack([nats, kl]).detach())
            return (1 - weight) * nats + weight * kl

        # Of the weighed sum alone a gradient is computed: one pass back, not two.
        both = learned.sum(places, loss)
        nats, kl = torch.stack(seen).sum(0)
        return torch.stack([nats, kl + (both - both.detach()) / weight])


def divergence(logits: torch.Tensor, soft: torch.Tensor, temperature: float) -> torch.Tensor:
    """`temperature² x KL(teacher || model)` in nats of each position, [n].

    The square keeps the gradients as large as those of the other part of the loss, whatever the
    temperature (Hinton et al. 2015, §2).

    Parameters
    ----------
    logits, soft
        The model's and the teacher's, [n, tokens]; both are divided by the temperature.
    """
    ours, theirs = (
        (some / temperature).log_softmax(-1) for some in (logits, soft)
    )  # both [n, tokens]
    kl = torch.nn.functional.kl_div(ours, theirs, reduction="none", log_target=True).sum(-1)
    return temperature**2 * kl


def distill_from(
    folder: str | Path, phase: Phase, tokenizer: "PreTrainedTokenizerFast", *, apart: bool = False
) -> Distill:
    """The objective of a phase whose teacher lies in a folder under `results/source/`.

    Raises
    ------
    UserError
        The documents of a sequence are to be kept `apart`, which the teacher does not do.
    """
    assert phase.distill is not None
    teacher = load_teacher(folder)
    if apart:
        check_apart(teacher)
    return Distill(teacher, phase.distill, max(tokenizer.get_vocab().values()) + 1)


def _targets(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return targets_ahead(batch["labels"], 1, batch.get("position_ids"))
