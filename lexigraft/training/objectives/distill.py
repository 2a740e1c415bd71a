"""Token-level distillation: the model learns the distribution its teacher predicts.

UnifyVocab, §4.1, uses the teacher's logits as soft labels. The paper gives neither a temperature
nor a weight, and its published code has no distillation; the loss is that of Hinton et al. (2015).
"""

from typing import TYPE_CHECKING

from pydantic import Field

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import IGNORED
from lexigraft.settings import Settings
from lexigraft.training.objective import Objective
from lexigraft.training.settings import Phase

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


class DistillSettings(Settings):
    """The teacher, a source model, and its weight in the loss."""

    teacher: str = Field(description="a name of sources.yaml. It must have the cell's vocabulary")
    temperature: float = Field(
        1.0, gt=0, description="temperature of the distributions of both models"
    )
    weight: float = Field(
        0.5,
        gt=0,
        le=1,
        description="weight of the teacher in the loss: (1 - weight) x nats + weight x "
        "temperature² x KL(teacher || model)",
    )


class DistillPhase(Phase):
    """A phase with a teacher that has the cell's vocabulary."""

    distill: DistillSettings = Field(description="the teacher, and its weight in the loss")


class LogitDistillation(Objective):
    """`(1 - weight) x nats + weight x temperature² x KL(teacher || model)`.

    Both parts count the positions whose next token is learned. In the training log, they are
    without their weights, so that `next_loss` is comparable with that of other objectives. Token
    ids below `shared` are in both vocabularies; only these take part in the divergence, neither
    padding rows nor additional tokens of the teacher.
    """

    predicts = "the next token, and the predictions of a teacher"
    phase = DistillPhase
    needs_teacher = True
    loss_names = ("next_loss", "kl_loss")

    def __init__(self, teacher: "PreTrainedModel", settings: DistillSettings, shared: int):
        self.teacher, self.settings, self.shared = teacher, settings, shared

    @classmethod
    def teacher_name(cls, phase, source):
        """The teacher that the phase names."""
        return phase.distill.teacher

    @classmethod
    def for_phase(cls, context):
        """Create the objective with the teacher of the training job."""
        shared = max(context.tokenizer.get_vocab().values()) + 1
        return cls(context.teacher.model(), context.phase.distill, shared)

    @classmethod
    def check_inputs(cls, inputs, tokenizer, strategy):
        """Raise a UserError if the source model in the folder `teacher` cannot be the teacher.

        That is also if it has another id for a token of the tokenizer; additional rows of the
        teacher, such as padding or its own special tokens, are not used.
        """
        from lexigraft.training.teacher import Teacher

        teacher = Teacher(inputs["teacher"])
        phases = [phase for phase in strategy.phases if isinstance(phase, DistillPhase)]
        teacher.check("distill.teacher", max(phase.length for phase in phases))
        teacher_ids = teacher.tokenizer().get_vocab()
        for token, token_id in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
            if teacher_ids.get(token) != token_id:
                fault = f"assigns id {teacher_ids[token]} to" if token in teacher_ids else "lacks"
                raise UserError(
                    f"distill.teacher: {teacher.name} {fault} the cell's token {token!r} with id "
                    f"{token_id}; specify a teacher that has the cell's vocabulary, or let the "
                    "cell take the teacher's (vocabularies.yaml, `tokenizer`)"
                )

    def targets(self, batch):
        """The next tokens, once for each part."""
        return 2 * super().targets(batch)

    def losses(self, model, inputs, weights=None):
        """Nats of the next tokens, and temperature² times the divergence, [2].

        Only their `total` has the gradient of the loss; that of a single part is not correct.
        """
        import torch

        from lexigraft.inference.chunked_logits import chunked_logits

        targets = self.targets(inputs)[0].flatten()
        inputs.pop("labels")
        arguments = {**inputs, "use_cache": False}
        with torch.no_grad():
            teacher_logits = chunked_logits(self.teacher, arguments)
        model_logits = chunked_logits(model, arguments)
        positions = targets.ne(IGNORED).nonzero()[:, 0]
        labels, teacher_states = targets[positions], teacher_logits.states.flatten(0, 1)[positions]
        temperature, weight = self.settings.temperature, self.settings.weight
        parts: dict[int, torch.Tensor] = {}  # start of a chunk -> both parts, [2]

        def loss(states: torch.Tensor, chunk: slice) -> torch.Tensor:
            logits = model_logits.logits(states).float()
            nats = torch.nn.functional.cross_entropy(logits, labels[chunk], reduction="sum")
            with torch.no_grad():
                soft = teacher_logits.logits(teacher_states[chunk]).float()[:, : self.shared]
            kl = divergence(logits[:, : self.shared], soft, temperature).sum()
            parts[chunk.start] = torch.stack([nats, kl]).detach()
            return (1 - weight) * nats + weight * kl

        # Only the weighted sum has a gradient: one backward pass, not two.
        weighted_sum = model_logits.sum(
            positions, loss, None if weights is None else weights[1] / weight
        )
        nats, kl = torch.stack(list(parts.values())).sum(0)
        return torch.stack([nats, kl + (weighted_sum - weighted_sum.detach()) / weight])

    def total(self, losses):
        """The weighted sum of both."""
        weight = self.settings.weight
        return (1 - weight) * losses[0] + weight * losses[1]


def divergence(logits: "torch.Tensor", soft: "torch.Tensor", temperature: float) -> "torch.Tensor":
    """`temperature² x KL(teacher || model)` in nats of each position, [n].

    `logits` are the model's and `soft` the teacher's, both [n, tokens] and divided by the
    temperature. Its square keeps the gradients as large as those of the other part of the loss
    (Hinton et al. 2015, §2).
    """
    import torch

    model, teacher = ((scores / temperature).log_softmax(-1) for scores in (logits, soft))
    kl = torch.nn.functional.kl_div(model, teacher, reduction="none", log_target=True).sum(-1)
    return temperature**2 * kl
