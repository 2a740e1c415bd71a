"""Runs one phase with transformers' Trainer: AdamW, gradient clipping, one schedule."""

import logging
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, set_seed
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from lexigraft.hardware import device, trainer_arguments
from lexigraft.machine import setting
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
from lexigraft.training.objectives.mtp import EXTRA_HEAD
from lexigraft.training.schedule import Schedule, optimizer_steps
from lexigraft.training.settings import Phase, Strategy
from lexigraft.training.trainable import decoder_layers

logger = logging.getLogger(__name__)
TRAINED = "trained.safetensors"
# Default maximum tokens of a micro-batch. The size of the vocabulary does not matter: logits are
# computed in chunks (`inference.chunked_logits`).
MICRO_BATCH_TOKENS = {"cpu": 2048, "cuda": 4096}


@dataclass(frozen=True)
class PhaseMemory:
    """How a phase uses the memory of a GPU."""

    tokens: int  # at most, of a micro-batch
    recompute: float  # share of the layers recomputed if the strategy has `gradient_checkpointing`


def micro_batch_tokens(device_type: str) -> int:
    """The maximum tokens of a micro-batch, including padding, by machine settings or hardware."""
    return setting("pass_tokens") or MICRO_BATCH_TOKENS[device_type]


def default_memory(device_type: str) -> PhaseMemory:
    """How a phase uses memory by default: by the machine's settings, or by the hardware."""
    share = setting("recompute")
    return PhaseMemory(micro_batch_tokens(device_type), 1.0 if share is None else share)


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
    memory: PhaseMemory | None = None,
    offload: bool = False,
    validation: SequenceDataset | None = None,
) -> None:
    """Train the unfrozen parameters of `model` in place, visiting each sequence once in order.

    Weights and optimizer state are float32; the forward pass runs under `hardware.autocast`. The
    steps do not depend on the number of processes, except for the rounding of sums and for dropout.
    The modules of the `objective` are trained in place.

    `checkpoint` is a complete one in `folder` to resume from, with the same result as an
    uninterrupted run, bit for bit on a CPU with the same number of processes. By default, `memory`
    is `default_memory`. With `offload`, a `model` on the CPU is trained on the GPU part by part,
    see `distributed.shard`. With a `validation` set, the model ends with the parameters that had
    the lowest loss on it.
    """
    memory = memory or default_memory(device().type)
    for name, module in objective.modules().items():
        model.add_module(name, module)
    if strategy.gradient_checkpointing:
        recompute_layers(model, memory.recompute)
    if checkpoint is not None:
        load_trained(model, checkpoint / TRAINED)
    computation = Computation(model)
    with group_of_one() if offload else nullcontext():
        in_parts = offload or is_sharded()
        trained: Any = computation
        trained_objective = objective
        if in_parts:
            trained, trained_objective = shard(computation, objective, device(), offload=offload)
            for parameter in model.parameters():  # the shards have the values
                if parameter.requires_grad:
                    parameter.data = parameter.data.new_empty(1).expand_as(parameter)
        if setting("compile"):
            for layer in decoder_layers(trained.model):
                layer.compile()
        steps = optimizer_steps(len(sequences), phase.batch_sequences)
        schedule = Schedule(strategy.schedule, math.ceil(strategy.warmup * steps), steps)
        arguments = trainer_arguments(  # `Checkpointing` requests saves at time intervals
            folder,
            seed,
            per_device_train_batch_size=phase.batch_sequences,
            num_train_epochs=1,  # the sequences include all epochs, in order
            learning_rate=phase.learning_rate,
            weight_decay=strategy.weight_decay,
            max_grad_norm=strategy.gradient_clipping,
            adam_epsilon=strategy.epsilon,
            optim="adamw_torch_fused",
            logging_steps=1,
            disable_tqdm=True,
            ddp_broadcast_buffers=False,  # training changes no buffers
            save_strategy="no" if validation is None else "best",
            metric_for_best_model="loss",
        )
        trainer = PhaseTrainer(
            model=trained,
            args=arguments,
            train_dataset=sequences,
            eval_dataset=validation,
            callbacks=callbacks,
            objective=trained_objective,
            schedule=schedule,
            tokens=memory.tokens,
            rate_factors=learning_rate_factors(model, phase),
        )
        # It prints a line per step; `StepLogger` has a progress bar.
        trainer.remove_callback(PrinterCallback)
        if rank():
            set_seed(seed + rank())  # for dropout; the model is the same on all ranks
        if schedule.highest < 1 and rank() == 0:
            logger.warning(
                "the warm-up takes %s of this phase, so its learning rate reaches %.3g instead of "
                "%.3g; give it more text, or lower warmup or batch_sequences",
                "the only step" if steps == 1 else f"all {steps} steps",
                phase.learning_rate * schedule.highest,
                phase.learning_rate,
            )
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if in_parts:  # copy the shards back
            trained.reshard()  # parameters that an evaluation after the last step has gathered
            for parameter, part in zip(model.parameters(), trained.parameters(), strict=True):
                if parameter.requires_grad:
                    parameter.data = full_tensor(part)
    best = trainer.state.best_global_step
    if best is not None and best < trainer.state.global_step:
        load_trained(model, folder / f"checkpoint-{best}" / TRAINED)
    for name in objective.modules():
        delattr(model, name)


