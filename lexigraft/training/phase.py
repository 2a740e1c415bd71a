"""Runs one phase with transformers' Trainer: AdamW, gradient clipping at 1, one schedule."""

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, set_seed
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from lexigraft.hardware import device, trainer_arguments
from lexigraft.machine import setting
from lexigraft.training.convergence import StopWhenConverged
from lexigraft.training.data import SequenceDataset, collate
from lexigraft.training.distributed import (
    Computation,
    all_reduce_sum,
    discard_gradients,
    full_tensor,
    full_tensors,
    group_of_one,
    is_sharded,
    rank,
    shard,
    shard_like,
    world_size,
)
from lexigraft.training.objective import Objective
from lexigraft.training.passes import PhaseMemory, split_step, usual_memory
from lexigraft.training.schedule import Schedule, optimizer_steps, schedules
from lexigraft.training.settings import Phase, Strategy
from lexigraft.training.trainable import decoder_layers

logger = logging.getLogger(__name__)
TRAINED = "trained.safetensors"


def run_phase(
    model: PreTrainedModel,
    phase: Phase,
    strategy: Strategy,
    sequences: SequenceDataset,
    *,
    objective: Objective,
    seed: int,
    folder: Path,
    checkpoint: Path | None,
    callbacks: list[TrainerCallback],
    schedule: Schedule | None = None,
    memory: PhaseMemory | None = None,
    offload: bool = False,
) -> int:
    """Train the unfrozen parameters of `model` in place, visiting each sequence once in order.

    Returns the optimizer steps taken: all, unless the phase converged earlier.

    Weights and optimizer state are float32; if `hardware.precision()` is bfloat16, the forward pass
    runs under autocast. The optimizer steps do not depend on the number of processes, except for
    the rounding of sums and for dropout, which each process draws separately.

    The modules of the `objective` are trained in place. Checkpoints of this phase go to `folder`;
    `checkpoint` is a complete one to resume from, with the same result as an uninterrupted run, bit
    for bit on a CPU with the same number of processes. By default, `schedule` is the strategy's,
    over this phase alone, and `memory` is `usual_memory`. With `offload`, a `model` on the CPU is
    trained on the GPU part by part, see `distributed.shard`.
    """
    memory = memory or usual_memory(device().type)
    add_modules(model, objective)
    if strategy.gradient_checkpointing:
        recompute_layers(model, memory.recompute)
    if checkpoint is not None:
        load_trained(model, checkpoint / TRAINED)
    computation = Computation(model)
    with group_of_one() if offload else nullcontext():
        in_parts = offload or is_sharded()
        trained, own = computation, objective
        if in_parts:
            trained, own = shard(computation, objective, device(), offload=offload)
            _release(model)
        if setting("compile"):
            for layer in decoder_layers(trained.model):
                layer.compile()
        steps = optimizer_steps(len(sequences), phase.batch_sequences)
        arguments = trainer_arguments(  # `Checkpointing` requests saves at time intervals
            folder,
            seed,
            per_device_train_batch_size=phase.batch_sequences,
            num_train_epochs=1,  # the sequences include all epochs, in order
            learning_rate=phase.learning_rate,
            weight_decay=strategy.weight_decay,
            adam_epsilon=strategy.epsilon,
            optim="adamw_8bit" if strategy.optimizer == "adamw-8bit" else "adamw_torch_fused",
            logging_steps=1,
            disable_tqdm=True,
            ddp_broadcast_buffers=False,  # training changes no buffers
        )
        trainer = PhaseTrainer(
            model=trained,
            args=arguments,
            train_dataset=sequences,
            callbacks=callbacks,
            objective=own,
            batch_sequences=phase.batch_sequences,
            schedule=schedule or schedules(strategy, [steps])[0],
            tokens=memory.tokens,
            lora_ratio=phase.lora.learning_rate_ratio,
        )
        if phase.converged:
            trainer.add_callback(StopWhenConverged(phase.converged))
        # It prints a line per step; `StepLogger` has a progress bar.
        trainer.remove_callback(PrinterCallback)
        if rank():
            set_seed(seed + rank())  # for dropout; the model is the same on all ranks
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if in_parts:
            _take_back(model, trained)
    for name in objective.modules():
        delattr(model, name)
    return int(trainer.state.global_step)


