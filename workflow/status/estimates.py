"""Estimates of the time of jobs from the times of similar finished jobs.

The similarity key of a job is a row of names, the most important first: for a training, the source
model, strategy, language, vocabulary and initializer. The estimate is the mean over the finished
jobs that share the longest beginning of that row, relative to the estimate of the cost model
(`workflow.cost`) for each. It therefore scales with the strategy, the number of runs
of tasks, and the device. If too few names are shared, there is no such estimate; but the times of
all jobs of a rule on a device calibrate the cost model there (`Finished.factor`).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from lexigraft.machine import known_device
from lexigraft.usage import DONE, read_usage
from workflow.cost import DEVICE, CostModel, Seconds, chosen_device
from workflow.stages import STAGES, Resources, Study
from workflow.stages.measuring import tasks_of_job, tasks_of_metric

CPU = "CPU"  # the device of jobs without a GPU


@dataclass(frozen=True)
class SimilarityKey:
    """Which jobs are comparable: a `row` of names, of which the first `least` must be equal.

    `amount` is the cost model's estimate of the job's time on `device`; for jobs that it does not
    cover, it is 1 and `device` is empty.
    """

    row: tuple[str, ...]
    least: int
    amount: float = 1.0
    device: str = ""


@dataclass
class Taken:
    """Sums or means over finished jobs, and their number."""

    jobs: int = 0
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    megabytes: float = 0.0
    devices: set[str] = field(default_factory=set)


class Finished:
    """Times and sizes of finished jobs by similarity; a job without a key is similar to none."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], Taken] = defaultdict(Taken)
        # Kind of job, device -> measured seconds, and those of the cost model.
        self._on_device: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.devices: Counter[str] = Counter()  # of jobs that the cost model covers

    def add(self, key: SimilarityKey | None, usage: Mapping[str, Any], megabytes: float) -> None:
        """Add a finished job, with the last line of its `usage.jsonl` and its folder's size."""
        if key is None:
            return
        if key.device:
            self.devices[key.device] += 1
            both = self._on_device[key.row[0], key.device]
            both[0] += usage["seconds"]
            both[1] += key.amount
        for length in range(key.least, len(key.row) + 1):
            sums, seconds = self._sums[key.row[:length]], usage["seconds"] / key.amount
            sums.jobs += 1
            sums.seconds += seconds
            sums.gpu_seconds += seconds * usage.get("gpus", 0)
            sums.megabytes += megabytes
            if "device" in usage:
                sums.devices.add(usage["device"])

    def like(self, key: SimilarityKey | None) -> Taken | None:
        """The mean of the most similar jobs; None if no finished job is similar enough.

        Times are scaled to the key's amount of work on its device; disk space is not scaled.
        """
        if key is None:
            return None
        for length in range(len(key.row), key.least - 1, -1):
            if sums := self._sums.get(key.row[:length]):
                return Taken(
                    sums.jobs,
                    sums.seconds / sums.jobs * key.amount,
                    sums.gpu_seconds / sums.jobs * key.amount,
                    sums.megabytes / sums.jobs,
                    sums.devices,
                )
        return None

    def factor(self, key: SimilarityKey) -> float | None:
        """The ratio of measured to modelled time of the jobs of a rule on a device."""
        seconds, modelled = self._on_device.get((key.row[0], key.device), (0.0, 0.0))
        return seconds / modelled if modelled else None

    def planning_device(self, study: Study) -> str:
        """The device to plan for: the user's choice, otherwise that of most finished jobs."""
        used = self.devices.most_common(1)
        return chosen_device(study.config) or (used[0][0] if used else DEVICE)


def device_of(usage: Mapping[str, Any]) -> str:
    """The device of a line of `usage.jsonl`, under its name in the cost model."""
    name = usage.get("device", CPU)
    return known_device(name) or name


