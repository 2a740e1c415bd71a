"""Trains one cell: loads and grafts the source model, trains the phases, stores what changed."""

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import set_seed

from lexigraft.atomic import replacing
from lexigraft.errors import UserError
from lexigraft.hardware import device
from lexigraft.inference.likelihood import Likelihood, score_texts
from lexigraft.inference.masked_likelihood import MaskedLikelihood, score_masked
from lexigraft.initialization.graft import graft
from lexigraft.initialization.storage import load_initialization
from lexigraft.randomness import seed_from
from lexigraft.source.kind import is_masked
from lexigraft.source.model import is_tied, load_model, open_source
from lexigraft.training.adapted_layers import add_auxiliary_loss, attach_adapters
from lexigraft.training.checkpointing import (
    Checkpointing,
    SavePolicy,
    checkpoint_folder,
    finished_phases,
    job_digest,
    load_progress,
    newest_complete,
    save_progress,
    step_of,
)
from lexigraft.training.compatibility import (
    check_document_separation,
    check_length,
    check_objectives,
)
from lexigraft.training.data import SequenceDataset, read_english, read_sentences
from lexigraft.training.distributed import (
    Computation,
    init_processes,
    is_sharded,
    on_rank_zero,
    rank,
)
from lexigraft.training.micro_batches import optimizer_steps
from lexigraft.training.new_rows import new_row_parameter_count, new_tokens
from lexigraft.training.phase import run_phase
from lexigraft.training.phase_context import PhaseContext, Progress
from lexigraft.training.plan import cumulative_tokens, plan_phases, sample_counts
from lexigraft.training.registry import objective
from lexigraft.training.retained_checkpoints import RetainedCheckpoints
from lexigraft.training.schedule import schedules
from lexigraft.training.settings import AdapterSettings, Strategy, read_strategy
from lexigraft.training.store import VOCADT, open_tokenizer, save_cell
from lexigraft.training.throughput import peak_tokens_per_second, summarize_run
from lexigraft.training.trainable import (
    finish_phase,
    lora_parameter_count,
    matrix_names,
    merge_lora,
    prepare_phase,
)
from lexigraft.training.training_log import HeldOutCurve, StepLogger, TrainingLog

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)


@dataclass
class _Run:
    """A cell during training."""

    job: dict[str, Any]
    strategy: Strategy
    tokenizer: "PreTrainedTokenizerFast"
    model: "PreTrainedModel"
    changed: set[str]  # names of the matrices with new rows
    plan: list[SequenceDataset]
    steps: list[int]
    checkpoints: Path
    training_log: TrainingLog
    heldout: HeldOutCurve
    retained: RetainedCheckpoints
    progress: Progress
    resume: Path | None  # a checkpoint within the next phase
    resumed_step: int
    parameters: int


def train_cell(job: dict[str, Any], policy: SavePolicy | None = None) -> None:
    """Train the cell that a job describes and write it to the job's output folder.

    An interrupted run resumes from its newest complete checkpoint, with the result of an
    uninterrupted one. Checkpoints are in `checkpoints/<digest of the job>/` until the cell is
    complete.

    Parameters
    ----------
    job
        `settings`: one strategy; `inputs`: folders `source`, `tokenizer`, `corpus`,
        `initialization` or None, and of phases that need them `teacher` and `samples`: name ->
        file; `outputs`: `folder`; `cell`: the six names; `seed`: a list.
    policy
        How often to save.

    Raises
    ------
    UserError
        A setting or an input is wrong, or the loss is not a finite number.
    """
    init_processes()
    run = _prepare_run(job)
    if not run.plan:
        run.heldout.evaluate(0, 0, Computation(run.model))
    adapter = None
    for number in range(run.progress.phases, len(run.plan)):
        adapter = _train_phase(run, number, policy or SavePolicy())
    if rank() == 0:
        _store(run, adapter)


