"""The estimated cost of a study before it runs: jobs, GPU-hours, job-hours and disk, by rule.

The jobs to run are determined from the files on disk (`workflow.status.states`). The cost of each
is the mean of similar finished jobs (`workflow.status.estimates`). If there are none, the cost
model estimates it (`workflow.cost`), multiplied by the ratio of measured to estimated
time on this device. For jobs that the model does not cover, the time limit is an upper bound.

A cell stores its changed tensors in the precision of its source model. They are determined by the
strategy and the numbers in the source's card; LoRA's factors, about a hundredth of the parameters,
are ignored.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workflow.cost import CostModel
from workflow.stages import Job, Study
from workflow.stages.cells import way
from workflow.status.estimates import CPU, Finished, resources_of, similarity_key, work_of
from workflow.status.states import DONE, states
from workflow.status.summary import aligned

UNCERTAINTY = 2  # a modelled job takes up to this many times its estimate


@dataclass
class Cost:
    """Sums over jobs.

    `measured` jobs are estimated from finished ones, which ran on `devices`; `modelled` ones by the
    cost model, `calibrated` ones of these with finished jobs of their rule. `job_hours` and
    `gpu_hours` are those of both, `unsure_hours` the GPU-hours of modelled jobs without
    calibration, and `work` the GPU-hours by kind of work. `most_job_hours` and `most_gpu_hours` are
    the time limits of all other jobs. `gigabytes` is the sum over jobs with a known size; the size
    of `unsized` jobs, which may store tensors, is unknown.
    """

    jobs: int = 0
    measured: int = 0
    modelled: int = 0
    calibrated: int = 0
    job_hours: float = 0.0
    gpu_hours: float = 0.0
    unsure_hours: float = 0.0
    most_job_hours: float = 0.0
    most_gpu_hours: float = 0.0
    gigabytes: float = 0.0
    unsized: int = 0
    devices: set[str] = field(default_factory=set)
    work: dict[str, float] = field(default_factory=dict)

    def add(self, other: "Cost") -> None:
        """Add the sums of another."""
        for kind, hours in other.work.items():
            self.work[kind] = self.work.get(kind, 0.0) + hours
        self.devices |= other.devices
        for name, value in vars(other).items():
            if not isinstance(value, set | dict):
                setattr(self, name, getattr(self, name) + value)


def planned(study: Study) -> list[Job]:
    """The jobs to run, without complete ones."""
    jobs = study.jobs()
    found = states(study, jobs)
    return [job for card, job in jobs.items() if found[card].name != DONE]


def costs(study: Study, planned: Iterable[Job], known: Finished) -> dict[str, Cost]:
    """Rule -> the sums over its jobs, in the order of the first job of each."""
    model = CostModel(study, known.planning_device(study), reads_cards=True)
    found: dict[str, Cost] = defaultdict(Cost)
    for job in planned:
        found[job.rule].add(_cost(model, job, known))
    return dict(found)


def modelled(study: Study, device: str) -> Cost:
    """The cost of a whole study by the cost model and time limits alone, whatever has run here."""
    model, known, found = CostModel(study, device), Finished(), Cost()
    for job in study.jobs().values():
        found.add(_cost(model, job, known))
    return found


def as_text(title: str, by_rule: Mapping[str, Cost], device: str) -> str:
    """The summary for a terminal; `device` is the one for which the costs were estimated."""
    total = Cost()
    for cost in by_rule.values():
        total.add(cost)
    if not total.jobs:
        return f"{title}\n\nNothing to do."
    rows: list[tuple[str, ...]] = [("", "jobs", "known", "GPU-hours", "job-hours", "GB")]
    for rule, cost in (*by_rule.items(), ("all", total)):
        rows.append(
            (
                rule,
                str(cost.jobs),
                str(cost.measured or "·"),
                _sum(cost.gpu_hours, cost.most_gpu_hours, cost.modelled),
                _sum(cost.job_hours, cost.most_job_hours, cost.modelled),
                "?" if cost.unsized and not cost.gigabytes else _number(cost.gigabytes),
            )
        )
    return "\n".join([title, "", *aligned(rows), "", *_notes(total, device)])


def _cost(model: CostModel, job: Job, known: Finished) -> Cost:
    study, wildcards = model.study, job.output.wildcards
    key = similarity_key(model, job.rule, wildcards)
    work = work_of(model, job.rule, wildcards)
    if taken := known.like(key):
        gpu_hours = taken.gpu_seconds / 3600
        return Cost(
            jobs=1,
            measured=1,
            job_hours=taken.seconds / 3600,
            gpu_hours=gpu_hours,
            gigabytes=taken.megabytes / 1000,
            devices=taken.devices,
            work=_shared(gpu_hours, work),
        )
    size = _cell_megabytes(study, wildcards) if job.rule == "train" else 0.0
    resources = resources_of(study, job.rule, wildcards)
    gpus = 0 if model.device == CPU else resources.gpus
    found = Cost(jobs=1, gigabytes=(size or 0) / 1000, unsized=int(size is None))
    if work and model.knows(wildcards):
        factor = known.factor(key) if key else None
        found.modelled, found.calibrated = 1, int(factor is not None)
        found.job_hours = (factor or 1.0) * sum(work.values()) / 3600
        found.gpu_hours = gpus * found.job_hours
        found.unsure_hours = found.gpu_hours if factor is None else 0.0
        found.work = _shared(found.gpu_hours, work)
    else:
        found.most_job_hours = resources.minutes / 60
        found.most_gpu_hours = gpus * found.most_job_hours
    return found


def _shared(hours: float, work: Mapping[str, float]) -> dict[str, float]:
    """GPU-hours of a job by kind of work, divided in the proportions of the cost model."""
    whole = sum(work.values())
    return {kind: hours * seconds / whole for kind, seconds in work.items() if hours and seconds}


def _sum(estimated: float, most: float, modelled: int) -> str:
    """Estimated hours; an upper bound if some jobs only have a time limit."""
    mark = "≤ " if most else "≈ " if modelled and estimated else ""
    return mark + _number(estimated + most)


def _number(value: float) -> str:
    if not value:
        return "·"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _notes(total: Cost, device: str) -> list[str]:
    notes = []
    if total.measured:
        devices = f", on {', '.join(sorted(total.devices))}" if total.devices else ""
        notes.append(
            f"known: {total.measured} jobs are estimated by the mean of similar finished "
            f"jobs{devices}."
        )
    if total.modelled:
        most = total.gpu_hours + (UNCERTAINTY - 1) * total.unsure_hours
        notes.append(
            f"≈: {total.modelled} jobs are estimated by the cost model for {device} (set "
            f"LEXIGRAFT_DEVICE for another device). {total.calibrated} of these estimates are "
            "calibrated with finished jobs on this device; the others may take up to "
            f"{UNCERTAINTY} times as long: at most {_number(most)} GPU-hours."
        )
    if total.work:
        shares = sorted(total.work.items(), key=lambda item: -item[1])
        parts = ", ".join(f"{kind} {_number(hours)}" for kind, hours in shares)
        notes.append(f"GPU-hours by work: {parts}.")
    if total.most_job_hours:
        others = total.jobs - total.measured - total.modelled
        notes.append(
            f"≤: {others} jobs have no similar finished job; they are counted with the time limit "
            "that they request, if any."
        )
    if total.unsized:
        notes.append(
            f"GB: without {total.unsized} cells whose source model is not prepared; run "
            "`snakemake --until prepare_source` to prepare it."
        )
    return notes


# ---- disk space of a trained cell, before a similar one was trained ----------------------------


def _cell_megabytes(study: Study, wildcards: Mapping[str, str]) -> float | None:
    """Megabytes of a cell's changed tensors; None before its source model is prepared."""
    source = study.output("prepare_source", source=wildcards["source"])
    try:
        card = json.loads(Path(source.card).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    strategy = study.config["strategies"][wildcards["strategy"]]
    checkpoints = strategy["checkpoints"] if strategy["phases"] else 1
    rows = new_rows = None
    if entry := study.config["vocabularies"].get(wildcards["vocabulary"]):
        rows = entry.get("size", card["rows"])
        if way(entry) == "expand" and "prune" not in entry:
            rows = card["rows"] + entry["new_tokens"]
        # In a vocabulary that replaces the source's, nearly all rows are new.
        new_rows = entry.get("new_tokens", 0) if way(entry) == "expand" else rows
    files = card["files"] | card.get("model_files", {})
    weights = sum(own["bytes"] for name, own in files.items() if name.endswith(".safetensors"))
    changed = changed_parameters(card, strategy, rows, new_rows)
    return changed * (weights / card["parameters"]) * checkpoints / 1e6


def changed_parameters(
    card: Mapping[str, Any], strategy: Mapping[str, Any], rows: int | None, new_rows: int | None
) -> float:
    """The number of parameters that a cell stores.

    `card` is the source's: `parameters`, `layers`, `hidden_size`, `rows` and `tied`. `rows` is the
    number of rows of the new matrices, of which `new_rows` are not the source's; both are None for
    the source's own vocabulary.
    """
    matrices = 1 if card["tied"] else 2
    old = matrices * card["rows"] * card["hidden_size"]
    new = matrices * (rows or card["rows"]) * card["hidden_size"]
    if not strategy["phases"]:
        return matrices * (new_rows or 0) * card["hidden_size"]
    trained = [part for phase in strategy["phases"] for part in phase["trainable"]]
    names = {part for part in trained if isinstance(part, str)}
    chosen = [part["layers"] for part in trained if not isinstance(part, str)]
    layers = {number % card["layers"] for numbers in chosen for number in numbers}
    if "all" in names:
        return card["parameters"] - old + new
    # A trained cell stores matrices with new rows completely.
    whole = rows is not None or names & {"embeddings", "head", "new-rows", "outside-layers"}
    return (new if whole else 0) + len(layers) * (card["parameters"] - old) / card["layers"]