def learning_rate_factors(model: PreTrainedModel, phase: Phase) -> dict[str, float]:
    """Factors on a phase's learning rate, by the name of a parameter.

    `embedding_learning_rate` is that of input embeddings and heads, including the extra head of
    objective `mtp`; `learning_rate_ratio` that of LoRA's matrices `B` (LoRA+; Hayou et al. 2024).
    PEFT's `create_loraplus_optimizer` would also train norms at the rate of `B`, and would not
    apply weight decay.
    """
    if phase.adapter is not None:  # VocADT's adapters are part of the embeddings and the head
        return {}
    matrices: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    matrices.append(getattr(model, EXTRA_HEAD, None))
    ids = {id(p) for layer in matrices if layer is not None for p in layer.parameters()}
    return {
        name: phase.embedding_learning_rate if id(p) in ids else phase.lora.learning_rate_ratio
        for name, p in model.named_parameters()
        if id(p) in ids or ".lora_B." in name
    }


def recompute_layers(model: PreTrainedModel, share: float) -> None:
    """Recompute activations of a share of the layers, spread evenly, in the backward pass.

    Architectures that cannot do so, such as CTRL and RWKV, keep them.
    """
    if not model.supports_gradient_checkpointing:
        return
    model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    if share == 1:
        return
    layers: list[Any] = list(decoder_layers(model))
    count = round(share * len(layers))
    for number, layer in enumerate(layers):
        before, after = (n * count // len(layers) for n in (number, number + 1))
        layer.gradient_checkpointing = after > before


def split_step(
    lengths: Sequence[int] | np.ndarray, tokens: int, processes: int = 1
) -> list[list[list[int]]]:
    """Split a step, whose sequences have `lengths`, into micro-batches of each process: indices.

    A micro-batch has at most `tokens` tokens, padding included, or a single sequence. All processes
    have the same number of micro-batches, as few as possible; some may be empty.
    """
    sizes = np.asarray(lengths)
    fitting = sizes[sizes <= tokens]
    fewest = len(sizes) - len(fitting) + math.ceil(fitting.sum() / tokens)
    for count in range(math.ceil(fewest / processes), len(sizes) + 1):
        parts = np.array_split(np.arange(len(sizes)), count * processes)
        if all(len(part) < 2 or len(part) * sizes[part].max() <= tokens for part in parts):
            break
    return [[part.tolist() for part in parts[rank::processes]] for rank in range(processes)]


class PhaseTrainer(Trainer):
    """A Trainer for one objective, whose checkpoints hold only the trained parameters.

    Its model is a `Computation`. A batch of the Trainer is a whole step: indices of sequences,
    which are read and split into micro-batches of at most `tokens` here. If one does not fit into
    the memory of a GPU, the step is restarted with micro-batches of half as many tokens.
    `rate_factors` are factors on the learning rate, by the name of a parameter of the model.
    """

    def __init__(
        self,
        *,
        objective: Objective,
        schedule: Schedule,
        tokens: int,
        rate_factors: dict[str, float],
        **known,
    ):
        super().__init__(**known)
        self.objective: Objective = objective
        self.schedule, self.tokens, self.rate_factors = schedule, tokens, rate_factors
        self.lengths = known["train_dataset"].tokens()

    def create_optimizer(self, model=None):
        """AdamW, with a group of parameters for each learning rate and weight decay."""
        optimizer = super().create_optimizer(model)
        factors = {p: self.rate_factors.get(n, 1) for n, p in self.model.model.named_parameters()}
        for group in list(optimizer.param_groups):
            parameters = group["params"]
            group["params"] = [p for p in parameters if factors[p] == 1]
            for factor in sorted({factors[p] for p in parameters} - {1}):
                members = [p for p in parameters if factors[p] == factor]
                rate = factor * group["lr"]
                optimizer.add_param_group({**group, "params": members, "lr": rate})
        return optimizer

    def create_scheduler(self, num_training_steps, optimizer=None):
        """The learning-rate schedule of the phase."""
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, self.schedule.factor)
        return self.lr_scheduler

    def get_train_dataloader(self):
        """The indices of each step's sequences, of all processes."""
        indices = range(len(self.train_dataset))
        size = self.args.per_device_train_batch_size
        return DataLoader(indices, batch_size=size, collate_fn=list)

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """Read the sequences of the step that begins."""
        samples, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        [indices] = samples
        self._begin(indices, self.lengths[indices], self.train_dataset)
        return samples, items

    def training_step(self, model, inputs, num_items_in_batch=None):
        """Train on all micro-batches of the step and return its loss."""
        while True:
            random_state = torch.get_rng_state()
            gpu_random_state = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
            try:
                return self._train_micro_batches(model)
            except torch.OutOfMemoryError:
                # Other processes would have to restart the step, too.
                single = all(len(batch["input_ids"]) == 1 for batch in self.micro_batches)
                if world_size() > 1 or single:
                    raise
            # Not in the handler: there the exception still holds the tensors of the micro-batch.
            self.tokens = max(batch["input_ids"].numel() for batch in self.micro_batches) // 2
            logger.warning(
                "a micro-batch does not fit into memory; from here on micro-batches have at most "
                "%d tokens",
                self.tokens,
            )
            discard_gradients(model)
            torch.cuda.empty_cache()
            torch.set_rng_state(random_state)
            if gpu_random_state is not None:
                torch.cuda.set_rng_state(gpu_random_state)
            self._begin(inputs, self.lengths[inputs], self.train_dataset)

    def _begin(self, indices, lengths, sequences):
        """Split a step into this process's micro-batches, and count its targets."""
        parts = split_step(lengths, self.tokens, world_size())[rank()]
        self.micro_batches = [collate([sequences[indices[at]] for at in part]) for part in parts]
        counts = torch.stack([self.objective.count_targets(batch) for batch in self.micro_batches])
        self.targets = all_reduce_sum(counts.sum(0).to(self.args.device)).clamp(min=1)
        self.losses = torch.zeros(self.targets.shape, device=self.args.device)
        zeros = torch.zeros_like(self.losses, requires_grad=True)
        [self.weights] = torch.autograd.grad(self._loss(zeros), zeros)

    def _train_micro_batches(self, model):
        loss = torch.zeros((), device=self.args.device)
        for number, batch in enumerate(self.micro_batches, 1):
            last = number == len(self.micro_batches)
            with nullcontext() if last else self.accelerator.no_sync(model):
                loss += super().training_step(model, dict(batch))
        return loss

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """This micro-batch's part of the step's loss."""
        losses = model(self.objective.losses, inputs, self.weights)
        self.losses += losses.detach() / self.targets
        return self._loss(losses)

    def _loss(self, losses):
        # The Trainer takes the mean of gradients and losses over the processes.
        return self.objective.total(losses / self.targets) * world_size()

    def evaluate(self, *arguments, **options):
        """The loss on the validation set."""
        sequences = self.eval_dataset
        self._begin(range(len(sequences)), sequences.tokens(), sequences)
        self.model.eval()
        with torch.no_grad():
            for batch in self.micro_batches:
                inputs = self._prepare_inputs(dict(batch))
                self.losses += self.model(self.objective.losses, inputs) / self.targets
        self.model.train()
        metrics = {"eval_loss": float(self.objective.total(all_reduce_sum(self.losses)))}
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def log(self, logs, start_time=None):
        """Log the parts of the loss in addition to their sum."""
        if "loss" in logs and self.objective.loss_names:
            losses = all_reduce_sum(self.losses).tolist()
            logs.update(zip(self.objective.loss_names, losses, strict=True))
        super().log(logs, start_time)

    def _get_grad_norm(self, model, grad_norm=None):
        return full_tensor(super()._get_grad_norm(model, grad_norm))

    def _save(self, output_dir=None, state_dict=None):
        if not (self.args.should_save or is_sharded()):  # each process has shards of all tensors
            return
        folder = Path(output_dir or self.args.output_dir)
        trained = {name: p for name, p in self.model.model.named_parameters() if p.requires_grad}
        tensors = full_tensors(trained, keep=self.args.should_save)
        if self.args.should_save:
            folder.mkdir(parents=True, exist_ok=True)
            tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(tensors, folder / TRAINED)

    def _save_optimizer_and_scheduler(self, output_dir):
        if not (self.args.should_save or is_sharded()):
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


def load_trained(model: PreTrainedModel, file: Path, without: str | None = None) -> None:
    """Load trained parameters into a model prepared for their phase, except those of one module."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in load_file(file).items():
            if without is None or not name.startswith(f"{without}."):
                parameters[name].copy_(tensor)
