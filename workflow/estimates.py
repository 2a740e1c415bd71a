"""What jobs will take, from what finished ones of their kind took.

The kin of a job is a row of names, the most telling first: of a training the source model, the
strategy, the language, the vocabulary, the initializer. A job is taken to need the mean of the
finished ones that share most of that row with it, and nothing is said where they share too little:
a model of seven billion parameters tells nothing of one of seventy. Trainings of one source model
that differ in strategy are compared by the sentences that they read.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lexigraft.usage import DONE, read_usage
from workflow.cells import FIT, NAME


@dataclass(frozen=True)
class Kin:
    """To which jobs one compares: `row` of names, of which the first `least` must be the same."""

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
    """What finished jobs took, by their kin."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], Taken] = defaultdict(Taken)

    def add(self, kin: Kin, usage: Mapping[str, Any], megabytes: float) -> None:
        """Note one finished job.

        Parameters
        ----------
        usage
            The last line of its `usage.jsonl`.
        megabytes
            That its folder takes.
        """
        seconds = usage["seconds"] / kin.amount
        for length in range(kin.least, len(kin.row) + 1):
            sums = self._sums[kin.row[:length]]
            sums.jobs += 1
            sums.seconds += seconds
            sums.gpu_seconds += seconds * usage.get("gpus", 0)
            sums.megabytes += megabytes
            if "device" in usage:
                sums.devices.add(usage["device"])

    def like(self, kin: Kin) -> Taken | None:
        """The mean of the nearest kin; None if no finished job is near enough."""
        for length in range(len(kin.row), kin.least - 1, -1):
            sums = self._sums.get(kin.row[:length])
            if sums:
                mean = Taken(
                    sums.jobs,
                    sums.seconds / sums.jobs,
                    sums.gpu_seconds / sums.jobs,
                    sums.megabytes / sums.jobs,
                    sums.devices,
                )
                return mean.scaled(kin.amount)
        return None


def kin_of(config: Mapping[str, Any], rule: str, wildcards: Mapping[str, str]) -> Kin | None:
    """The kin of a job by its rule and wildcards; None of a strategy that the config lacks."""
    if rule == "train":
        return _kin_of_training(config, wildcards)
    for rules, order, least in _ROWS:
        if rule in rules:
            return Kin((rules[0], *(wildcards[key] for key in order if key in wildcards)), least)
    return Kin((rule, *(wildcards[key] for key in sorted(wildcards))), 1)


# Rules that do the same, what tells most of how long it takes, and how much must be the same.
_ROWS: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...] = (
    (
        ("evaluate", "evaluate_checkpoint"),
        ("source", "task", "language", "vocabulary", "strategy", "initializer"),
        3,
    ),
    (("score_predictions",), ("metric", "task", "source", "language"), 2),
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


def _kin_of_training(config: Mapping[str, Any], named: Mapping[str, str]) -> Kin | None:
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
    return Kin(("train", named["source"], trained, *(named[key] for key in order)), 3, amount)


def finished_in(config: Mapping[str, Any], sizes: Mapping[str, int]) -> Finished:
    """What all finished jobs below the results folder took, those of other studies too.

    Parameters
    ----------
    sizes
        Folder -> bytes, see `workflow.disk.sizes`.
    """
    found = Finished()
    for folder, size in sizes.items():
        made = _made(folder.removeprefix(f"{config['results'].rstrip('/')}/"))
        usage = [line for line in read_usage(folder) if line["ended"] == DONE] if made else []
        kin = kin_of(config, *made) if made and usage else None
        if kin:
            found.add(kin, usage[-1], size / 1e6)
    return found


_VOCABULARY = rf"(?P<source>{NAME})/(?P<language>{NAME})/(?P<vocabulary>{NAME})"
_CELL = rf"{_VOCABULARY}/(?P<initializer>{NAME})/(?P<strategy>{NAME})/seed-(?P<seed>\d+)"
_RUN = rf"evaluation/{_CELL}/(?P<task>{NAME})/run-(?P<run>\d+)"
_PLACES = {
    rule: re.compile(pattern)
    for rule, pattern in {
        "prepare_source": rf"source/(?P<source>{NAME})",
        "prepare_corpus": rf"corpus/(?P<language>{NAME})",
        "expand_vocabulary": rf"vocabulary/{_VOCABULARY}",
        "train_fasttext": rf"auxiliary/{_VOCABULARY}/(?P<auxiliary>{NAME})",
        "initialize": rf"initialization/{_VOCABULARY}/(?P<initializer>{NAME})/(?P<fit>{FIT})",
        "train": rf"training/{_CELL}",
        "evaluate": _RUN,
        "evaluate_checkpoint": rf"{_RUN}/checkpoint-(?P<checkpoint>\d+)",
        "score_predictions": rf"{_RUN}/learned/(?P<metric>{NAME})",
        "measure_fragmentation": rf"evaluation/{_VOCABULARY}/fragmentation",
    }.items()
}


def _made(path: str) -> tuple[str, dict[str, str]] | None:
    """By which rule, or one of the same kin, a folder below the results was made, and of what."""
    for rule, pattern in _PLACES.items():
        if match := pattern.fullmatch(path):
            return rule, match.groupdict()
    return None
