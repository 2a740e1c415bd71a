"""Trains one cell: loads and grafts the source model, trains the phases, stores what changed."""

import logging
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerFast, set_seed

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.artifacts.completion import fingerprint, output_checksums
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.hardware import device
from lexigraft.inference.likelihood import Likelihood, score_masked, score_texts
from lexigraft.initialization.graft import graft
from lexigraft.initialization.storage import load_initialization
from lexigraft.machine import setting
from lexigraft.randomness import seed_from
from lexigraft.source.document_start import document_start
from lexigraft.source.matrices import is_tied
from lexigraft.source.model import is_masked, load_config, load_model, open_source, open_tokenizer
from lexigraft.source.positions import positions_of
from lexigraft.source.tokenizer import tokens_without_row
from lexigraft.training.checkpointing import (
    Checkpointing,
    SavePolicy,
    checkpoint_folder,
    finished_phases,
    load_progress,
    newest_complete,
    retained_file,
    retained_steps,
    save_policy,
    save_progress,
    step_of,
)
from lexigraft.training.data import SequenceDataset
from lexigraft.training.distributed import (
    Computation,
    init_processes,
    is_sharded,
    on_rank_zero,
    rank,
    world_size,
)
from lexigraft.training.lora import lora_parameter_count, lora_targets, merge_lora
from lexigraft.training.memory import plan_memory
from lexigraft.training.merging import check_merged, layer_weights, merge_models
from lexigraft.training.objective import PhaseContext
from lexigraft.training.objectives.mtp import EXTRA_HEAD
from lexigraft.training.phase import PhaseMemory, load_trained, micro_batch_tokens, run_phase
from lexigraft.training.plan import cumulative_tokens, plan_phases, sample_counts, validation_set
from lexigraft.training.registry import objective
from lexigraft.training.schedule import optimizer_steps
from lexigraft.training.settings import read_strategy
from lexigraft.training.store import VOCADT, load_continued, matrix_names, save_cell
from lexigraft.training.teacher import Teacher
from lexigraft.training.trainable import (
    FrozenWeights,
    check_document_separation,
    finish_phase,
    own_parameters,
    trained_parameter_count,
)
from lexigraft.training.training_log import (
    HeldOutCurve,
    StepLogger,
    TrainingLog,
    flops_per_token,
    open_report,
    peak_tokens_per_second,
    summarize_run,
)
from lexigraft.training.vocadt_adapter import attach_adapters, with_auxiliary_loss

logger = logging.getLogger(__name__)


