"""Trains one cell: source model, grafted rows, phases of a strategy, and what changed on disk."""

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
from lexigraft.training.adapted_layers import wear
from lexigraft.training.checkpoints import (
    Checkpointing,
    Progress,
    SavePolicy,
    checkpoint_folder,
    finished_phases,
    job_digest,
    load_progress,
    newest_whole,
    save_progress,
    step_of,
)
from lexigraft.training.computation import Computation
from lexigraft.training.context import check_apart, check_length
from lexigraft.training.data import Sequences, read_english, read_sentences
from lexigraft.training.distributed import by_first, process, sharded, start
from lexigraft.training.journal import HeldOut, Journal, StepLog
from lexigraft.training.kept import Kept, keep
from lexigraft.training.masking import as_read, check_objectives
from lexigraft.training.new_rows import new_row_parameters, new_tokens
from lexigraft.training.objectives.choice import objective_of
from lexigraft.training.phase import optimizer_steps, run_phase
from lexigraft.training.plan import plan_phases, samples_read, tokens_after
from lexigraft.training.schedule import schedules
from lexigraft.training.settings import AdapterSettings, Strategy, read_strategy
from lexigraft.training.store import ADAPTERS, open_tokenizer, save_cell
from lexigraft.training.teacher import check_teacher
from lexigraft.training.throughput import full_speed, measured
from lexigraft.training.trainable import adapter_parameters, merge, prepare
from lexigraft.training.worn import matrix_names, take_off_all

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)


@dataclass
class _Run:
    """A cell while it is trained."""

    job: dict[str, Any]
    strategy: Strategy
    tokenizer: "PreTrainedTokenizerFast"
    model: "PreTrainedModel"
    changed: set[str]  # names of the matrices with new rows
    plan: list[Sequences]
    steps: list[int]
    checkpoints: Path
    journal: Journal
    heldout: HeldOut
    kept: Kept
    progress: Progress
    resume: Path | None  # a checkpoint within the phase that comes next
    resumed_step: int
    parameters: int


