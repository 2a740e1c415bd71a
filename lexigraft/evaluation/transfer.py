"""Zero-shot transfer: an encoder is fine-tuned on English examples only (CW2V, section 4.6).

Each task defines its transformers head, the encoding of its examples, and their scoring.
"""

import logging
import math
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, set_seed

from lexigraft.artifacts.atomic import TEMPORARY_PREFIX, write_jsonl
from lexigraft.corpus.examples import Example, labels_of, read_examples
from lexigraft.errors import UserError
from lexigraft.evaluation.fine_tuning import FineTuning
from lexigraft.evaluation.task_kinds import Measurement, metrics_by_language
from lexigraft.evaluation.texts import draw
from lexigraft.hardware import precision, trainer_arguments
from lexigraft.randomness import seed_from
from lexigraft.source.positions import positions_of
from lexigraft.training.schedule import Schedule

logger = logging.getLogger(__name__)

Row = dict[str, Any]
# From features to the logits of the head: numpy arrays, padded to the longest feature.
Predict = Callable[[list[Row]], Any]
# From test examples to the metrics, and a row of predictions for each example.
Score = Callable[[list[Example], Predict], tuple[dict[str, float], list[Row]]]
VALIDATION = "validation"  # the part of the examples that selects the epoch


class Transfer:
    """Fine-tuning of a copy of a model for one task, and the task's examples.

    Examples are those of a job, or samples of them, the same for every cell of a run; `tests` are
    by language. `labels` are the names of the labels by number; questions have none. `token_types`
    is whether the model distinguishes the texts of a pair by token types, like BERT.
    """

    def __init__(self, model: PreTrainedModel, job: dict[str, Any], settings: FineTuning):
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

        With validation examples, the weights of the epoch with the highest first metric of `score`
        are tested (ties: the first one), otherwise the last ones. The initialization of the head
        and the order of the examples do not depend on the cell: the cells of a run differ only in
        their encoder. Weights are float32, and so is arithmetic unless bfloat16 is faster.

        `head` is one of transformers' auto classes; `collator` builds a batch of `features`, the
        encoded training examples with labels. Writes `outputs["predictions"]`: one JSON object per
        test example, with `test` and the example's `id`, prefixed with the name of the test. Raises
        `UserError` if the loss is not finite.
        """
        job, settings, scores, rows = self.job, self.settings, {}, []
        seed = seed_from(*job["seed"], "fine-tuning")
        steps = math.ceil(settings.epochs * math.ceil(len(features) / settings.batch_size))
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
            trainer = Trainer(
                model=tuned,
                args=arguments,
                data_collator=collator,
                train_dataset=features,  # type: ignore[arg-type]  # it only takes an index
            )
            trainer.remove_callback(PrinterCallback)
            schedule = Schedule("linear", math.ceil(settings.warmup * steps), steps)
            trainer.lr_scheduler = LambdaLR(trainer.create_optimizer(), schedule.factor)

            def predict(features: list[Row]) -> Any:
                return trainer.predict(features).predictions  # type: ignore[arg-type]  # as above

            epochs = None
            if self.validation is not None:
                examples = self.validation
                epochs = _BestEpoch(tuned, lambda: score(examples, predict)[0])
                trainer.add_callback(epochs)
            loss = trainer.train().training_loss
            if not math.isfinite(loss):
                raise UserError(
                    f"{job['inputs']['cell']}: the loss of fine-tuning for task '{job['task']}' is "
                    f"{loss}; lower its learning_rate in config/tasks.yaml"
                )
            if epochs:
                tuned.load_state_dict(epochs.weights)
            for name, examples in self.tests.items():
                scores[name], predictions = score(examples, predict)
                rows += [
                    {"id": f"{name}-{example['id']}", "test": name, **row}
                    for example, row in zip(examples, predictions, strict=True)
                ]
        write_jsonl(job["outputs"]["predictions"], rows)
        counts = {name: len(examples) for name, examples in self.tests.items()}
        details = {"train_examples": len(self.train), "test_examples": counts}
        if epochs:
            details |= {
                "validation_examples": len(self.validation or ()),
                "validation_scores": epochs.scores,
                "epoch": epochs.best,
            }
        return Measurement(metrics_by_language(scores), details)


class _BestEpoch(TrainerCallback):
    """Scores a model after each training epoch, and keeps its best weights in memory."""

    def __init__(self, model: nn.Module, score: Callable[[], dict[str, float]]):
        self.model, self._score = model, score
        self.scores: list[float] = []  # one per epoch
        self.best = 0  # the number of the best epoch, from 1
        self.weights: dict[str, Tensor] = {}  # on the CPU

    def on_epoch_end(self, *arguments: Any, **options: Any) -> None:
        """Score the model."""
        value = next(iter(self._score().values()))
        logger.info("epoch %d: %.4f on the validation examples", len(self.scores) + 1, value)
        if not self.scores or value > max(self.scores):
            self.best = len(self.scores) + 1
            state = self.model.state_dict()
            self.weights = {name: tensor.to("cpu", copy=True) for name, tensor in state.items()}
        self.scores.append(value)