def _prepare_run(job: dict[str, Any]) -> _Run:
    """Read and check all inputs, and load the state of an interrupted run, if there was one."""
    folder = Path(job["outputs"]["folder"])
    # A card marks a complete cell, which this one is not until it has been trained again.
    for name in ("card.json", VOCADT):
        (folder / name).unlink(missing_ok=True)
    cell = "/".join(str(name) for name in job["cell"].values())
    strategy = read_strategy(job["settings"])
    tokenizer, corpus = open_tokenizer(job["inputs"]["tokenizer"]), job["inputs"]["corpus"]
    english = read_english(corpus, strategy.curve.sentences)
    for name in {phase.objective: None for phase in strategy.phases}:
        objective(name).check_inputs(job["inputs"], tokenizer, strategy)
    checkpoints = on_rank_zero(checkpoint_folder, folder, job_digest(job))
    begun = finished_phases(checkpoints, len(strategy.phases)) > 0
    adapter = strategy.phases[0].adapter if strategy.phases and not begun else None
    model, changed = _load_grafted(job["inputs"], tokenizer, adapter)
    check_objectives(model, strategy)
    # Each phase shards a copy of it, if it is to be sharded.
    place = "cpu" if is_sharded() and strategy.phases else device()
    model.to(place)  # type: ignore[arg-type]  # a decorator hides that it is a method
    plan = plan_phases(strategy, tokenizer, job)
    check_length(model, plan)
    if strategy.packing == "apart":
        check_document_separation(model)
    steps = [optimizer_steps(len(sequences), strategy.batch_sequences) for sequences in plan]
    training_log = TrainingLog(checkpoints / "log.jsonl")
    heldout = HeldOutCurve(
        training_log,
        _scorer(model, tokenizer, read_sentences(corpus, "heldout", strategy.curve.sentences)),
        english=_scorer(model, tokenizer, english) if english else None,
        steps=sum(steps),
        points=strategy.curve.points,
        name=cell,
    )
    progress = load_progress(checkpoints, model, len(plan))
    resume = on_rank_zero(newest_complete, checkpoints / f"phase-{progress.phases}")
    resumed_step = sum(steps[: progress.phases]) + (step_of(resume) if resume else 0)
    on_rank_zero(training_log.resume_at, resumed_step)
    if resumed_step:
        logger.info("%s: resuming after step %d of %d", cell, resumed_step, sum(steps))
    return _Run(
        job=job,
        strategy=strategy,
        tokenizer=tokenizer,
        model=model,
        changed=changed,
        plan=plan,
        steps=steps,
        checkpoints=checkpoints,
        training_log=training_log,
        heldout=heldout,
        retained=RetainedCheckpoints.plan(checkpoints, steps, strategy.checkpoints),
        progress=progress,
        resume=resume,
        resumed_step=resumed_step,
        parameters=_size(model),
    )


def _train_phase(run: _Run, number: int, policy: SavePolicy) -> "PeftModel | None":
    """Train one phase; return the handle on LoRA's adapters that it leaves in the model."""
    model, progress, here = run.model, run.progress, f"phase-{number}"
    phase, folder = run.strategy.phases[number], run.checkpoints / here
    seed = seed_from(*run.job["seed"], here)
    set_seed(seed)  # adapters start at random
    names, adapter = prepare_phase(model, phase, new_tokens(run.job["inputs"]))
    progress.trained |= set(names)
    progress.adapter_size += lora_parameter_count(adapter) + new_row_parameter_count(model)
    before = sum(run.steps[:number])
    tokens = cumulative_tokens(run.plan, number, run.strategy.batch_sequences)
    kind = objective(phase.objective)
    loss = kind.for_phase(
        PhaseContext(
            model=model,
            tokenizer=run.tokenizer,
            strategy=run.strategy,
            phase=phase,
            progress=progress,
            inputs=run.job["inputs"],
            seed=run.job["seed"],
        )
    )
    run_phase(
        model,
        phase,
        run.strategy,
        kind.prepare_data(run.plan[number], phase, run.tokenizer, [*run.job["seed"], here]),
        objective=add_auxiliary_loss(loss, model, phase.adapter),
        seed=seed,
        folder=folder,
        checkpoint=run.resume,
        schedule=schedules(run.strategy, run.steps)[number],
        callbacks=[
            StepLogger(
                run.training_log, run.heldout, number, before, tokens, peak_tokens_per_second(model)
            ),
            Checkpointing(folder, policy, run.retained.files(number)),
        ],
    )
    run.resume = None
    progress.phases = number + 1
    recipes = finish_phase(model, run.tokenizer, phase, names, progress)
    if recipes is not None:
        on_rank_zero(recipes.save, run.checkpoints / VOCADT)
        run.parameters = _size(model)
    if progress.phases < len(run.plan):
        if adapter is not None:
            progress.trained |= set(merge_lora(adapter))
        on_rank_zero(save_progress, run.checkpoints, model, progress)
    return adapter