def train_cell(job: dict[str, Any], policy: SavePolicy | None = None) -> None:
    """Train the cell that a job describes and write it to the job's output folder.

    A run that was killed goes on from its newest whole checkpoint, with the same result as if it
    had not been: checkpoints lie in `checkpoints/<digest of the job>/` until the cell is complete.

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
    start()
    run = _begun(job)
    if not run.plan:
        run.heldout.look(0, 0, Computation(run.model))
    adapter = None
    for number in range(run.progress.phases, len(run.plan)):
        adapter = _train_phase(run, number, policy or SavePolicy())
    if not process():  # the first one stores the cell
        _store(run, adapter)


def _begun(job: dict[str, Any]) -> _Run:
    """All inputs read and checked, and the state of an earlier run, if there was one."""
    folder = Path(job["outputs"]["folder"])
    # A card says that a cell is whole; while this one is made anew, it is not.
    for name in ("card.json", ADAPTERS):
        (folder / name).unlink(missing_ok=True)
    cell = "/".join(str(name) for name in job["cell"].values())
    strategy = read_strategy(job["settings"])
    tokenizer, corpus = open_tokenizer(job["inputs"]["tokenizer"]), job["inputs"]["corpus"]
    english = read_english(corpus, strategy.curve.sentences)
    if teacher := job["inputs"].get("teacher"):
        check_teacher(teacher, tokenizer, strategy)
    checkpoints = by_first(checkpoint_folder, folder, job_digest(job))
    begun = finished_phases(checkpoints, len(strategy.phases)) > 0
    worn = strategy.phases[0].adapter if strategy.phases and not begun else None
    model, changed = _grafted(job["inputs"], tokenizer, worn)
    check_objectives(model, strategy)
    # Where it is spread over processes, each phase takes a copy of it in parts.
    place = "cpu" if sharded() and strategy.phases else device()
    model.to(place)  # type: ignore[arg-type]  # a decorator hides that it is a method
    plan = plan_phases(strategy, tokenizer, job)
    check_length(model, plan)
    if strategy.packing == "apart":
        check_apart(model)
    steps = [optimizer_steps(len(sequences), strategy) for sequences in plan]
    journal = Journal(checkpoints / "log.jsonl")
    heldout = HeldOut(
        journal,
        _scorer(model, tokenizer, read_sentences(corpus, "heldout", strategy.curve.sentences)),
        english=_scorer(model, tokenizer, english) if english else None,
        steps=sum(steps),
        points=strategy.curve.points,
        name=cell,
    )
    progress = load_progress(checkpoints, model, len(plan))
    resume = by_first(newest_whole, checkpoints / f"phase-{progress.phases}")
    resumed_step = sum(steps[: progress.phases]) + (step_of(resume) if resume else 0)
    by_first(journal.resume_at, resumed_step)
    if resumed_step:
        logger.info("%s: goes on after step %d of %d", cell, resumed_step, sum(steps))
    return _Run(
        job=job,
        strategy=strategy,
        tokenizer=tokenizer,
        model=model,
        changed=changed,
        plan=plan,
        steps=steps,
        checkpoints=checkpoints,
        journal=journal,
        heldout=heldout,
        kept=keep(checkpoints, steps, strategy.checkpoints),
        progress=progress,
        resume=resume,
        resumed_step=resumed_step,
        parameters=_size(model),
    )


def _train_phase(run: _Run, number: int, policy: SavePolicy) -> "PeftModel | None":
    """Train one phase; the handle on adapters that the last one leaves in the model."""
    model, progress, here = run.model, run.progress, f"phase-{number}"
    phase, folder = run.strategy.phases[number], run.checkpoints / here
    seed = seed_from(*run.job["seed"], here)
    set_seed(seed)  # adapters start at random
    names, adapter = prepare(model, phase, new_tokens(run.job["inputs"]))
    progress.trained |= set(names)
    progress.adapter_size += adapter_parameters(adapter) + new_row_parameters(model)
    before = sum(run.steps[:number])
    tokens = tokens_after(run.plan, number, run.strategy.batch_sequences)
    run_phase(
        model,
        phase,
        run.strategy,
        as_read(run.plan[number], phase, run.tokenizer, [*run.job["seed"], here]),
        objective=objective_of(model, run.tokenizer, run.strategy, phase, progress, run.job),
        seed=seed,
        folder=folder,
        checkpoint=run.resume,
        schedule=schedules(run.strategy, run.steps)[number],
        callbacks=[
            StepLog(run.journal, run.heldout, number, before, tokens, full_speed(model)),
            Checkpointing(folder, policy, run.kept.files(number)),
        ],
    )
    run.resume = None
    progress.phases = number + 1
    recipes = take_off_all(model, run.tokenizer, phase, names, progress)
    if recipes is not None:
        by_first(recipes.save, run.checkpoints / ADAPTERS)
        run.parameters = _size(model)
    if progress.phases < len(run.plan):
        if adapter is not None:
            progress.trained |= set(merge(adapter))
        by_first(save_progress, run.checkpoints, model, progress)
    return adapter


def _store(run: _Run, adapter: "PeftModel | None") -> None:
    """Write the trained cell, and delete what a killed run would have gone on from."""
    job, progress, folder = run.job, run.progress, Path(run.job["outputs"]["folder"])
    run.kept.store(
        job,
        run.strategy,
        run.journal,
        run.tokenizer,
        lambda worn: _grafted(job["inputs"], run.tokenizer, worn),
    )
    with replacing(folder / "log.jsonl") as file:
        shutil.copyfile(run.journal.file, file)
    if progress.made:
        with replacing(folder / ADAPTERS) as file:
            shutil.copyfile(run.checkpoints / ADAPTERS, file)
    save_cell(
        folder,
        run.model,
        run.changed | progress.changed,
        adapter=adapter,
        job=job,
        trained_parameters=_count(run.model, progress.trained) + progress.adapter_size,
        total_parameters=run.parameters,
        untied=bool(progress.made) and is_tied(open_source(Path(job["inputs"]["source"])).folder),
        extra_head_parameters=_size(progress.extra_head),
        resumed_from_step=run.resumed_step or None,
        checkpoints=len(run.kept.numbers) + 1,
        samples=samples_read(run.plan),
        **measured(run.journal),
    )
    shutil.rmtree(folder / "checkpoints")


def _grafted(
    inputs: dict[str, Any],
    tokenizer: "PreTrainedTokenizerFast",
    worn: AdapterSettings | None = None,
) -> tuple["PreTrainedModel", set[str]]:
    """The model before training, float32 on the CPU, and names of the matrices with new rows.

    If its first phase trains adapters, it wears these instead of new rows.
    """
    model = load_model(open_source(Path(inputs["source"])).folder, torch.float32)
    changed: set[str] = set()
    if inputs.get("initialization"):
        initializer = load_initialization(Path(inputs["initialization"]))
        if worn is not None:
            wear(model, tokenizer, initializer, worn)
            return model, changed
        model = graft(model, tokenizer, initializer)
        changed = matrix_names(model)
    elif worn is not None:
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
    """What scores a model like this one as it is at the time."""
    scored = score_masked if is_masked(model) else score_texts
    return lambda model: scored(model, tokenizer, sentences)


def _count(model: "PreTrainedModel", names: set[str]) -> int:
    return sum(parameter.numel() for name, parameter in model.named_parameters() if name in names)


def _size(module: torch.nn.Module | None) -> int:
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())
