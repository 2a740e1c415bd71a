"""The settings, cost and declaration of tasks that fine-tune encoders, see `transfer`."""

from collections.abc import Callable
from typing import Any

from pydantic import Field

from lexigraft.evaluation.costs import TESTS, TaskSizes, Work
from lexigraft.evaluation.task_kinds import TaskKind
from lexigraft.settings import Settings


class FineTuning(Settings):
    """How a task is fine-tuned; the defaults are the values of XTREME (Hu et al. 2020).

    AdamW's learning rate rises over the `warmup` share of the steps, then falls linearly to zero.
    `length` is the maximum number of tokens of an example, unless the model supports fewer.
    `train_examples` and `test_examples` (per language) are sizes of random samples; none: all.
    """

    epochs: float = Field(3, gt=0)
    batch_size: int = Field(32, ge=1)
    learning_rate: float = Field(2e-5, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    warmup: float = Field(0.1, ge=0, le=1)
    length: int = Field(128, ge=1)
    train_examples: int | None = Field(None, ge=1)
    test_examples: int | None = Field(None, ge=1)


def fine_tuned_task(
    settings: type[FineTuning], evaluate: Callable[..., Any], *, train_examples: int, **options: Any
) -> TaskKind:
    """A kind of task that fine-tunes; `train_examples` is the usual size of its training set."""

    def cost(settings: FineTuning, sizes: TaskSizes) -> Work:
        # Examples are about half as long as the longest.
        length = settings.length / 2
        examples = settings.train_examples or train_examples
        tests = sizes.languages * (settings.test_examples or TESTS)
        return Work(
            "fine-tuning",
            scored_tokens=sizes.runs * tests * length,
            trained_tokens=sizes.runs * settings.epochs * examples * length,
        )

    return TaskKind(
        settings,
        evaluate,
        tests="examples",
        cost=cost,
        fine_tunes=True,
        every_language=True,
        shows_outputs=True,
        **options,
    )
