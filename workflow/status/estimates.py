"""What jobs will take, from what finished ones of their kind took.

The similarity key of a job is a row of names, the most telling first: of a training the source
model, the strategy, the language, the vocabulary, the initializer. A job is taken to need the mean
of the finished ones that share most of that row with it. Where they share too little there is no
estimate: a model of seven billion parameters says nothing of one of seventy. Trainings of one
source model that differ in strategy are compared by the sentences that they read, evaluations by
the runs of tasks.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lexigraft.cells import cell_of
from lexigraft.usage import DONE, read_usage
from workflow.stages import STAGES, Study
from workflow.stages.measuring import runs_alone, tasks_of


@dataclass(frozen=True)
class SimilarityKey:
    """Which jobs are comparable: `row` of names, of which the first `least` must be the same."""

    row: tuple[str, ...]
    least: int
    amount: float = 1.0  # of work; time grows with it


@dataclass
class Taken:
    """Means over finished jobs, and how many there were."""

    jobs: int = 0
    seconds: float = 0.0
    gpu_seconds: float = 0.0
    megabytes: float = 0.0
    devices: set[str] = field(default_factory=set)

    def scaled(self, amount: float) -> "Taken":
        """The mean for a job of this amount of work; disk does not grow with it."""
        return Taken(
            self.jobs,
            self.seconds * amount,
            self.gpu_seconds * amount,
            self.megabytes,
            self.devices,
        )


class Finished:
    """What finished jobs took, by similarity."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], Taken] = defaultdict(Taken)

    def add(self, key: SimilarityKey, usage: Mapping[str, Any], megabytes: float) -> None:
        """Note one finished job.

        Parameters
        ----------
        usage
            The last line of its `usage.jsonl`.
        megabytes
            That its folder takes.
        """
        seconds = usage["seconds"] / key.amount
        for length in range(key.least, len(key.row) + 1):
            sums = self._sums[key.row[:length]]
            sums.jobs += 1
            sums.seconds += seconds
            sums.gpu_seconds += seconds * usage.get("gpus", 0)
            sums.megabytes += megabytes
            if "device" in usage:
                sums.devices.add(usage["device"])

    def like(self, key: SimilarityKey) -> Taken | None:
        """The mean of the most similar jobs; None if no finished job is near enough."""
        for length in range(len(key.row), key.least - 1, -1):
            sums = self._sums.get(key.row[:length])
            if sums:
                mean = Taken(
                    sums.jobs,
                    sums.seconds / sums.jobs,
                    sums.gpu_seconds / sums.jobs,
                    sums.megabytes / sums.jobs,
                    sums.devices,
                )
                return mean.scaled(key.amount)
        return None


def similarity_key(study: Study, rule: str, wildcards: Mapping[str, str]) -> SimilarityKey | None:
    """The key of a job by its rule and wildcards; None of a strategy that the config lacks."""
    if rule == "train":
        return _key_of_training(study.config, wildcards)
    for rules, order, least in _ROWS:
        if rule in rules:
            row = (rules[0], *(wildcards[key] for key in order if key in wildcards))
            return SimilarityKey(row, least, _runs(study, rule, wildcards))
    return SimilarityKey((rule, *(wildcards[key] for key in sorted(wildcards))), 1)


_CELLS = ("source", "language", "vocabulary", "strategy", "initializer")
# Rules that do the same, what tells most of how long it takes, and how much must be the same.
_ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...] = (
    (("evaluate", "evaluate_checkpoint"), _CELLS, 2),
    (("measure_speed",), _CELLS, 2),
    (("score_predictions",), ("metric", "source", "language"), 2),
    (
        ("initialize", "learn_initialization"),
        ("initializer", "source", "vocabulary", "language"),
        3,
    ),
    (
        ("expand_vocabulary", "train_vocabulary", "take_vocabulary"),
        ("vocabulary", "source", "language"),
        2,
    ),
    (
        ("train_fasttext", "train_glove", "read_word_vectors", "read_plm"),
        ("auxiliary", "vocabulary", "source", "language"),
        2,
    ),
)


def _runs(study: Study, rule: str, wildcards: Mapping[str, str]) -> float:
    """Runs of tasks that an evaluation makes; one for other rules."""
    if rule not in ("evaluate", "evaluate_checkpoint", "measure_speed"):
        return 1.0
    tasks = [
        task
        for task in tasks_of(study, cell_of(wildcards))
        if runs_alone(study, task) == (rule == "measure_speed")
    ]
    return max(1.0, sum(study.config["run_tasks"][task]["runs"] for task in tasks))


def _key_of_training(config: Mapping[str, Any], named: Mapping[str, str]) -> SimilarityKey | None:
    """Of strategies that do not train nothing is to be learned for those that do."""
    strategy = config["strategies"].get(named["strategy"])
    texts = config["languages"].get(named["language"])
    if strategy is None or texts is None:
        return None
    amount, trained = 1.0, "untrained"
    if strategy["phases"]:
        sentences = strategy["sentences"] or texts["train_sentences"] or 1
        amount, trained = strategy["epochs"] * sentences, "trained"
    order = ("strategy", "language", "vocabulary", "initializer")
    row = ("train", named["source"], trained, *(named[key] for key in order))
    return SimilarityKey(row, 3, amount)


def finished_in(study: Study, sizes: Mapping[str, int]) -> Finished:
    """What all finished jobs below the results folder took, those of other studies too.

    Parameters
    ----------
    sizes
        Folder -> bytes, see `workflow.status.disk.sizes`.
    """
    found = Finished()
    for folder, size in sizes.items():
        job = _job_of(folder.removeprefix(f"{study.results}/"))
        usage = [line for line in read_usage(folder) if line["ended"] == DONE] if job else []
        key = similarity_key(study, *job) if job and usage else None
        if key:
            found.add(key, usage[-1], size / 1e6)
    return found


def _job_of(folder: str) -> tuple[str, dict[str, str]] | None:
    """The rule, or one of similar jobs, that made a folder below the results, and its wildcards."""
    for rule, stage in STAGES.items():
        wildcards = stage.wildcards(folder)
        if wildcards is not None and rule != "fetch_package":
            return rule, wildcards
    return None