MODELLED = ("train", "evaluate", "evaluate_checkpoint", "measure_speed", "score_predictions")
_REGISTRIES = {
    "source": "sources",
    "language": "languages",
    "strategy": "strategies",
    "metric": "metrics",
}
_CELLS = ("source", "language", "vocabulary", "strategy", "initializer")
_FITS = ("initializer", "source", "vocabulary", "language")
_VECTORS = ("auxiliary", "vocabulary", "source", "language")
_VOCABULARIES = ("vocabulary", "source", "language")
# Equivalent rules, the names that determine the time of a job in order of importance, and how many
# of these (with the rule) must be equal.
_ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...] = (
    (("train",), ("source", "strategy", "language", "vocabulary", "initializer"), 2),
    (("evaluate", "evaluate_checkpoint"), _CELLS, 2),
    (("measure_speed",), _CELLS, 2),
    (("score_predictions",), ("metric", "source", "language"), 2),
    (("initialize", "learn_initialization"), _FITS, 3),
    (("expand_vocabulary", "train_vocabulary", "take_vocabulary"), _VOCABULARIES, 2),
    (
        ("train_fasttext", "train_glove", "read_word_vectors", "read_plm", "encode_tokens"),
        _VECTORS,
        2,
    ),
)


def resources_of(study: Study, rule: str, wildcards: Mapping[str, str]) -> Resources:
    """The resources that a job requests from a cluster; none for local jobs."""
    of_rule = STAGES[rule].resources
    return of_rule(study, **wildcards) if of_rule else Resources()


def work_of(model: CostModel, rule: str, wildcards: Mapping[str, str]) -> Seconds:
    """The cost model's estimate for a job: kind of work -> seconds; {} for rules it lacks."""
    match rule:
        case "train":
            return model.training(wildcards, resources_of(model.study, rule, wildcards).gpus)
        case "evaluate" | "evaluate_checkpoint" | "measure_speed":
            tasks = tasks_of_job(model.study, rule, wildcards)
            return model.evaluation(wildcards, tasks) if tasks else {}
        case "score_predictions":
            scored = tasks_of_metric(model.study, **wildcards)
            return model.metric(wildcards["metric"], scored) if scored else {}
        case "answer_samples":
            return model.answers(**wildcards)
    return {}


def similarity_key(
    model: CostModel, rule: str, wildcards: Mapping[str, str]
) -> SimilarityKey | None:
    """The key of a job by its rule and wildcards; None if the config lacks one of the names."""
    named = {_REGISTRIES[axis]: name for axis, name in wildcards.items() if axis in _REGISTRIES}
    if any(name not in model.config[registry] for registry, name in named.items()):
        return None
    row, least = (rule, *(wildcards[key] for key in sorted(wildcards))), 1
    for rules, order, shared in _ROWS:
        if rule in rules:
            row = (rules[0], *(wildcards[key] for key in order if key in wildcards))
            least = shared
    if rule not in MODELLED:
        return SimilarityKey(row, least)
    if rule == "train" and not model.config["strategies"][wildcards["strategy"]]["phases"]:
        row = ("untrained", *row[1:])  # not comparable with jobs that train
    work = work_of(model, rule, wildcards)
    # Without work, it is a job of another study with unknown tasks.
    return SimilarityKey(row, least, sum(work.values()), model.device) if work else None


def finished_in(study: Study, sizes: Mapping[str, int]) -> Finished:
    """Time and disk space of all finished jobs below the results folder, of all studies.

    `sizes` are the bytes of their folders, see `workflow.status.results_folder.sizes`. If several
    rules have the same outputs, the first one is assumed.
    """
    models = cache(partial(CostModel, study, reads_cards=True))
    found = Finished()
    for folder, size in sizes.items():
        place = folder.removeprefix(f"{study.results}/")
        jobs = (
            (rule, wildcards)
            for rule, stage in STAGES.items()
            if rule != "fetch_package" and (wildcards := stage.wildcards(place)) is not None
        )
        if job := next(jobs, None):
            usage = [line for line in read_usage(folder) if line["ended"] == DONE]
            if usage:
                key = similarity_key(models(device_of(usage[-1])), *job)
                found.add(key, usage[-1], size / 1e6)
    return found
