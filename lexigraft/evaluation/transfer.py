"""Zero-shot transfer: an encoder is fine-tuned on English examples only (CW2V, section 4.6).

Each task defines its transformers head, the encoding of its examples, and their scoring. The
Snakefile reads the declarations: torch and transformers are imported in functions.
"""

import logging
import math
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from pydantic import Field

from lexigraft.artifacts.atomic import TEMPORARY_PREFIX, write_jsonl
from lexigraft.corpus.examples import Example, labels_of, read_examples
from lexigraft.errors import UserError
from lexigraft.evaluation.costs import TESTS, TaskSizes, Work
from lexigraft.evaluation.task_kinds import Measurement, TaskKind, metrics_by_language
from lexigraft.evaluation.texts import draw
from lexigraft.randomness import seed_from
from lexigraft.settings import Settings
from lexigraft.source.positions import positions_of
from lexigraft.training.schedule import Schedule

logger = logging.getLogger(__name__)

Row = dict[str, Any]
# From features to the logits of the head: numpy arrays, padded to the longest feature.
Predict = Callable[[list[Row]], Any]
# From test examples to the metrics, and a row of predictions for each example.
Score = Callable[[list[Example], Predict], tuple[dict[str, float], list[Row]]]
VALIDATION = "validation"  # the part of the examples that selects the epoch


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
        **options,
    )


class Transfer:
    """Fine-tuning of a copy of a model for one task, and the task's examples.

    Examples are those of a job, or samples of them, the same for every cell of a run; `tests` are
    by language. `labels` are the names of the labels by number; questions have none. `token_types`
    is whether the model distinguishes the texts of a pair by token types, like BERT.
    """

    def __init__(self, model: Any, job: dict[str, Any], settings: FineTuning):
        self.model, self.job, self.settings = model, job, settings
        folders = job["inputs"]["examples"]
        train = read_examples(folders["train"])
        self.train = draw(train, settings.train_examples, job, "train")
        self.validation = read_examples(folders[VALIDATION]) if VALIDATION in folders else None
        self.tests = {
            name: draw(read_examples(folder), settings.test_examples, job, name)
            for name, folder in folders["tests"].items()
        }
        self.labels = labels_of(folders["train"])
        self.length = min(settings.length, positions_of(model) or settings.length)
        self.token_types = getattr(model.config, "type_vocab_size", 0) > 1

    def measure(self, head: Any, collator: Any, features: list[Row], score: Score) -> Measurement:
        """Fine-tune all weights of the copy, and score it on each test.

        With validation examples, the weights of the first epoch with the highest first metric of
        `score` are tested, otherwise the last ones. The initialization of the head and the order of
        the examples do not depend on the cell. Weights are float32, and so is arithmetic unless
        bfloat16 is faster.

        `head` is one of transformers' auto classes; `collator` builds a batch of `features`, the
        encoded training examples with labels. Writes `outputs["predictions"]`: one JSON object per
        test example, with `test` and the example's `id`, prefixed with the name of the test. Raises
        `UserError` if the loss is not finite.
        """
        import torch
        from torch.optim.lr_scheduler import LambdaLR
        from transformers import PrinterCallback, Trainer, TrainerCallback, set_seed

        from lexigraft.hardware import precision, trainer_arguments

        job, settings = self.job, self.settings
        seed = seed_from(*job["seed"], "fine-tuning")
        steps = math.ceil(settings.epochs * math.ceil(len(features) / settings.batch_size))
        scores: dict[str, dict[str, float]] = {}
        rows: list[Row] = []
        epoch_scores: list[float] = []  # of the validation examples
        best_weights: dict[str, torch.Tensor] = {}  # on the CPU

        class SelectEpoch(TrainerCallback):
            """Scores the model after each training epoch, and keeps its best weights."""

            def on_epoch_end(self, *arguments: Any, **options: Any) -> None:
                value = next(iter(score(validation, predict)[0].values()))
                number = len(epoch_scores) + 1
                logger.info("epoch %d: %.4f on the validation examples", number, value)
                if not epoch_scores or value > max(epoch_scores):
                    for name, tensor in tuned.state_dict().items():
                        best_weights[name] = tensor.to("cpu", copy=True)
                epoch_scores.append(value)

        with tempfile.TemporaryDirectory(
            prefix=TEMPORARY_PREFIX, dir=job["outputs"]["folder"]
        ) as folder:
            self.model.save_pretrained(folder)
            set_seed(seed)
            tuned = head.from_pretrained(
                folder,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                **({"num_labels": len(self.labels)} if self.labels else {}),
            )
            arguments = trainer_arguments(
                folder,
                seed,
                num_train_epochs=settings.epochs,
                per_device_train_batch_size=settings.batch_size,
                per_device_eval_batch_size=settings.batch_size,
                learning_rate=settings.learning_rate,
                weight_decay=settings.weight_decay,
                bf16=precision() == torch.bfloat16,
                logging_strategy="no",
                disable_tqdm=not sys.stderr.isatty(),
            )
            data: Any = features  # the trainer only takes an index
            trainer = Trainer(tuned, arguments, data_collator=collator, train_dataset=data)
            trainer.remove_callback(PrinterCallback)
            schedule = Schedule("linear", math.ceil(settings.warmup * steps), steps)
            trainer.lr_scheduler = LambdaLR(trainer.create_optimizer(), schedule.factor)

            def predict(features: Any) -> Any:
                return trainer.predict(features).predictions

            validation = self.validation or []
            if validation:
                trainer.add_callback(SelectEpoch)
            loss = trainer.train().training_loss
            if not math.isfinite(loss):
                raise UserError(
                    f"{job['inputs']['cell']}: the loss of fine-tuning for task '{job['task']}' is "
                    f"{loss}; lower its learning_rate in config/tasks.yaml"
                )
            if validation:
                tuned.load_state_dict(best_weights)
            for name, examples in self.tests.items():
                scores[name], predictions = score(examples, predict)
                rows += [
                    {"id": f"{name}-{example['id']}", "test": name, **row}
                    for example, row in zip(examples, predictions, strict=True)
                ]
        write_jsonl(job["outputs"]["predictions"], rows)
        counts = {name: len(examples) for name, examples in self.tests.items()}
        details = {"train_examples": len(self.train), "test_examples": counts}
        if validation:
            details |= {
                "validation_examples": len(validation),
                "validation_scores": epoch_scores,
                "epoch": epoch_scores.index(max(epoch_scores)) + 1,
            }
        return Measurement(metrics_by_language(scores), details)