def _release(model: PreTrainedModel) -> None:
    """Free the trained parameters, whose values are in the shards, but keep their shapes."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.new_empty(1).expand_as(parameter)


def _take_back(model: PreTrainedModel, sharded: Any) -> None:
    """Copy trained parameters from a sharded copy of a model back into it."""
    sharded.reshard()  # parameters that an evaluation after the last step has gathered
    for own, part in zip(model.parameters(), sharded.parameters(), strict=True):
        if own.requires_grad:
            own.data = full_tensor(part)


def add_modules(model: PreTrainedModel, objective: Objective) -> None:
    """Add an objective's modules to a model."""
    for name, module in objective.modules().items():
        model.add_module(name, module)


def recompute_layers(model: PreTrainedModel, share: float) -> None:
    """Recompute the activations of a share of the layers in the backward pass.

    These layers are spread evenly over all layers. Activations of the others stay in memory.
    """
    model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    if share == 1:
        return
    layers: list[Any] = list(decoder_layers(model))
    again, count = round(share * len(layers)), len(layers)
    for number, layer in enumerate(layers):
        layer.gradient_checkpointing = (number + 1) * again // count > number * again // count


class PhaseTrainer(Trainer):
    """A Trainer for one objective, whose checkpoints hold only the trained parameters.

    Its model is a `Computation`; `batch_sequences` is the number of sequences of an optimizer step,
    in all passes of all processes. A batch of the Trainer is a whole step: indices of sequences,
    which are read and split into passes of at most `tokens` here. If a pass does not fit into the
    memory of a GPU, the step is restarted with passes of half as many tokens. The second matrices
    of LoRA's adapters have `lora_ratio` times the learning rate.
    """

    def __init__(
        self,
        *,
        objective: Objective,
        batch_sequences: int,
        schedule: Schedule,
        tokens: int,
        lora_ratio: float = 1.0,
        **known,
    ):
        super().__init__(**known)
        self.objective: Objective = objective
        self.batch_sequences, self.schedule, self.tokens = batch_sequences, schedule, tokens
        self.lora_ratio = lora_ratio
        self.lengths = known["train_dataset"].tokens()

    def create_optimizer(self, model=None):
        """AdamW, with the second matrices of LoRA's adapters in separate groups.

        PEFT's `create_loraplus_optimizer` would also train norms at their rate, and would not apply
        weight decay.
        """
        optimizer = super().create_optimizer(model)
        named = (model or self.model).named_parameters()
        second = {id(parameter) for name, parameter in named if ".lora_B." in name}
        if self.lora_ratio == 1 or not second:
            return optimizer
        for group in list(optimizer.param_groups):
            faster = [one for one in group["params"] if id(one) in second]
            if faster:
                group["params"] = [one for one in group["params"] if id(one) not in second]
                rate = self.lora_ratio * group["lr"]
                optimizer.add_param_group({**group, "params": faster, "lr": rate})
        return optimizer

    def create_scheduler(self, num_training_steps, optimizer=None):
        """The learning-rate schedule, from where the phase begins in it."""
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, self.schedule.factor)
        return self.lr_scheduler

    def get_train_dataloader(self):
        """The indices of each step's sequences, of all processes."""
        places = range(len(self.train_dataset))
        return DataLoader(places, batch_size=self.batch_sequences, collate_fn=list)

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """Read the sequences of the step that begins."""
        samples, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._begin(*samples)
        return samples, items

    def training_step(self, model, inputs, num_items_in_batch=None):
        """Compute all passes of the step and return its loss."""
        while True:
            random = _random_state()
            try:
                return self._all_passes(model)
            except torch.OutOfMemoryError:
                # Other processes would have to restart the step, too.
                if world_size() > 1 or all(len(one["input_ids"]) == 1 for one in self.passes):
                    raise
            self.tokens = max(one["input_ids"].numel() for one in self.passes) // 2
            logger.warning(
                "a micro-batch does not fit into memory; from here on micro-batches have at most "
                "%d tokens",
                self.tokens,
            )
            discard_gradients(model)
            torch.cuda.empty_cache()
            _set_random_state(random)
            self._begin(inputs)

    def _begin(self, places):
        """Split a step into this process's passes, and count its targets."""
        own = split_step(self.lengths[places], self.tokens, world_size())[rank()]
        self.passes = [collate([self.train_dataset[places[at]] for at in part]) for part in own]
        counts = torch.stack([self.objective.count_targets(one) for one in self.passes])
        self.targets = all_reduce_sum(counts.sum(0).to(self.args.device)).clamp(min=1)
        self.losses = torch.zeros(self.targets.shape, device=self.args.device)
        parts = torch.zeros_like(self.losses, requires_grad=True)
        [self.weights] = torch.autograd.grad(self._loss(parts), parts)

    def _all_passes(self, model):
        loss = torch.zeros((), device=self.args.device)
        for number, one in enumerate(self.passes, 1):
            last = number == len(self.passes)
            with nullcontext() if last else self.accelerator.no_sync(model):
                loss += super().training_step(model, dict(one))
        return loss

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """This pass's part of the step's loss."""
        losses = model(self.objective.losses, inputs, self.weights)
        self.losses += losses.detach() / self.targets
        return self._loss(losses)

    def _loss(self, losses):
        # The Trainer takes the mean of gradients and losses over the processes.
        return self.objective.total(losses / self.targets) * world_size()

    def log(self, logs, start_time=None):
        """Log the parts of the loss in addition to their sum."""
        if "loss" in logs and self.objective.loss_names:
            losses = all_reduce_sum(self.losses).tolist()
            logs.update(zip(self.objective.loss_names, losses, strict=True))
        super().log(logs, start_time)

    def _get_grad_norm(self, model, grad_norm=None):
        return full_tensor(super()._get_grad_norm(model, grad_norm))

    def _save(self, output_dir=None, state_dict=None):
        if not self._saves():
            return
        folder = Path(output_dir or self.args.output_dir)
        trained = {n: p for n, p in self.model.model.named_parameters() if p.requires_grad}
        tensors = full_tensors(trained, keep=self.args.should_save)
        if self.args.should_save:
            folder.mkdir(parents=True, exist_ok=True)
            save_file({n: tensor.contiguous() for n, tensor in tensors.items()}, folder / TRAINED)

    def _save_optimizer_and_scheduler(self, output_dir):
        if not self._saves():
            return
        state = self.optimizer.state_dict()
        state["state"] = {
            index: full_tensors(values, keep=self.args.should_save)
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
            index: {name: shard_like(value, parameters[index]) for name, value in values.items()}
            for index, values in state["state"].items()
        }
        self.optimizer.load_state_dict(state)
        self.lr_scheduler.load_state_dict(schedule)

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        pass  # done in `run_phase`, before the model was sharded

    def _saves(self):
        # Ranks that take part in saving: rank 0, or all if each has a shard of every tensor.
        return self.args.should_save or is_sharded()


def _random_state():
    on_gpu = torch.cuda.is_available()
    return torch.get_rng_state(), torch.cuda.get_rng_state() if on_gpu else None


def _set_random_state(state):
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])


def load_trained(model: PreTrainedModel, file: Path, without: str | None = None) -> None:
    """Load trained parameters into a model prepared for their phase, except those of one module."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in load_file(file).items():
            if without is None or not name.startswith(f"{without}."):
                parameters[name].copy_(tensor)
