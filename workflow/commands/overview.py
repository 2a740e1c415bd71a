"""Commands that inspect a study without starting jobs: plan, status, cost, verify, explain."""

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexigraft.errors import UserError
from workflow.commands.studies import StudyFile, cell_named, study_of

if TYPE_CHECKING:
    from workflow.stages import Study


def plan(study: StudyFile) -> None:
    """Show what a run would do: jobs by kind, how long they take, and what they wait for.

    Nothing is started. `lexigraft run STUDY.yaml -n` shows Snakemake's own plan, job by job.
    """
    from lexigraft.gpus import devices
    from workflow.cost import chosen_device
    from workflow.status.plan import as_text

    opened = study_of(study)
    if chosen_device(opened.config) is None and not devices():
        os.environ["LEXIGRAFT_DEVICE"] = "CPU"
    typer.echo(as_text(opened, study))


def status(study: StudyFile) -> None:
    """Show the progress of a study, while it runs or afterwards.

    Counts the jobs of each stage that are done, running, queued, failed or stale, lists failed jobs
    with their errors, and writes the same as an HTML page.
    """
    from lexigraft.artifacts.atomic import replacing
    from workflow.status.summary import as_text, page
    from workflow.status.summary import status as look

    opened = study_of(study)
    _check_begun(opened, study)
    shown = look(opened)
    typer.echo(as_text(shown))
    file = Path(opened.results) / "status" / f"{opened.name}.html"
    try:
        with replacing(file) as temporary:
            temporary.write_text(page(shown, datetime.now()), encoding="utf-8")
        typer.echo(f"\nHTML page: {file}")
    except OSError as error:
        typer.echo(f"\n{file} cannot be written ({error.strerror})")


def cost(study: StudyFile) -> None:
    """Estimate the cost of a study: GPU-hours, job-hours and disk space, by rule.

    The estimate is based on finished jobs or, without them, on the cost model, for an A100 unless
    LEXIGRAFT_DEVICE names another device.
    """
    from workflow.status.cost import as_text, costs, planned
    from workflow.status.estimates import finished_in
    from workflow.status.replacements import notice
    from workflow.status.results_folder import sizes

    opened = study_of(study)
    known = finished_in(opened, sizes(opened.results))
    title = f"{opened.name}: {len(opened.cells)} cells"
    jobs = planned(opened)
    typer.echo(as_text(title, costs(opened, jobs, known), known.planning_device(opened)))
    if replaced := notice(opened, [job.output for job in jobs]):
        typer.echo(f"\n{replaced}")


def verify(study: StudyFile) -> None:
    """Hash every file of a study's results, and list those that are damaged or missing.

    Exit code 1 if there are any.
    """
    opened = study_of(study)
    _check_begun(opened, study)
    packages = opened.config["packages_folder"]
    verify_folders([opened.results, *([packages] if Path(packages).is_dir() else [])])


def verify_folders(folders: list[str]) -> None:
    """The same for folders; raises `typer.Exit` with code 1 if a file is damaged or missing."""
    from tqdm import tqdm

    from lexigraft.artifacts.verification import verify as hashed

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
            show_default=False,
        ),
    ] = None,
) -> None:
    """Explain how a cell is computed, and why a job would run: what changed since it finished."""
    from workflow.status.explanation import explain_job, explain_study

    opened = study_of(study)
    jobs = opened.jobs()
    if cell is None:
        typer.echo(explain_study(opened, jobs))
        return
    card = cell.removeprefix("./")
    if card not in jobs:
        by_folder = {str(job.output): card for card, job in jobs.items()}
        card = by_folder.get(card.rstrip("/"), "")
    if not card:
        card = opened.output("train", **cell_named(opened, cell).wildcards).card
    typer.echo(explain_job(opened, jobs, card))
