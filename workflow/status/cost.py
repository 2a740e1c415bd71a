"""What a study will take, before it runs: jobs, GPU-hours, hours of jobs, and disk, by rule.

Which jobs run follows from what lies on disk (`workflow.status.states`). What each takes is the
mean of finished ones like it (`workflow.status.estimates`). Where none has finished, its time limit
is an upper bound, and a cell's disk follows from its strategy: a cell stores its changed tensors in
the precision of its source model. What they are follows from the strategy and from the numbers in
the source's card; LoRA's factors, of a hundredth of the parameters, are left out.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow.stages import STAGES, Job, Resources, Study
from workflow.stages.cells import way
from workflow.status.estimates import Finished, similarity_key
from workflow.status.states import DONE, states
from workflow.status.summary import aligned


@dataclass
class Cost:
    """Sums over jobs.

    `measured` jobs are estimated by finished ones, which ran on `devices`: `job_hours` and
    `gpu_hours`. `most_job_hours` and `most_gpu_hours` are of the others, by their time limits.
    `gigabytes` are of all jobs for which they are known; for `unsized` ones they are not, though
    they may store tensors.
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
            own = getattr(self, name)
            setattr(self, name, own | value if isinstance(value, set) else own + value)


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
    for rule, cost in (*by_rule.items(), ("all", total)):
        rows.append(
            (
                rule,
                str(cost.jobs),
                str(cost.measured or "·"),
                _sum(cost.gpu_hours, cost.most_gpu_hours),
                _sum(cost.job_hours, cost.most_job_hours),
                "?" if cost.unsized and not cost.gigabytes else _number(cost.gigabytes),
            )
        )
    return "\n".join([title, "", *aligned(rows), "", *_notes(total)])


def _cost(study: Study, job: Job, known: Finished) -> Cost:
    wildcards = job.output.wildcards
    if taken := known.like(similarity_key(study, job.rule, wildcards)):
        return Cost(
            jobs=1,
            measured=1,
            job_hours=taken.seconds / 3600,
            gpu_hours=taken.gpu_seconds / 3600,
            gigabytes=taken.megabytes / 1000,
            devices=taken.devices,
        )
    size = _cell_megabytes(study, wildcards) if job.rule == "train" else 0.0
    of_rule = STAGES[job.rule].resources
    resources = of_rule(study, **wildcards) if of_rule else Resources()
    hours = resources.minutes / 60
    return Cost(
        jobs=1,
        most_job_hours=hours,
        most_gpu_hours=hours * resources.gpus,
        gigabytes=(size or 0) / 1000,
        unsized=int(size is None),
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


# ---- disk that a trained cell takes, before any like it was trained ----------------------------


def _cell_megabytes(study: Study, wildcards: Mapping[str, str]) -> float | None:
    """Megabytes of a cell's changed tensors; None before its source model is prepared."""
    source = study.output("prepare_source", source=wildcards["source"])
    try:
        card = json.loads(Path(source.card).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    strategy = study.config["strategies"][wildcards["strategy"]]
    checkpoints = strategy["checkpoints"] if strategy["phases"] else 1
    rows = None
    if entry := study.config["vocabularies"].get(wildcards["vocabulary"]):
        expanded = way(entry) == "expand"
        rows = card["rows"] + entry["new_tokens"] if expanded else entry.get("size", card["rows"])
    files = card["files"] | card.get("model_files", {})
    weights = sum(own["bytes"] for name, own in files.items() if name.endswith(".safetensors"))
    changed = changed_parameters(card, strategy, rows)
    return changed * (weights / card["parameters"]) * checkpoints / 1e6


def changed_parameters(
    card: Mapping[str, Any], strategy: Mapping[str, Any], rows: int | None
) -> float:
    """Parameters that a cell stores.

    `card` is the source's: `parameters`, `layers`, `hidden_size`, `rows` and `tied`. `rows` are of
    the new matrices; None for the source's own vocabulary.
    """
    matrices = 1 if card["tied"] else 2
    old = matrices * card["rows"] * card["hidden_size"]
    new = matrices * (rows or card["rows"]) * card["hidden_size"]
    trained = [part for phase in strategy["phases"] for part in phase["trainable"]]
    names = {part for part in trained if isinstance(part, str)}
    chosen = [part["layers"] for part in trained if not isinstance(part, str)]
    layers = {number % card["layers"] for numbers in chosen for number in numbers}
    if "all" in names:
        return card["parameters"] - old + new
    # Matrices with new rows are stored as a whole, trained or not.
    whole = rows is not None or names & {"embeddings", "head", "new-rows", "outside-layers"}
    return (new if whole else 0) + len(layers) * (card["parameters"] - old) / card["layers"]
