"""What jobs will take, from what finished ones of their kind took.

The similarity key of a job is a row of names, the most telling first: of a training the source
model, the strategy, the language, the vocabulary, the initializer. A job is taken to need the mean
of the finished ones that share most of that row with it, relative to what the cost model
(`workflow.stages.cost_model`) says of each. So another strategy or more runs of tasks take
more, and so does a slower device. Where they share too little there is no such estimate; but what
all jobs of a rule took on a device calibrates the cost model there (`Finished.factor`).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from lexigraft.machine import known_device
from lexigraft.usage import DONE, read_usage
from workflow.stages import STAGES, Resources, Study
from workflow.stages.cost_model import DEVICE, CostModel, Seconds, chosen_device
from workflow.stages.measuring import tasks_of_job, tasks_of_metric

CPU = "CPU"  # the device of jobs without a GPU


@dataclass(frozen=True)
class SimilarityKey:
    """Which jobs are comparable: `row` of names, of which the first `least` must be the same.

    `amount` is what the cost model says that the job takes on `device`, which is empty for jobs
    that it does not cover: 1 for each of them.
    """

    row: tuple[str, ...]
    least: int
    amount: float = 1.0
    device: str = ""


@dataclass
class Taken:
    """Sums or means over finished jobs, and how many there were."""

    jobs: int = 0
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    megabytes: float = 0.0
    devices: set[str] = field(default_factory=set)


class Finished:
    """What finished jobs took, by similarity; a job without a key is similar to none."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], Taken] = defaultdict(Taken)
        # Name of the kind of job, device -> seconds, and those of the cost model.
        self._on_device: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.devices: Counter[str] = Counter()  # that jobs with a cost model ran on

    def add(self, key: SimilarityKey | None, usage: Mapping[str, Any], megabytes: float) -> None:
        """Note one finished job, by the last line of its `usage.jsonl` and its folder's size."""
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
        """The mean of the most similar jobs; None if no finished job is near enough.

        Times are of the key's amount of work, on its device; disk does not grow with it.
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
        """How many times what the cost model says the jobs of a rule took on a device."""
        seconds, modelled = self._on_device.get((key.row[0], key.device), (0.0, 0.0))
        return seconds / modelled if modelled else None

    def planning_device(self, study: Study) -> str:
        """The device to plan for: the user's choice, or else that of most finished jobs."""
        used = self.devices.most_common(1)
        return chosen_device(study.config) or (used[0][0] if used else DEVICE)


def device_of(usage: Mapping[str, Any]) -> str:
    """The device of a line of `usage.jsonl`, as the cost model calls it."""
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
# Rules that do the same, what tells most of how long it takes, and how much must be the same.
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
    """What a job asks of a cluster; nothing where Snakemake runs it itself."""
    of_rule = STAGES[rule].resources
    return of_rule(study, **wildcards) if of_rule else Resources()


def work_of(model: CostModel, rule: str, wildcards: Mapping[str, str]) -> Seconds:
    """What the cost model says of a job: kind of work -> seconds; {} of rules without a model."""
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
    """The key of a job by its rule and wildcards; None of names that the config lacks."""
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
        row = ("untrained", *row[1:])  # of which nothing is to be learned for those that train
    work = work_of(model, rule, wildcards)
    # Of other studies: not known what it did.
    return SimilarityKey(row, least, sum(work.values()), model.device) if work else None


def finished_in(study: Study, sizes: Mapping[str, int]) -> Finished:
    """What all finished jobs below the results folder took, those of other studies too.

    `sizes` are the bytes of their folders, see `workflow.status.results_folder.sizes`. The rule of
    a folder may be another of those with the same outputs.
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