def train_cell(job: dict[str, Any], policy: SavePolicy | None = None) -> None:
    """Train the cell that a job describes and write it to the job's output folder.

    An interrupted run resumes from its newest complete checkpoint, with the same result as an
    uninterrupted one. Checkpoints are in `checkpoints/<fingerprint>/` until the cell is
    complete; `policy` says how often to save them.

    Parameters
    ----------
    job
        `settings`: one strategy; `inputs`: folders `source`, `tokenizer`, `corpus`,
        `initialization` or None, and, if the strategy needs them, `start` (the cell that this one
        continues), `teacher`, `merged` (a source to merge with), and `samples` (name -> file of
        samples, or folder of another corpus); `outputs`: `folder`; `cell`: the six names; `seed`:
        a list.

    Raises
    ------
    UserError
        A setting or an input is wrong, or the loss is not a finite number.
    """
    init_processes()
    checksums = output_checksums(job["inputs"])
    # A card marks a complete cell, and this one is incomplete until it has been trained again.
    for name in ("card.json", VOCADT):
        Path(job["outputs"]["folder"], name).unlink(missing_ok=True)
    cell = _Cell(job)
    strategy, phases, tokenizer = cell.strategy, cell.strategy.phases, cell.tokenizer
    checkpoints = on_rank_zero(checkpoint_folder, cell.folder, fingerprint(job))
    finished = finished_phases(checkpoints, len(phases))
    memory = cell.plan_memory()  # measures what is free, before the model is loaded

    # Open and graft. Each phase shards a copy of the model, if it is to be sharded or offloaded.
    in_parts = (is_sharded() or cell.offload) and phases
    model, grafted = cell.load_untrained(finished, "cpu" if in_parts else device())
    lora_left_out: dict[str, str] = {}
    for lora in [phase.lora for phase in phases if "lora" in phase.trainable]:
        lora_left_out |= lora_targets(model, lora).left_out
    for name, reason in lora_left_out.items():
        logger.info("%s: LoRA leaves out %s: %s", cell.name, name, reason)
    if strategy.packing == "apart":
        check_document_separation(model)

    if strategy.merge is not None:  # an error before the training instead of after it
        layer_weights(model, strategy.merge)
        check_merged(cell.source, cell.merged)

    # Plan the sequences, steps, checkpoints and held-out scores of all phases.
    plan = plan_phases(strategy, tokenizer, job)
    check_length(model, plan)
    steps = [
        optimizer_steps(len(sequences), phase.batch_sequences)
        for sequences, phase in zip(plan, phases, strict=True)
    ]
    retained = retained_steps(steps, strategy.checkpoints)
    training_log = TrainingLog(checkpoints / "log.jsonl")
    curve = cell.heldout_curve(training_log, is_masked(model), sum(steps))

    # Resume from the state after the last finished phase, or a checkpoint within the next one.
    progress = load_progress(checkpoints, model, len(plan), cell.changed)
    checkpoint = on_rank_zero(newest_complete, checkpoints / f"phase-{finished}")
    resumed = sum(steps[:finished]) + (step_of(checkpoint) if checkpoint else 0)
    on_rank_zero(training_log.resume_at, resumed)
    if rank() == 0:
        training_log.report = open_report(cell.name, cell.folder, resumed)
    if resumed:
        logger.info("%s: resuming after step %d of %d", cell.name, resumed, curve.steps)
    parameters = _size(model)
    frozen = FrozenWeights(model, cell.source)
    if not plan:
        curve.evaluate(0, 0, Computation(model))

    adapter: PeftModel | None = None
    for number in range(finished, len(plan)):
        phase, seed_names = phases[number], [*job["seed"], f"phase-{number}"]
        seed = seed_from(*seed_names)
        set_seed(seed)  # for the random initialization of adapters
        names, adapter = frozen.prepare_phase(model, phase, progress.changed, cell.new_ids)
        progress.trained |= set(names)
        progress.adapter_size += lora_parameter_count(model)
        progress.flops_per_token.append(flops_per_token(model))
        context = PhaseContext(
            model, tokenizer, strategy, phase, progress, job["seed"], cell.teacher
        )
        phase_objective = objective(phase.objective)
        loss = with_auxiliary_loss(phase_objective.for_phase(context), model, phase)
        sequences = phase_objective.prepare_data(plan[number], context, seed_names)
        if validation := validation_set(phase, tokenizer, job["inputs"].get("samples", {})):
            validation_seed = [*seed_names, "validation"]
            validation = phase_objective.prepare_data(validation, context, validation_seed)
        begin, folder = sum(steps[:number]), checkpoints / f"phase-{number}"
        end = begin + steps[number]
        log_steps = StepLogger(
            training_log,
            curve,
            number,
            begin,
            cumulative_tokens(plan, number, phase.batch_sequences),
            peak_tokens_per_second(model),
        )
        # The state at the end of the phase is saved anyway.
        files = {s - begin: retained_file(checkpoints, s) for s in retained if begin < s < end}
        save = Checkpointing(folder, policy or save_policy(), files)
        run_phase(
            model,
            phase,
            strategy,
            sequences,
            objective=loss,
            seed=seed,
            folder=folder,
            checkpoint=checkpoint,
            memory=memory[number],
            offload=cell.offload,
            validation=validation,
            callbacks=[log_steps, save],
        )
        checkpoint = None
        progress.steps.append(steps[number])
        if recipes := finish_phase(model, tokenizer, phase, names, progress):
            on_rank_zero(recipes.save, checkpoints / VOCADT)
            parameters = _size(model)
        if progress.phases < len(plan):
            if adapter is not None:
                frozen.restore()
                progress.with_lora |= set(merge_lora(adapter))
            on_rank_zero(save_progress, checkpoints, model, progress)

    # Store what changed.
    if rank() != 0:
        return
    tokens = [int(sequences.tokens().sum()) for sequences in plan]
    flops = sum(map(mul, progress.flops_per_token, tokens))  # of all forward passes
    embeddings: Any = model.get_input_embeddings()
    head: Any = model.get_output_embeddings()
    _store_checkpoints(cell, checkpoints, steps, retained, training_log, checksums)
    for name in ["log.jsonl", *([VOCADT] if progress.from_adapters else [])]:
        with atomic_file(cell.folder / name) as file:
            shutil.copyfile(checkpoints / name, file)
    changed = grafted | progress.changed
    if strategy.merge is not None:
        model.cpu()  # main memory has room for the other model, too
        frozen.restore()
        if adapter is not None:
            changed |= set(merge_lora(adapter))
            adapter = None
        settings, folders = strategy.merge, (cell.source, cell.merged)
        changed |= merge_models(model, tokenizer, settings, *folders, changed, cell.source_of)
    save_cell(
        cell.folder,
        model,
        changed,
        adapter=adapter,
        new_ids=None if plan or strategy.merge else cell.new_ids,
        job=job,
        read=checksums,
        trained_parameters=trained_parameter_count(model, progress, len(cell.new_ids)),
        total_parameters=parameters,
        untied=is_tied(cell.source) and head.weight is not embeddings.weight,
        extra_head_parameters=_size(progress.extra_head),
        resumed_from_step=resumed or None,
        checkpoints=len(retained) + 1,
        samples=sample_counts(plan),
        **({"lora_left_out": lora_left_out} if lora_left_out else {}),
        document_start=document_start(tokenizer),
        flops_per_token=flops / sum(tokens) if plan else None,
        flops_per_batch=flops / sum(steps) if plan else None,
        **summarize_run(training_log),
    )
    shutil.rmtree(cell.folder / "checkpoints")


