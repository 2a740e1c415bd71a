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

from lexigraft.usage import DONE, read_usage
from workflow.stages import STAGES, Study
from workflow.stages.measuring import tasks_of_job


@dataclass(frozen=True)
class SimilarityKey:
    """Which jobs are comparable: `row` of names, of which the first `least` must be the same."""

    row: tuple[str, ...]
    least: int
    amount: float = 1.0  # of work; time grows with it


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

    def add(self, key: SimilarityKey | None, usage: Mapping[str, Any], megabytes: float) -> None:
        """Note one finished job, by the last line of its `usage.jsonl` and its folder's size."""
        if key is None:
            return
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

        Times are those of the key's amount of work; disk does not grow with it.
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


_CELLS = ("source", "language", "vocabulary", "strategy", "initializer")
_FITS = ("initializer", "source", "vocabulary", "language")
_VECTORS = ("auxiliary", "vocabulary", "source", "language")
_VOCABULARIES = ("vocabulary", "source", "language")
# Rules that do the same, what tells most of how long it takes, and how much must be the same.
_ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...] = (
    (("evaluate", "evaluate_checkpoint"), _CELLS, 2),
    (("measure_speed",), _CELLS, 2),
    (("score_predictions",), ("metric", "source", "language"), 2),
    (("initialize", "learn_initialization"), _FITS, 3),
    (("expand_vocabulary", "train_vocabulary", "take_vocabulary"), _VOCABULARIES, 2),
    (("train_fasttext", "train_glove", "read_word_vectors", "read_plm"), _VECTORS, 2),
)


def similarity_key(study: Study, rule: str, wildcards: Mapping[str, str]) -> SimilarityKey | None:
    """The key of a job by its rule and wildcards; None of a strategy that the config lacks."""
    if rule == "train":
        return _key_of_training(study.config, wildcards)
    if rule == "evaluate_checkpoint" and wildcards["strategy"] not in study.config["strategies"]:
        return None
    for rules, order, least in _ROWS:
        if rule in rules:
            row = (rules[0], *(wildcards[key] for key in order if key in wildcards))
            amount = 1.0
            if order == _CELLS:
                tasks = tasks_of_job(study, rule, wildcards)
                amount = max(1.0, sum(study.config["run_tasks"][task]["runs"] for task in tasks))
            return SimilarityKey(row, least, amount)
    return SimilarityKey((rule, *(wildcards[key] for key in sorted(wildcards))), 1)


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

    `sizes` are the bytes of their folders, see `workflow.status.results_folder.sizes`. The rule of
    a folder may be another of those with the same outputs.
    """
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
                found.add(similarity_key(study, *job), usage[-1], size / 1e6)
    return found
