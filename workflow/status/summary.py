"""The status of a study: how many jobs of each stage are done, running, queued, failed or stale.

It includes the resources used so far, and an estimate of the remaining time from finished jobs.
"""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path

from lexigraft.cells import cell_of
from lexigraft.report.rendering import render
from lexigraft.training.progress import describe_progress
from workflow.cost import CostModel
from workflow.stages import Study
from workflow.stages.stage import PACKAGES
from workflow.status.estimates import Finished, device_of, similarity_key
from workflow.status.results_folder import at_work, sizes
from workflow.status.states import DONE, FAILED, RUNNING, STATES, reason, states

SHOWN = 20  # maximum number of running and of failed jobs that are listed


@dataclass(frozen=True)
class Status:
    """The status of a study at one time.

    `counts` maps stage -> state -> number of jobs, without stages that have none. A cell counts in
    `finished_cells` if it is trained and all of its tasks are done. The resources used so far
    (`job_hours`, `gpu_hours`, `gigabytes`) include failed attempts, but not killed ones, which are
    not recorded. `left_hours` are the estimated job-hours of unfinished jobs, except for `unknown`
    ones, which have no similar finished job. `running` lists name, minutes and, for a training, its
    progress, longest first; `failed` lists name, reason and log.
    """

    study: str
    title: str
    at_work: bool
    counts: dict[str, Counter[str]]
    cells: int
    finished_cells: int
    job_hours: float
    gpu_hours: float
    gigabytes: float
    left_hours: float
    unknown: int
    running: list[tuple[str, float, str]]
    failed: list[tuple[str, str, str]]


def status(study: Study) -> Status:
    """Determine the status from a study's results folder, without writing anything."""
    planned = study.jobs()
    found = states(study, planned)
    bytes_of = sizes(study.results)
    counts: dict[str, Counter[str]] = {stage: Counter() for stage in PACKAGES}
    known, now, unfinished = Finished(), time.time(), set()
    running: list[tuple[str, float, str]] = []
    failed: list[tuple[str, str, str]] = []
    models = cache(partial(CostModel, study))
    for card, job in planned.items():
        state = found[card]
        counts[job.package][state.name] += 1
        name = job.output.removeprefix(f"{study.results}/")
        if state.name == RUNNING:
            since = state.since or now
            running.append((name, (now - since) / 60, _progress(job.output, since)))
        if state.name == FAILED:
            failed.append((name, reason(job), job.log))
        if state.name == DONE and state.usage:
            model = models(device_of(state.usage[-1]))
            key = similarity_key(model, job.rule, job.output.wildcards)
            known.add(key, state.usage[-1], bytes_of.get(job.output, 0) / 1e6)
        if state.name != DONE and "seed" in job.output.wildcards:
            unfinished.add(cell_of(job.output.wildcards))
    left, unknown, model = 0.0, 0, models(known.planning_device(study))
    for card, job in planned.items():
        state = found[card]
        if state.name != DONE:
            if taken := known.like(similarity_key(model, job.rule, job.output.wildcards)):
                begun = now - state.since if state.name == RUNNING and state.since else 0.0
                left += max(0.0, taken.seconds - begun)
            else:
                unknown += 1
    attempts = [line for state in found.values() for line in state.usage]
    return Status(
        study=study.name,
        title=study.config["title"],
        at_work=at_work(study),
        counts={stage: count for stage, count in counts.items() if count},
        cells=len(study.cells),
        finished_cells=sum(cell not in unfinished for cell in study.cells),
        job_hours=sum(line["seconds"] for line in attempts) / 3600,
        gpu_hours=sum(line["seconds"] * line.get("gpus", 0) for line in attempts) / 3600,
        gigabytes=sum(bytes_of.get(job.output, 0) for job in planned.values()) / 1e9,
        left_hours=left / 3600,
        unknown=unknown,
        running=sorted(running, key=lambda item: -item[1]),
        failed=failed,
    )


def as_text(shown: Status) -> str:
    """The status for a terminal."""
    rows: list[tuple[str, ...]] = [("", *STATES, "all")]
    for stage, count in shown.counts.items():
        numbers = (str(count[state] or "·") for state in STATES)
        rows.append((stage, *numbers, str(count.total())))
    lines = [headline(shown), "", *aligned(rows), "", *facts(shown)]
    running = [
        f"  {name}, {minutes:.0f} minutes" + (f"\n    {progress}" if progress else "")
        for name, minutes, progress in shown.running
    ]
    failed = [f"  {name}: {why}\n    {log}" for name, why, log in shown.failed]
    for title, named in (("Running:", running), ("Failed:", failed)):
        if named:
            more = [f"  … and {len(named) - SHOWN} more"] if len(named) > SHOWN else []
            lines += ["", title, *named[:SHOWN], *more]
    return "\n".join(lines)


def page(shown: Status, now: datetime) -> str:
    """The status as a self-contained HTML page without scripts."""
    return render(
        "status.html.j2",
        Path(__file__).resolve().parent,
        title=f"{shown.study}: status",
        fonts={},
        headline=headline(shown),
        now=f"{now:%Y-%m-%d %H:%M}",
        states=STATES,
        shown=shown,
        facts=facts(shown),
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines of text; all columns but the first are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def headline(shown: Status) -> str:
    """The study, and how many of its cells are finished."""
    title = f" ({shown.title})" if shown.title else ""
    return f"{shown.study}{title}: {shown.finished_cells} of {shown.cells} cells finished"


def facts(shown: Status) -> list[str]:
    """Information in addition to the table, one sentence each."""
    said = [
        "Snakemake is running this study."
        if shown.at_work
        else "No run of this study is visible from this machine.",
        f"So far: {shown.job_hours:.1f} job-hours, {shown.gpu_hours:.1f} GPU-hours, "
        f"{shown.gigabytes:.1f} GB.",
    ]
    todo = sum(count.total() - count[DONE] for count in shown.counts.values())
    if not todo:
        return [*said, "Nothing to do."]
    if measured := todo - shown.unknown:
        rate, running = "", len(shown.running)
        if running and shown.left_hours:
            rate = f"; {duration(shown.left_hours / running)} with {running} at a time"
        said.append(
            f"To do: {shown.left_hours:.1f} job-hours for {measured} of {todo} jobs, estimated "
            f"from similar finished jobs{rate}."
        )
    if shown.unknown:
        said.append(f"Not estimated: {shown.unknown} jobs without a similar finished job.")
    return said


def duration(hours: float) -> str:
    """Hours as text, in minutes, hours or days."""
    if hours < 1:
        return f"{max(1, round(hours * 60))} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def _progress(folder: str, begun: float) -> str:
    """The progress of the training in a folder; empty for other jobs and before its first step."""
    for log in Path(folder).glob("checkpoints/*/log.jsonl"):
        with suppress(OSError):  # the training has just ended
            # An older log is from an earlier attempt, which has not been resumed yet.
            if log.stat().st_mtime >= begun:
                return describe_progress(log)
    return ""