@dataclass
class _Cell:
    """A cell's job, with its settings read and its inputs opened."""

    job: dict[str, Any]
    new_ids: list[int] = field(default_factory=list)  # tokens that the source does not have
    source_of: np.ndarray | None = None  # [rows]: the source's row that each row copies, or -1
    changed: set[str] = field(default_factory=set)  # parameters that the cell `start` changed

    def __post_init__(self) -> None:
        self.offload = bool(setting("offload")) and world_size() == 1
        self.strategy, self.inputs = read_strategy(self.job["settings"]), self.job["inputs"]
        self.folder = Path(self.job["outputs"]["folder"])
        self.name = "/".join(map(str, self.job["cell"].values()))
        self.source = open_source(self.inputs["source"]).folder
        self.merged = open_source(self.inputs.get("merged") or self.inputs["source"]).folder
        self.tokenizer: PreTrainedTokenizerFast = open_tokenizer(self.inputs["tokenizer"])
        for name in dict.fromkeys(phase.objective for phase in self.strategy.phases):
            objective(name).check_inputs(self.inputs, self.tokenizer, self.strategy)
        teacher = self.inputs.get("teacher")
        self.teacher = Teacher(teacher, self.strategy.packing == "apart") if teacher else None

    def load_untrained(
        self, finished: int, target_device: torch.device | str
    ) -> tuple[PreTrainedModel, set[str]]:
        """Load the model for the phase after `finished`; return names of matrices with new rows.

        Weights that this phase trains are float32, others as `FrozenWeights` holds them. If it
        trains VocADT's adapters, these are attached instead of new rows.
        """
        phase = next(iter(self.strategy.phases[finished:]), None)
        settings = phase.adapter if phase else None

        def round_frozen(model: PreTrainedModel) -> None:
            # The adapters are not attached yet, and nothing else is trained with them.
            trained = own_parameters(model, phase) if phase and not settings else {}
            FrozenWeights(model, self.source).round_all_but(trained)

        if start := self.inputs.get("start"):
            model, self.changed = load_continued(start, target_device)
        else:
            model = load_model(self.source, torch.float32, target_device, round_frozen)
        if self.inputs.get("initialization"):
            initializer = load_initialization(Path(self.inputs["initialization"]))
            self.new_ids = initializer.new_ids.tolist()
            self.source_of = initializer.source_of
            if settings is not None:
                attach_adapters(model, self.tokenizer, initializer, settings)
                return model, set()
            model = model if start else graft(model, self.tokenizer, initializer)
        elif settings is not None:
            raise UserError(
                "strategy: an adapter is trained for a new vocabulary, but this cell has none; "
                "give it a vocabulary and an initializer, or another strategy"
            )
        rows = next(model.get_input_embeddings().parameters()).shape[0]
        tokens_without_row(self.tokenizer, rows, self.inputs["tokenizer"])
        return model, matrix_names(model) if self.inputs.get("initialization") else set()

    def plan_memory(self) -> list[PhaseMemory]:
        """How each phase uses the memory of the GPU."""
        config = load_config(self.source)
        rows = config.get_text_config().vocab_size
        if self.inputs.get("initialization"):
            rows = max(self.tokenizer.get_vocab().values()) + 1
        return plan_memory(
            config,
            self.strategy,
            rows,
            offload=self.offload,
            tokenizer=self.tokenizer,
            teacher=self.teacher.config if self.teacher else None,
        )

    def heldout_curve(self, training_log: TrainingLog, masked: bool, steps: int) -> HeldOutCurve:
        """The curve of held-out sentences, and of English ones if there are any."""
        count, points = self.strategy.curve.sentences, self.strategy.curve.points
        texts = {"": corpus_sentences(self.inputs["corpus"], "heldout", count)}
        if english := corpus_sentences(self.inputs["corpus"], "english", count):
            texts["english_"] = english

        def score(model: PreTrainedModel, sentences: list[str]) -> Likelihood:
            score_sentences = score_masked if masked else score_texts
            # Processes that share a model wait for each other in each batch: all need the same.
            tokens = micro_batch_tokens(device().type) if is_sharded() else None
            return score_sentences(model, self.tokenizer, sentences, batch_tokens=tokens)

        return HeldOutCurve(training_log, score, texts, steps=steps, points=points, name=self.name)


