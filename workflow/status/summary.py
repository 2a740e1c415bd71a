"""A study as a table: how many jobs of each stage are done, running, queued, failed or stale.

With it goes what it took so far, and how long the rest will take by what finished jobs took.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lexigraft.cells import AXES
from workflow.stages import Job, Study
from workflow.stages.stage import PACKAGES
from workflow.status.activity import at_work
from workflow.status.disk import sizes
from workflow.status.estimates import Finished, similarity_key
from workflow.status.states import DONE, FAILED, RUNNING, STATES, State, reason, states

SHOWN = 20  # running and failed jobs are named one by one, up to this many


@dataclass(frozen=True)
class Status:
    """What is known of a study at a time.

    Attributes
    ----------
    counts
        Stage -> state -> jobs; stages without any are left out.
    cells, finished_cells
        Cells of the grid, and those that are trained and measured by all that is asked.
    job_hours, gpu_hours, gigabytes
        Used so far, failed attempts included; killed ones are not known.
    left_hours
        Job-hours that the jobs take which are not done, as far as finished ones tell.
    unknown
        Jobs not done of which nothing like them has finished.
    running
        Name and minutes of those that run, the longest first.
    failed
        Name, reason and log of those that failed.
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
    running: list[tuple[str, float]]
    failed: list[tuple[str, str, str]]

    def hours_to_go(self) -> float | None:
        """Hours until all is done if as many jobs run on as now; None if none runs."""
        if not self.running or not self.left_hours:
            return None
        return self.left_hours / len(self.running)


def status(study: Study) -> Status:
    """Look at a study's results folder; reads only."""
    planned = study.jobs()
    found = states(study, planned)
    bytes_of = sizes(study.results)
    counts = {stage: Counter() for stage in PACKAGES}  # type: dict[str, Counter[str]]
    known = Finished()
    attempts = [line for state in found.values() for line in state.usage]
    for card, job in planned.items():
        state = found[card]
        counts[job.package][state.name] += 1
        key = similarity_key(study, job.rule, job.output.wildcards)
        if state.name == DONE and state.usage and key:
            known.add(key, state.usage[-1], bytes_of.get(job.output, 0) / 1e6)
    left, unknown = _left(study, planned, found, known)
    return Status(
        study=study.name,
        title=study.config["title"],
        at_work=at_work(study),
        counts={stage: counts[stage] for stage in PACKAGES if counts[stage]},
        cells=len(study.cells),
        finished_cells=_finished_cells(study, planned, found),
        job_hours=sum(line["seconds"] for line in attempts) / 3600,
        gpu_hours=sum(line["seconds"] * line.get("gpus", 0) for line in attempts) / 3600,
        gigabytes=sum(bytes_of.get(job.output, 0) for job in planned.values()) / 1e9,
        left_hours=left,
        unknown=unknown,
        running=_running(study, planned, found),
        failed=[
            (name_of(study, job), reason(job), job.log)
            for card, job in planned.items()
            if found[card].name == FAILED
        ],
    )


def name_of(study: Study, job: Job) -> str:
    """A job in one word: its folder below the results."""
    return job.output.removeprefix(f"{study.results}/")


def as_text(shown: Status) -> str:
    """The status for a terminal."""
    lines = [headline(shown), ""]
    header = ("", *STATES, "all")
    rows = [
        (stage, *(str(count[state] or "·") for state in STATES), str(count.total()))
        for stage, count in shown.counts.items()
    ]
    widths = [max(len(row[number]) for row in (header, *rows)) for number in range(len(header))]
    for row in (header, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells))
    lines += ["", *facts(shown)]
    if shown.running:
        lines += ["", "Running:"]
        lines += [f"  {name}, {minutes:.0f} minutes" for name, minutes in shown.running[:SHOWN]]
        lines += _more(len(shown.running))
    if shown.failed:
        lines += ["", "Failed:"]
        lines += [f"  {name}: {why}\n    {log}" for name, why, log in shown.failed[:SHOWN]]
        lines += _more(len(shown.failed))
    return "\n".join(lines)


def headline(shown: Status) -> str:
    """The study, and how many of its cells are finished."""
    title = f" ({shown.title})" if shown.title else ""
    return f"{shown.study}{title}: {shown.finished_cells} of {shown.cells} cells finished"


def facts(shown: Status) -> list[str]:
    """What the table does not say, a sentence each."""
    said = [
        "Snakemake is at work on it."
        if shown.at_work
        else "No Snakemake is at work on it from this machine.",
        f"So far: {shown.job_hours:.1f} job-hours, {shown.gpu_hours:.1f} GPU-hours, "
        f"{shown.gigabytes:.1f} GB.",
    ]
    todo = sum(count.total() - count[DONE] for count in shown.counts.values())
    if not todo:
        return [*said, "Nothing is left to do."]
    measured = todo - shown.unknown
    if measured:
        text = f"To do: {shown.left_hours:.1f} job-hours for {measured} of {todo} jobs, by finished"
        text += " ones like them"
        hours = shown.hours_to_go()
        if hours is not None:
            text += f"; {duration(hours)} with {len(shown.running)} at a time"
        said.append(f"{text}.")
    if shown.unknown:
        said.append(f"Of {shown.unknown} jobs to do nothing like them has finished yet.")
    return said


def duration(hours: float) -> str:
    """Hours as a reader says them."""
    if hours < 1:
        return f"{max(1, round(hours * 60))} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def _left(
    study: Study, planned: Mapping[str, Job], found: Mapping[str, State], known: Finished
) -> tuple[float, int]:
    """Job-hours of what is not done, and the number of jobs for which they are not known."""
    left, unknown, now = 0.0, 0, time.time()
    for card, job in planned.items():
        state = found[card]
        if state.name == DONE:
            continue
        key = similarity_key(study, job.rule, job.output.wildcards)
        taken = known.like(key) if key else None
        if taken is None:
            unknown += 1
            continue
        begun = now - state.since if state.name == RUNNING and state.since else 0.0
        left += max(0.0, taken.seconds - begun)
    return left / 3600, unknown


def _running(
    study: Study, planned: Mapping[str, Job], found: Mapping[str, State]
) -> list[tuple[str, float]]:
    now = time.time()
    running = [
        (name_of(study, job), (now - (found[card].since or now)) / 60)
        for card, job in planned.items()
        if found[card].name == RUNNING
    ]
    return sorted(running, key=lambda item: -item[1])


def _finished_cells(study: Study, planned: Mapping[str, Job], found: Mapping[str, State]) -> int:
    """Cells that are trained and of which no evaluation is left to do."""
    unfinished = {
        tuple(job.output.wildcards[axis] for axis in AXES)
        for card, job in planned.items()
        if found[card].name != DONE and "seed" in job.output.wildcards
    }
    return sum(tuple(cell.wildcards.values()) not in unfinished for cell in study.cells)


def _more(number: int) -> list[str]:
    return [f"  … and {number - SHOWN} more"] if number > SHOWN else []
