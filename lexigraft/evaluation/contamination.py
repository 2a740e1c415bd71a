"""Count the tests of tasks in training text: the text does not change when a task does."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lexigraft.artifacts.cards import versions
from lexigraft.artifacts.records import read_jsonl
from lexigraft.corpus.cleaning import CleaningCounts, repair
from lexigraft.corpus.contamination import Contamination
from lexigraft.corpus.mixture import all_texts
from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.evaluation.texts import lines_of


def contamination_record(job: dict[str, Any]) -> dict[str, Any]:
    """The record of a task's tests in the training text of one language.

    Keys of `job`: `settings`, the task's `kind`; `inputs`, the corpus `text`, and `tests`, see
    `count_tests`; `language` and `task`, names.
    """
    inputs, kind = job["inputs"], job["settings"]["kind"]
    tests, not_counted = dict(inputs["tests"]), {}
    if task_kind(kind).tests == "benchmark":
        for test, folder in inputs["tests"].items():
            card = json.loads(Path(folder, "card.json").read_text("utf-8"))
            # Without its data, a benchmark is not scored either, and that record gives the reason.
            if not card["available"]:
                not_counted[test] = card["why"]
                del tests[test]
    return {
        "language": job["language"],
        "task": job["task"],
        "tests": count_tests(kind, tests, inputs["text"]),
        "not_counted": not_counted,
        "settings": job["settings"],
        "versions": versions(),
    }


def count_tests(
    kind: str, tests: Mapping[str, str | Path], text: str | Path
) -> list[dict[str, Any]]:
    """Count the texts of each test in the training text of a corpus, which is read once.

    `tests` maps the names of the tests of a kind of task to the paths of their texts, see
    `texts_of`. Returns for each set of texts the name of its `test`, its `part` (`questions` or
    `contexts`; empty for a test with one set), and the facts of `Contamination.facts`.
    """
    sets = {
        (test, part): texts
        for test, path in tests.items()
        for part, texts in texts_of(kind, path).items()
    }
    contamination = Contamination(
        {str(number): texts for number, texts in enumerate(sets.values())}
    )
    lines = all_texts(text)
    for line in tqdm(lines, desc="count tests", unit="line", unit_scale=True, disable=None):
        contamination.add(line)
    return [
        {"test": test, "part": part, **facts}
        for (test, part), facts in zip(sets, contamination.facts().values(), strict=True)
    ]


def texts_of(kind: str, path: str | Path) -> dict[str, list[str]]:
    """The texts of a test, cleaned like training text, in one or several sets.

    `path` depends on `TaskKind.tests`: a file with one sentence per line (`heldout`), the folder of
    a prepared benchmark, or a file of JSON lines as written by the corpus stage.
    """
    declared = task_kind(kind)
    if declared.tests == "benchmark":
        # The harness takes seconds to import.
        from lexigraft.evaluation.harness.benchmarks import longest_texts

        return {"": [_clean(text) for text in longest_texts(path)]}
    if declared.tests == "heldout":
        return {"": [_clean(line) for line in lines_of(Path(path))]}
    rows = read_jsonl(Path(path))
    return {
        part: [_clean(row[key]) for row in rows for key in keys if row[key]]
        for part, keys in declared.test_texts.items()
    }


def _clean(text: str | list[str]) -> str:
    """A text, or a list of words, as one line."""
    words = text.split() if isinstance(text, str) else text
    return repair(" ".join(words), CleaningCounts())