def _store(run: _Run, adapter: "PeftModel | None") -> None:
    """Write the trained cell, then delete the checkpoints."""
    job, progress, folder = run.job, run.progress, Path(run.job["outputs"]["folder"])
    run.retained.store(
        job,
        run.strategy,
        run.training_log,
        run.tokenizer,
        lambda adapter: _load_grafted(job["inputs"], run.tokenizer, adapter),
    )
    with replacing(folder / "log.jsonl") as file:
        shutil.copyfile(run.training_log.file, file)
    if progress.from_adapters:
        with replacing(folder / VOCADT) as file:
            shutil.copyfile(run.checkpoints / VOCADT, file)
    save_cell(
        folder,
        run.model,
        run.changed | progress.changed,
        adapter=adapter,
        job=job,
        trained_parameters=_count(run.model, progress.trained) + progress.adapter_size,
        total_parameters=run.parameters,
        untied=bool(progress.from_adapters)
        and is_tied(open_source(Path(job["inputs"]["source"])).folder),
        extra_head_parameters=_size(progress.extra_head),
        resumed_from_step=run.resumed_step or None,
        checkpoints=len(run.retained.numbers) + 1,
        samples=sample_counts(run.plan),
        **summarize_run(run.training_log),
    )
    shutil.rmtree(folder / "checkpoints")


def _load_grafted(
    inputs: dict[str, Any],
    tokenizer: "PreTrainedTokenizerFast",
    adapter: AdapterSettings | None = None,
) -> tuple["PreTrainedModel", set[str]]:
    """The model before training, float32 on the CPU, and names of the matrices with new rows.

    With settings of VocADT's adapters, these are attached to it instead of grafting new rows.
    """
    model = load_model(open_source(Path(inputs["source"])).folder, torch.float32)
    changed: set[str] = set()
    if inputs.get("initialization"):
        initializer = load_initialization(Path(inputs["initialization"]))
        if adapter is not None:
            attach_adapters(model, tokenizer, initializer, adapter)
            return model, changed
        model = graft(model, tokenizer, initializer)
        changed = matrix_names(model)
    elif adapter is not None:
        raise UserError(
            "strategy: an adapter is trained for a new vocabulary, and this cell has none; give it "
            "a vocabulary and an initializer, or another strategy"
        )
    rows = next(model.get_input_embeddings().parameters()).shape[0]
    if len(tokenizer) > rows:
        raise UserError(
            f"{inputs['tokenizer']}: {len(tokenizer)} tokens for a model with {rows} rows; "
            "choose an initializer for this vocabulary"
        )
    return model, changed


def _scorer(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", sentences: list[str]
) -> Callable[["PreTrainedModel"], Likelihood | MaskedLikelihood]:
    """The function that scores held-out sentences under a model of this kind."""
    score = score_masked if is_masked(model) else score_texts
    return lambda model: score(model, tokenizer, sentences)


def _count(model: "PreTrainedModel", names: set[str]) -> int:
    return sum(parameter.numel() for name, parameter in model.named_parameters() if name in names)


def _size(module: torch.nn.Module | None) -> int:
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())
