"""Trains one cell: loads and grafts the source model, trains the phases, stores what changed."""

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, set_seed

from lexigraft.artifacts.atomic import replacing
from lexigraft.artifacts.completion import fingerprint, output_checksums
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.errors import UserError
from lexigraft.hardware import device
from lexigraft.inference.likelihood import Likelihood, score_texts
from lexigraft.inference.masked_likelihood import score_masked
from lexigraft.initialization.graft import graft
from lexigraft.initialization.storage import load_initialization
from lexigraft.machine import setting
from lexigraft.randomness import seed_from
from lexigraft.source.document_start import document_start
from lexigraft.source.matrices import is_tied
from lexigraft.source.model import is_masked, load_config, load_model, open_source, open_tokenizer
from lexigraft.source.tokenizer import tokens_without_row
from lexigraft.training.adapted_layers import attach_adapters, with_auxiliary_loss
from lexigraft.training.anchored_rows import AnchoredRows, new_rows_of
from lexigraft.training.checkpointing import (
    Checkpointing,
    RetainedCheckpoints,
    SavePolicy,
    checkpoint_folder,
    finished_phases,
    load_progress,
    newest_complete,
    save_policy,
    save_progress,
    step_of,
)
from lexigraft.training.compatibility import (
    check_document_separation,
    check_length,
    check_objectives,
)
from lexigraft.training.distributed import (
    Computation,
    init_processes,
    is_sharded,
    on_rank_zero,
    rank,
    world_size,
)
from lexigraft.training.frozen_weights import FrozenWeights
from lexigraft.training.lora_targets import lora_targets
from lexigraft.training.memory_plan import MemoryPlan, plan_memory
from lexigraft.training.objective import PhaseContext
from lexigraft.training.objectives.mtp import EXTRA_HEAD
from lexigraft.training.passes import pass_tokens
from lexigraft.training.phase import load_trained, run_phase
from lexigraft.training.plan import cumulative_tokens, hand_on, plan_phases, sample_counts
from lexigraft.training.registry import objective
from lexigraft.training.schedule import optimizer_steps, schedules
from lexigraft.training.settings import check_optimizer, read_strategy
from lexigraft.training.store import VOCADT, matrix_names, save_cell
from lexigraft.training.trainable import (
    finish_phase,
    lora_parameter_count,
    merge_lora,
    own_parameters,
    trained_parameter_count,
)
from lexigraft.training.training_log import (
    HeldOutCurve,
    StepLogger,
    TrainingLog,
    open_report,
    peak_tokens_per_second,
    summarize_run,
)