def check_length(model: PreTrainedModel, plan: Iterable[SequenceDataset]) -> None:
    """Raise a UserError if a phase has a sequence that is longer than the model's context."""
    limit = positions_of(model)
    for number, sequences in enumerate(plan):
        longest = int(sequences.tokens().max())
        if limit is not None and longest > limit:
            raise UserError(
                f"strategy: phase {number} reads sequences of {longest} tokens, but the source "
                f"model has {limit} positions; lower the phase's length to {limit}"
            )


def _store_checkpoints(
    cell: _Cell,
    checkpoints: Path,
    steps: list[int],
    retained: dict[int, int],
    training_log: TrainingLog,
    checksums: dict[str, str],
) -> None:
    """Write `checkpoint-<number>/` into the cell's folder, each with its own card."""
    for old in cell.folder.glob("checkpoint-*"):
        shutil.rmtree(old)
    tokens = {line["step"]: line["tokens"] for line in training_log.lines("step")}
    for step, number in retained.items():
        finished = sum(end <= step for end in accumulate(steps))
        model, grafted = cell.load_untrained(finished, "cpu")
        progress = load_progress(checkpoints, model, finished, cell.changed)
        adapter: PeftModel | None = None
        if step not in accumulate(steps):  # within a phase
            phase = cell.strategy.phases[finished]
            frozen = FrozenWeights(model, cell.source)
            names, adapter = frozen.prepare_phase(model, phase, progress.changed, cell.new_ids)
            progress.trained |= set(names)
            load_trained(model, retained_file(checkpoints, step), without=EXTRA_HEAD)
            finish_phase(model, cell.tokenizer, phase, names, progress)
        save_cell(
            cell.folder / f"checkpoint-{number}",
            model,
            grafted | progress.changed,
            adapter=adapter,
            job=cell.job,
            read=checksums,
            checkpoint=number,
            step=step,
            tokens=tokens[step],
        )


def _size(module: torch.nn.Module | None) -> int:
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())
