"""Runs one phase with transformers' Trainer: AdamW, gradient clipping at 1, one schedule."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from lexigraft.hardware import device
from lexigraft.training.computation import Computation
from lexigraft.training.data import Sequences
from lexigraft.training.distributed import process, processes, sharded, summed
from lexigraft.training.objectives.interface import Objective
from lexigraft.training.passes import deal, loader, rounds
from lexigraft.training.schedule import Schedule, schedules
from lexigraft.training.settings import Phase, Strategy
from lexigraft.training.sharding import gathered, part, sharded_copy, take_over, whole

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TRAINED = "trained.safetensors"
# Of one forward and backward pass. The vocabulary does not matter: see `chunked`.
MICRO_BATCH_TOKENS = {"cpu": 512, "cuda": 8192}


def run_phase(
    model: "PreTrainedModel",
    phase: Phase,
    strategy: Strategy,
    sequences: Sequences,
    *,
    objective: Objective,
    seed: int,
    folder: Path,
    checkpoint: Path | None,
    callbacks: list[TrainerCallback],
    schedule: Schedule | None = None,
) -> None:
    """Train the unfrozen parameters of `model` in place, visiting each sequence once in order.

    Weights and optimizer state are float32; where `hardware.precision()` says bfloat16, the forward
    pass runs under autocast. Any number of processes makes the same optimizer steps, but for the
    rounding of sums and for dropout, which each process draws for itself.

    Parameters
    ----------
    objective
        What is made small; its modules are trained in place.
    folder
        Where checkpoints of this phase go.
    checkpoint
        A whole checkpoint of this phase to go on from: same result as without the interruption,
        bit for bit on a CPU with as many processes.
    schedule
        Of the learning rate; by default the strategy's, over this phase alone.
    """
    for name, module in objective.modules().items():
        model.add_module(name, module)
    if checkpoint is not None:
        _load_trained(model, checkpoint / TRAINED)
    if strategy.gradient_checkpointing:
        model.activation_checkpointing_enable(
            activation_checkpointing_kwargs={"use_reentrant": False}
        )
    own = trained = Computation(model)
    if sharded():
        trained, objective = sharded_copy(own, objective, device())
    per_pass = _per_pass(phase, strategy)
    trainer = PhaseTrainer(
        model=trained,
        args=_arguments(phase, strategy, per_pass, seed, folder),
        train_dataset=sequences,
        callbacks=callbacks,
        objective=objective,
        batch_sequences=strategy.batch_sequences,
        schedule=schedule or schedules(strategy, [optimizer_steps(len(sequences), strategy)])[0],
    )
    # It prints a line per step; the progress bar is ours.
    trainer.remove_callback(PrinterCallback)
    if process():
        set_seed(seed + process())  # for dropout; the model is the same everywhere
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trained is not own:
        take_over(own, trained)
    for name in objective.modules():
        delattr(model, name)


def optimizer_steps(sequences: int, strategy: Strategy) -> int:
    """Optimizer steps of a phase; the last one may have fewer sequences."""
    return math.ceil(sequences / strategy.batch_sequences)


class PhaseTrainer(Trainer):
    """A Trainer of one objective, whose checkpoints hold the trained parameters and no others.

    Parameters
    ----------
    model
        A `Computation`.
    batch_sequences
        Sequences of one optimizer step, in all passes and processes together.
    """

    # The losses are divided by the targets of the whole step here.
    loss_is_scaled_for_ga = True

    def __init__(self, *, objective: Objective, batch_sequences: int, schedule: Schedule, **known):
        super().__init__(**known)
        self.objective: Objective = objective
        self.batch_sequences, self.schedule = batch_sequences, schedule

    def create_scheduler(self, num_training_steps, optimizer=None):
        """The learning rate's schedule, from where the phase begins on it."""
        self.lr_scheduler = self.schedule.scheduler(optimizer or self.optimizer)
        return self.lr_scheduler

    def get_train_dataloader(self):
        """This process's passes."""
        per_pass = self.args.per_device_train_batch_size
        count = len(self.train_dataset)
        passes = deal(count, self.batch_sequences, per_pass, processes(), process())
        return loader(self.train_dataset, passes, pin_memory=self.args.dataloader_pin_memory)

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """Count the targets of the step that begins."""
        samples, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        counts = torch.stack([self.objective.count(sample) for sample in samples])
        self.targets = summed(counts.sum(0).to(device)).clamp(min=1)
        self.losses = torch.zeros(self.targets.shape, device=device)
        return samples, items

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """This pass's part of the step's loss."""
        losses = model(self.objective.losses, inputs) / self.targets
        self.losses += losses.detach()
        # Times the processes, of whose gradients and losses the mean is taken.
        return self.objective.total(losses) * processes()

    def log(self, logs, start_time=None):
        """Say the parts of the loss beside their sum."""
        if "loss" in logs and self.objective.parts:
            losses = summed(self.losses).tolist()
            logs.update(zip(self.objective.parts, losses, strict=True))
        super().log(logs, start_time)

    def _get_grad_norm(self, model, grad_norm=None):
        return whole(super()._get_grad_norm(model, grad_norm))

    def _defer_fsdp_gradient_reduction(self):
        # Each pass hands its gradients on, so that no process ever holds all of them.
        return nullcontext()

    def _save(self, output_dir=None, state_dict=None):
        if not self._takes_part():
            return
        folder = Path(output_dir or self.args.output_dir)
        trained = {n: p for n, p in self.model.model.named_parameters() if p.requires_grad}
        tensors = gathered(trained, keep=self.args.should_save)
        if self.args.should_save:
            folder.mkdir(parents=True, exist_ok=True)
            save_file({n: tensor.contiguous() for n, tensor in tensors.items()}, folder / TRAINED)

    def _save_optimizer_and_scheduler(self, output_dir):
        if not self._takes_part():
            return
        state = self.optimizer.state_dict()
        state["state"] = {
            index: gathered(values, keep=self.args.should_save)
            for index, values in state["state"].items()
        }
        if self.args.should_save:
            torch.save(state, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_optimizer_and_scheduler(self, checkpoint):
        if checkpoint is None:
            return
        state, schedule = (
            torch.load(Path(checkpoint) / name, map_location="cpu", weights_only=True)
            for name in (OPTIMIZER_NAME, SCHEDULER_NAME)
        )
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        state["state"] = {
            index: {name: part(value, parameters[index]) for name, value in values.items()}
            for index, values in state["state"].items()
        }
        self.optimizer.load_state_dict(state)
        self.lr_scheduler.load_state_dict(schedule)

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        pass  # `run_phase` has done so, before the model was spread over processes

    def _takes_part(self):
        # In saving: the first process, and all of them where each has a part of every tensor.
        return self.args.should_save or sharded()


def micro_batch(batch_sequences: int, length: int, device_type: str) -> int:
    """The most sequences of `length` tokens in one pass, of `batch_sequences` of a step."""
    return max(1, min(MICRO_BATCH_TOKENS[device_type] // length, batch_sequences))


def _load_trained(model: "PreTrainedModel", file: Path) -> None:
    saved, parameters = load_file(file), dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in saved.items():
            parameters[name].copy_(tensor)


def _per_pass(phase: Phase, strategy: Strategy) -> int:
    own = math.ceil(strategy.batch_sequences / processes())
    return micro_batch(own, phase.length, device().type)


def _arguments(
    phase: Phase, strategy: Strategy, per_pass: int, seed: int, folder: Path
) -> TrainingArguments:
    on_gpu = device().type == "cuda"
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=per_pass,
        gradient_accumulation_steps=rounds(strategy.batch_sequences, per_pass, processes()),
        num_train_epochs=1,  # the sequences already are all epochs, in their order
        learning_rate=phase.learning_rate,
        weight_decay=strategy.weight_decay,
        max_grad_norm=1.0,
        use_cpu=not on_gpu,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",  # Checkpointing asks for saves by the clock
        report_to="none",
        disable_tqdm=True,
        ddp_broadcast_buffers=False,  # training changes none
        seed=seed,
        remove_unused_columns=False,
        dataloader_pin_memory=on_gpu,
    )
    if on_gpu:
        # A process that sees several GPUs would give each a part of its batch (DataParallel).
        arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments
