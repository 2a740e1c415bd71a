"""What a study will take, before it runs: jobs, GPU-hours, hours of jobs, and disk, by rule.

Which jobs run follows from what lies on disk (`workflow.status.states`). What each takes is the
mean of finished ones like it (`workflow.status.estimates`). Where none has finished, its time limit
is an upper bound, and a cell's disk follows from its strategy (`workflow.status.cell_size`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workflow.stages import STAGES, Job, Resources, Study
from workflow.status.cell_size import cell_megabytes
from workflow.status.estimates import Finished, similarity_key
from workflow.status.states import DONE, states


@dataclass
class Cost:
    """Sums over jobs.

    Attributes
    ----------
    measured
        Jobs that are estimated by finished ones.
    job_hours, gpu_hours
        Of these.
    most_job_hours, most_gpu_hours
        Of the others, by their time limits.
    gigabytes
        Of all jobs for which it is known.
    unsized
        Jobs for which it is not, though they may store tensors.
    devices
        On which the finished ones ran.
    """

    jobs: int = 0
    measured: int = 0
    job_hours: float = 0.0
    gpu_hours: float = 0.0
    most_job_hours: float = 0.0
    most_gpu_hours: float = 0.0
    gigabytes: float = 0.0
    unsized: int = 0
    devices: set[str] = field(default_factory=set)

    def add(self, other: "Cost") -> None:
        """Take in the sums of another."""
        for name, value in vars(other).items():
            if isinstance(value, set):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


def planned(study: Study) -> list[Job]:
    """The jobs that are to be run, what is complete left out."""
    jobs = study.jobs()
    found = states(study, jobs)
    return [job for card, job in jobs.items() if found[card].name != DONE]


def costs(study: Study, planned: Iterable[Job], known: Finished) -> dict[str, Cost]:
    """Rule -> the sums over its jobs, in the order of the first job of each."""
    found: dict[str, Cost] = defaultdict(Cost)
    for job in planned:
        found[job.rule].add(_cost(study, job, known))
    return dict(found)


def as_text(title: str, by_rule: Mapping[str, Cost]) -> str:
    """The summary for a terminal."""
    total = Cost()
    for cost in by_rule.values():
        total.add(cost)
    if not total.jobs:
        return f"{title}\n\nNothing to be done."
    rows: list[tuple[str, ...]] = [("", "jobs", "known", "GPU-hours", "job-hours", "GB")]
    rows += [_row(rule, cost) for rule, cost in (*by_rule.items(), ("all", total))]
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = [title, ""]
    for name, *cells in rows:
        shown = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *shown]).rstrip())
    return "\n".join([*lines, "", *_notes(total)])


def _cost(study: Study, job: Job, known: Finished) -> Cost:
    wildcards = job.output.wildcards
    key = similarity_key(study, job.rule, wildcards)
    taken = known.like(key) if key else None
    if taken:
        return Cost(
            jobs=1,
            measured=1,
            job_hours=taken.seconds / 3600,
            gpu_hours=taken.gpu_seconds / 3600,
            gigabytes=taken.megabytes / 1000,
            devices=taken.devices,
        )
    size = cell_megabytes(study, wildcards) if job.rule == "train" else 0.0
    of_rule = STAGES[job.rule].resources
    resources = of_rule(study, **wildcards) if of_rule else Resources()
    hours = (resources.minutes or 0) / 60
    return Cost(
        jobs=1,
        most_job_hours=hours,
        most_gpu_hours=hours * resources.gpus,
        gigabytes=(size or 0) / 1000,
        unsized=int(size is None),
    )


def _row(name: str, cost: Cost) -> tuple[str, ...]:
    return (
        name,
        str(cost.jobs),
        str(cost.measured or "·"),
        _sum(cost.gpu_hours, cost.most_gpu_hours),
        _sum(cost.job_hours, cost.most_job_hours),
        "?" if cost.unsized and not cost.gigabytes else _number(cost.gigabytes),
    )


def _sum(measured: float, most: float) -> str:
    """Estimated hours; with those of jobs that only have a limit, an upper bound."""
    return f"≤ {_number(measured + most)}" if most else _number(measured)


def _number(value: float) -> str:
    if not value:
        return "·"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _notes(total: Cost) -> list[str]:
    notes = []
    if total.measured:
        devices = f", on {', '.join(sorted(total.devices))}" if total.devices else ""
        notes.append(
            f"known: estimated as the mean of finished jobs of their kind{devices}. Of these "
            f"{total.measured} jobs: {_number(total.gpu_hours)} GPU-hours, "
            f"{_number(total.job_hours)} job-hours."
        )
    if total.most_job_hours:
        notes.append(
            f"≤: of {total.jobs - total.measured} jobs nothing like them has finished; they count "
            "with the time limit that they ask for, if they do."
        )
    if total.unsized:
        notes.append(
            f"GB: without {total.unsized} cells whose source model is not prepared; "
            "`snakemake --until prepare_source` prepares them."
        )
    return notes