if TYPE_CHECKING:
    from peft import PeftModel

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
        `initialization` or None, and, for phases that need them, `teacher` and `samples` (name ->
        file); `outputs`: `folder`; `cell`: the six names; `seed`: a list.

    Raises
    ------
    UserError
        A setting or an input is wrong, or the loss is not a finite number.
    """
    init_processes()
    run = _Run(job)
    if not run.plan:
        run.heldout.evaluate(0, 0, Computation(run.model))
    adapter = None
    for number in range(run.progress.phases, len(run.plan)):
        adapter = run.train_phase(number, policy or save_policy())
    if rank() == 0:
        run.store(adapter)


class _Run:
    """A cell during training."""

    def __init__(self, job: dict[str, Any]):
        """Read and check all inputs, and load the state of an interrupted run, if there was one."""
        self.job, self.inputs, self.folder = job, job["inputs"], Path(job["outputs"]["folder"])
        self.read = output_checksums(self.inputs)
        # A card marks a complete cell, and this one is incomplete until it has been trained again.
        for name in ("card.json", VOCADT):
            (self.folder / name).unlink(missing_ok=True)
        cell = "/".join(str(name) for name in job["cell"].values())
        offload = bool(setting("offload")) and world_size() == 1
        check_optimizer(job["settings"], is_sharded(), "strategy", offload=offload)
        self.strategy = strategy = read_strategy(job["settings"])
        self.source = open_source(self.inputs["source"]).folder
        self.tokenizer = open_tokenizer(self.inputs["tokenizer"])
        for name in {phase.objective: None for phase in strategy.phases}:
            objective(name).check_inputs(self.inputs, self.tokenizer, strategy)
        self.checkpoints = on_rank_zero(checkpoint_folder, self.folder, fingerprint(job))
        finished = finished_phases(self.checkpoints, len(strategy.phases))
        self.memory = self._plan_memory()
        self.new_ids: list[int] = []  # tokens that the source does not have
        # Each phase shards a copy of the model, if it is to be sharded or offloaded.
        in_parts = (is_sharded() or self.memory.offload) and strategy.phases
        place = "cpu" if in_parts else device()
        # `changed` are the names of the matrices with new rows.
        self.model, self.changed = self._load_untrained(finished, place)
        # The initializer's values: what earlier phases trained is loaded later.
        anchored = self.new_ids and any(phase.anchor for phase in strategy.phases)
        self.rows = new_rows_of(self.model, self.new_ids) if anchored else {}
        check_objectives(self.model, strategy)
        self.lora_left_out: dict[str, str] = {}
        for phase in strategy.phases:
            if "lora" in phase.trainable:
                self.lora_left_out |= lora_targets(self.model, phase.lora).left_out
        for name, reason in self.lora_left_out.items():
            logger.info("%s: LoRA leaves out %s: %s", cell, name, reason)
        self.plan = plan_phases(strategy, self.tokenizer, job)
        check_length(self.model, self.plan)
        if strategy.packing == "apart":
            check_document_separation(self.model)
        self.training_log = TrainingLog(self.checkpoints / "log.jsonl")
        corpus, count = self.inputs["corpus"], strategy.curve.sentences
        texts = {"": corpus_sentences(corpus, "heldout", count)}
        if english := corpus_sentences(corpus, "english", count):
            texts["english_"] = english
        self.heldout = HeldOutCurve(
            self.training_log,
            self._score,
            texts,
            steps=sum(self.steps),
            points=strategy.curve.points,
            name=cell,
        )
        self.progress = load_progress(self.checkpoints, self.model, len(self.plan))
        for number, steps in enumerate(self.progress.steps):
            self._hand_on(number, steps)
        # A checkpoint within the next phase.
        self.resume = on_rank_zero(newest_complete, self.checkpoints / f"phase-{finished}")
        inside = step_of(self.resume) if self.resume else 0
        self.resumed_step = sum(self.steps[:finished]) + inside
        on_rank_zero(self.training_log.resume_at, self.resumed_step)
        if rank() == 0:
            self.training_log.report = open_report(cell, self.folder, self.resumed_step)
        if self.resumed_step:
            logger.info(
                "%s: resuming after step %d of %d", cell, self.resumed_step, sum(self.steps)
            )
        self.retained = self._retained_checkpoints()
        self.parameters = _size(self.model)
        self.frozen = FrozenWeights(self.model, self.source)

    @property
    def steps(self) -> list[int]:
        """The optimizer steps of each phase."""
        return [
            optimizer_steps(len(part), phase.batch_sequences)
            for part, phase in zip(self.plan, self.strategy.phases, strict=True)
        ]

    def train_phase(self, number: int, policy: SavePolicy) -> "PeftModel | None":
        """Train one phase; return the PEFT model of LoRA's adapters, which stay in the model."""
        model, progress, here = self.model, self.progress, f"phase-{number}"
        strategy, phase = self.strategy, self.strategy.phases[number]
        folder = self.checkpoints / here
        seed = seed_from(*self.job["seed"], here)
        set_seed(seed)  # for the random initialization of adapters
        names, adapter = self.frozen.prepare_phase(model, phase, progress.changed, self.new_ids)
        progress.trained |= set(names)
        progress.adapter_size += lora_parameter_count(model)
        tokens = cumulative_tokens(self.plan, number, phase.batch_sequences)
        kind = objective(phase.objective)
        context = PhaseContext(
            model, self.tokenizer, strategy, phase, progress, self.inputs, self.job["seed"]
        )
        loss = with_auxiliary_loss(kind.for_phase(context), model, phase)
        if phase.anchor and self.rows:
            rows = {name: values.to(device()) for name, values in self.rows.items()}
            loss = AnchoredRows(loss, self.new_ids, rows, phase.anchor)
        schedule = schedules(strategy, self.steps)[number]
        if schedule.highest < 1 and rank() == 0:
            logger.warning(
                "%s: the warm-up takes %s of phase %d, so its learning rate reaches %.3g instead "
                "of %.3g; give it more text, or lower warmup or batch_sequences",
                self.heldout.name,
                "the only step" if schedule.steps == 1 else f"all {schedule.steps} steps",
                number,
                phase.learning_rate * schedule.highest,
                phase.learning_rate,
            )
        steps = run_phase(
            model,
            phase,
            strategy,
            kind.prepare_data(self.plan[number], context, [*self.job["seed"], here]),
            objective=loss,
            seed=seed,
            folder=folder,
            checkpoint=self.resume,
            schedule=schedule,
            memory=self.memory.phases[number],
            offload=self.memory.offload,
            callbacks=[
                StepLogger(
                    self.training_log,
                    self.heldout,
                    number,
                    sum(self.steps[:number]),
                    tokens,
                    peak_tokens_per_second(model),
                ),
                Checkpointing(folder, policy, self.retained.files(number)),
            ],
        )
        self.resume = None
        if steps < self.steps[number]:
            logger.info(
                "%s: phase %d has converged after %d of %d steps; the next phase takes the rest",
                self.heldout.name,
                number,
                steps,
                self.steps[number],
            )
            self._hand_on(number, steps)
            self.retained = self._retained_checkpoints()
        progress.steps.append(steps)
        recipes = finish_phase(model, self.tokenizer, phase, names, progress)
        if recipes is not None:
            on_rank_zero(recipes.save, self.checkpoints / VOCADT)
            self.parameters = _size(model)
        if progress.phases < len(self.plan):
            if adapter is not None:
                self.frozen.restore()
                progress.with_lora |= set(merge_lora(adapter))
            on_rank_zero(save_progress, self.checkpoints, model, progress)
        return adapter

    def store(self, adapter: "PeftModel | None") -> None:
        """Write the trained cell, then delete the checkpoints."""
        job, progress, folder = self.job, self.progress, self.folder
        self._store_checkpoints()
        for name in ["log.jsonl", *([VOCADT] if progress.from_adapters else [])]:
            with replacing(folder / name) as file:
                shutil.copyfile(self.checkpoints / name, file)
        save_cell(
            folder,
            self.model,
            self.changed | progress.changed,
            adapter=adapter,
            new_ids=None if self.plan else self.new_ids,
            job=job,
            read=self.read,
            trained_parameters=trained_parameter_count(self.model, progress, len(self.new_ids)),
            total_parameters=self.parameters,
            untied=bool(progress.from_adapters) and is_tied(self.source),
            extra_head_parameters=_size(progress.extra_head),
            resumed_from_step=self.resumed_step or None,
            checkpoints=len(self.retained.numbers) + 1,
            samples=sample_counts(self.plan),
            **({"lora_left_out": self.lora_left_out} if self.lora_left_out else {}),
            document_start=document_start(self.tokenizer),
            **summarize_run(self.training_log),
        )
        shutil.rmtree(folder / "checkpoints")

    def _store_checkpoints(self) -> None:
        """Write `checkpoint-<number>/` into the cell's folder, each with its own card."""
        for old in self.folder.glob("checkpoint-*"):
            shutil.rmtree(old)
        tokens = {line["step"]: line["tokens"] for line in self.training_log.lines("step")}
        for step, number in self.retained.numbers.items():
            phase = self.retained.phase_of(step)
            finished = phase + (step == self.retained.ends[phase])
            model, changed = self._load_untrained(finished, "cpu")
            progress = load_progress(self.checkpoints, model, finished)
            adapter: PeftModel | None = None
            if finished == phase:
                settings = self.strategy.phases[phase]
                frozen = FrozenWeights(model, self.source)
                names, adapter = frozen.prepare_phase(
                    model, settings, progress.changed, self.new_ids
                )
                progress.trained |= set(names)
                load_trained(model, self.retained.file(step), without=EXTRA_HEAD)
                finish_phase(model, self.tokenizer, settings, names, progress)
            save_cell(
                self.folder / f"checkpoint-{number}",
                model,
                changed | progress.changed,
                adapter=adapter,
                job=self.job,
                read=self.read,
                checkpoint=number,
                step=step,
                tokens=tokens[step],
            )

    def _hand_on(self, number: int, steps: int) -> None:
        """Limit a phase to `steps` optimizer steps; the next phase takes the rest."""
        if steps < self.steps[number]:
            hand_on(self.plan, number, steps * self.strategy.phases[number].batch_sequences)

    def _retained_checkpoints(self) -> RetainedCheckpoints:
        return RetainedCheckpoints(self.checkpoints, self.steps, self.strategy.checkpoints)

    def _plan_memory(self) -> MemoryPlan:
        config, teacher = load_config(self.source), self.inputs.get("teacher")
        changed = self.inputs.get("initialization")
        return plan_memory(
            config,
            self.strategy,
            max(self.tokenizer.get_vocab().values()) + 1
            if changed
            else config.get_text_config().vocab_size,
            teacher=load_config(open_source(teacher).folder) if teacher else None,
        )

    def _load_untrained(
        self, finished: int, place: torch.device | str
    ) -> tuple[PreTrainedModel, set[str]]:
        """Load the model before training; also return names of the matrices with new rows.

        Weights that the phase after `finished` ones trains are loaded in float32, others as
        `FrozenWeights` holds them. If this phase trains VocADT's adapters, these are attached
        instead of new rows.
        """
        phase = next(iter(self.strategy.phases[finished:]), None)
        adapter = phase.adapter if phase else None

        def hold(model: PreTrainedModel) -> None:
            # The adapters are not attached yet, and nothing else is trained with them.
            trained = own_parameters(model, phase) if phase and not adapter else ()
            FrozenWeights(model, self.source).hold(trained)

        model = load_model(self.source, torch.float32, place, hold)
        changed: set[str] = set()
        if self.inputs.get("initialization"):
            initializer = load_initialization(Path(self.inputs["initialization"]))
            self.new_ids = initializer.new_ids.tolist()
            if adapter is not None:
                attach_adapters(model, self.tokenizer, initializer, adapter)
                return model, changed
            model = graft(model, self.tokenizer, initializer)
            changed = matrix_names(model)
        elif adapter is not None:
            raise UserError(
                "strategy: an adapter is trained for a new vocabulary, but this cell has none; "
                "give it a vocabulary and an initializer, or another strategy"
            )
        rows = next(model.get_input_embeddings().parameters()).shape[0]
        tokens_without_row(self.tokenizer, rows, self.inputs["tokenizer"])
        return model, changed

    def _score(self, model: PreTrainedModel, sentences: list[str]) -> Likelihood:
        score = score_masked if is_masked(self.model) else score_texts
        # Processes that share a model wait for each other in each batch: all need the same batches.
        most = pass_tokens(device().type) if is_sharded() else None
        return score(model, self.tokenizer, sentences, batch_tokens=most)


def _size(module: torch.nn.Module | None) -> int:
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())
