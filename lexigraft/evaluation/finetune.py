"""Fine-tunes an encoder for a task, with the head that transformers has for it."""

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.atomic import PARTIAL
from lexigraft.errors import UserError
from lexigraft.hardware import device, precision
from lexigraft.randomness import seed_from
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, TrainingArguments

Feature = dict[str, Any]


@dataclass(frozen=True)
class FineTuning:
    """How a task is learned; the values of XTREME (Hu et al. 2020), for the paper names none.

    Attributes
    ----------
    epochs
        Passes over the training examples.
    batch_size
        Examples of an optimizer step.
    learning_rate, weight_decay, warmup
        Of AdamW: the highest rate, which falls linearly to zero after this share of the steps.
    length
        Tokens of an example at most, or as many as the model holds.
    train_examples, test_examples
        A random sample of each, of a test that of each language; none: all of them.
    """

    epochs: float = 3
    batch_size: int = 32
    learning_rate: float = 2e-5
    weight_decay: float = 0.0
    warmup: float = 0.1
    length: int = 128
    train_examples: int | None = None
    test_examples: int | None = None


@contextmanager
def fine_tuned_model(
    model: "PreTrainedModel",
    head: Any,
    features: list[Feature],
    collator: Any,
    settings: FineTuning,
    job: dict[str, Any],
    **config: Any,
) -> Iterator[Callable[[list[Feature]], Any]]:
    """A function from features to logits, of a model that has learned the task with all weights.

    A new head starts at random. Its start and the order of the examples are drawn from the run's
    seed, which names no cell: what differs between the cells of a run is their encoder alone.
    Weights are float32, and so is arithmetic unless bfloat16 is faster.

    Parameters
    ----------
    model
        The cell's masked language model; its body is copied.
    head
        One of transformers' auto classes, such as AutoModelForSequenceClassification.
    features
        Encoded training examples, with labels.
    collator
        Makes a batch of features.
    config
        Of the head, such as `num_labels`.

    Raises
    ------
    UserError
        The loss is no finite number.
    """
    import torch
    from transformers import PrinterCallback, Trainer, set_seed

    seed = seed_from(*job["seed"], "fine-tuning")
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=job["outputs"]["folder"]) as folder:
        model.save_pretrained(folder)
        set_seed(seed)
        tuned = head.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, local_files_only=True,
            trust_remote_code=False, **config,
        )  # fmt: skip
        trainer = Trainer(
            model=tuned,
            args=_arguments(settings, len(features), seed, folder),
            data_collator=collator,
            train_dataset=features,  # type: ignore[arg-type]  # all that it asks for is an index
        )
        trainer.remove_callback(PrinterCallback)
        loss = trainer.train().training_loss
        if not math.isfinite(loss):
            raise UserError(
                f"{job['inputs']['cell']}: the loss of fine-tuning for task '{job['task']}' is "
                f"{loss}; lower its learning_rate in config/tasks.yaml"
            )

        def predict(features: list[Feature]) -> Any:
            """Logits as the head gives them, numpy arrays, padded to the longest feature."""
            return trainer.predict(features).predictions  # type: ignore[arg-type]  # as above

        yield predict


def max_length(model: "PreTrainedModel", settings: FineTuning) -> int:
    """Tokens that an example may have: those asked for, and no more than the model holds."""
    return min(settings.length, positions_of(model) or settings.length)


def has_token_types(model: "PreTrainedModel") -> bool:
    """Whether the model tells the texts of a pair apart by type, as BERT does and RoBERTa not."""
    return getattr(model.config, "type_vocab_size", 0) > 1


def _arguments(settings: FineTuning, examples: int, seed: int, folder: str) -> "TrainingArguments":
    import torch
    from transformers import TrainingArguments

    steps = math.ceil(settings.epochs * math.ceil(examples / settings.batch_size))
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil(settings.warmup * steps),
        max_grad_norm=1.0,
        bf16=precision() == torch.bfloat16,
        use_cpu=device().type == "cpu",
        logging_strategy="no",
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=not sys.stderr.isatty(),
        seed=seed,
        remove_unused_columns=False,
        dataloader_pin_memory=device().type == "cuda",
    )
    if device().type == "cuda":
        # Several visible GPUs would each get a batch (DataParallel); a task takes one.
        arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments
