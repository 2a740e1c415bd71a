"""Commands that inspect a study without starting jobs: plan, status, cost, verify, explain."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tqdm import tqdm

from lexigraft.artifacts.verification import verify as hashed
from lexigraft.errors import UserError
from lexigraft.gpus import devices
from workflow.commands.studies import StudyFile, cell_named, study_of
from workflow.cost import CPU, DEVICE, CostModel, chosen_device, cost_text, costs_by_rule
from workflow.jobs import jobs_of
from workflow.state import (
    DONE,
    explain_job,
    explain_study,
    plan_text,
    replacement_notice,
    states,
    status_text,
)

if TYPE_CHECKING:
    from workflow.study import Study


def plan(study: StudyFile) -> None:
    """Show what a run would do: jobs by rule, how long they take, and what they wait for.

    Nothing is started. `lexigraft run STUDY.yaml -n` shows Snakemake's own plan, job by job.
    """
    opened = study_of(study)
    device = chosen_device(opened.settings) or (_device(opened) if devices() else CPU)
    typer.echo(plan_text(opened, study, jobs_of(study, prefix=opened.settings.prefix), device))


def status(study: StudyFile) -> None:
    """Show the progress of a study, while it runs or afterwards.

    Counts the jobs of each rule that are done, running, queued, failed or stale, and lists failed
    jobs with their errors.
    """
    opened = study_of(study)
    _check_begun(opened, study)
    jobs = jobs_of(study, prefix=opened.settings.prefix)
    typer.echo(status_text(opened, jobs, _device(opened)))


def cost(study: StudyFile) -> None:
    """Estimate the cost of a study: GPU-hours, job-hours and disk space, by rule.

    Only jobs that would run are counted, on an A100 unless LEXIGRAFT_DEVICE names another device.
    """
    opened = study_of(study)
    jobs = jobs_of(study, prefix=opened.settings.prefix)
    unfinished = {card: jobs[card] for card, state in states(jobs).items() if state.name != DONE}
    model = CostModel(opened, _device(opened), jobs.values())
    title = f"{opened.name}: {len(opened.cells)} cells"
    typer.echo(cost_text(title, costs_by_rule(model, unfinished.values()), model.device))
    if notice := replacement_notice(opened, unfinished):
        typer.echo(f"\n{notice}")


def _device(opened: "Study") -> str:
    """The device for which times are estimated."""
    return chosen_device(opened.settings) or DEVICE


def verify(study: StudyFile) -> None:
    """Hash every file of a study's results, and list those that are damaged or missing.

    Exit code 1 if there are any.
    """
    opened = study_of(study)
    _check_begun(opened, study)
    packages = opened.settings.packages_folder
    verify_folders([opened.results, *([packages] if Path(packages).is_dir() else [])])


def verify_folders(folders: list[str]) -> None:
    """The same for folders; raises `typer.Exit` with code 1 if a file is damaged or missing."""
    with tqdm(unit="B", unit_scale=True, desc="hashing", disable=None) as progress:
        found = hashed(*folders, threads=min(8, os.cpu_count() or 1), advance=progress.update)
    for fault in found.faults:
        typer.echo(f"{fault.file}: {fault.what}")
    for folder in found.unfinished:
        typer.echo(
            f"{folder}: unfinished; an earlier run stopped here, and the next run repeats it"
        )
    size = f"{found.files} files in {found.folders} folders, {found.bytes / 1e9:.1f} GB"
    typer.echo(f"{size}: {len(found.faults)} damaged or missing")
    if found.faults:
        typer.echo("Restore them, or delete the following and run again to recreate them:")
        for place in sorted({place for fault in found.faults for place in fault.delete}):
            typer.echo(f"  {place}")
        raise typer.Exit(1)


def _check_begun(opened: "Study", file: str) -> None:
    """Raise a UserError if there is no results folder."""
    if not Path(opened.results).is_dir():
        raise UserError(f"{opened.results}: no results yet; run `lexigraft run {file}`")


def explain(
    study: StudyFile,
    cell: Annotated[
        str | None,
        typer.Argument(
            metavar="[CELL]",
            help="Names that identify one cell, such as my-te/expand-500/align, or an output of a "
            "job. Without it, explain why each job of the study would run.",
        ),
    ] = None,
) -> None:
    """Explain how a cell is computed, and why a job would run: what changed since it finished."""
    opened = study_of(study)
    jobs = jobs_of(study, prefix=opened.settings.prefix)
    if cell is None:
        typer.echo(explain_study(opened, jobs))
        return
    path = cell.removeprefix("./").rstrip("/")
    outputs = (card for card, job in jobs.items() if path in (card, job.folder))
    if (card := next(outputs, None)) is None:
        axes = cell_named(opened, cell).wildcards
        card = next(card for card, job in jobs.items() if job.wildcards == axes)
    typer.echo(explain_job(opened, jobs, card))
