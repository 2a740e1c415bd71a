"""Zero-shot transfer: what is learned from English examples, tried on the cell's languages."""

from dataclasses import dataclass
from typing import Any

from lexigraft.corpus.examples import Example, labels_of, read_examples
from lexigraft.evaluation.texts import draw

ENGLISH = "english"  # what tests in English are called, whatever the language's name in a study


@dataclass(frozen=True)
class TransferData:
    """Examples of a task.

    Attributes
    ----------
    train
        What is learned from.
    tests
        Name of a language, or ENGLISH -> what a cell is tested on.
    labels
        Names of the labels by number; none of questions.
    """

    train: list[Example]
    tests: dict[str, list[Example]]
    labels: list[str]

    def counts(self) -> dict[str, Any]:
        """How many examples there are, for a record's details."""
        tests = {name: len(examples) for name, examples in self.tests.items()}
        return {"train_examples": len(self.train), "test_examples": tests}


def read_transfer_data(
    job: dict[str, Any], train_examples: int | None, test_examples: int | None
) -> TransferData:
    """The examples of a job, or samples of that many, the same for every cell of a run."""
    places = job["inputs"]["examples"]
    return TransferData(
        train=draw(read_examples(places["train"]), train_examples, job, "train"),
        tests={
            name: draw(read_examples(place), test_examples, job, name)
            for name, place in places["tests"].items()
        },
        labels=labels_of(places["train"]),
    )


def of_adapted_languages(tests: dict[str, Any]) -> dict[str, Any]:
    """The tests that a cell is adapted for: all but the English one, unless it is alone."""
    return {name: test for name, test in tests.items() if name != ENGLISH} or tests


def metrics_by_language(scores: dict[str, dict[str, float]]) -> dict[str, float]:
    """Metrics of a record, from the metrics of each test.

    Without a prefix or suffix: the mean over the languages that a cell is adapted for, `avg` in
    CW2V's Table 2. Of a group each language has figures of its own too (`f1_<language>`), and
    English has (`english_f1`).
    """
    own = of_adapted_languages(scores)
    found = {
        metric: sum(score[metric] for score in own.values()) / len(own)
        for metric in next(iter(own.values()))
    }
    if len(own) > 1:
        for language, score in own.items():
            found |= {f"{metric}_{language}": value for metric, value in score.items()}
    if ENGLISH in scores and ENGLISH not in own:
        found |= {f"{ENGLISH}_{metric}": value for metric, value in scores[ENGLISH].items()}
    return found
