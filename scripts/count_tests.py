"""Rule count_tests: what of a task's tests is in the text that cells are trained on."""

import json
from pathlib import Path

from lexigraft.atomic import write_json
from lexigraft.evaluation.contamination import count_tests
from lexigraft.job import Job, run
from lexigraft.provenance import versions


def stage(job: Job) -> None:
    inputs, kind = job["inputs"], job["settings"]["kind"]
    missing = {}
    if kind == "multiple_choice":
        cards = {test: Path(place, "card.json") for test, place in inputs["tests"].items()}
        read = {test: json.loads(card.read_text("utf-8")) for test, card in cards.items()}
        # Without its data a benchmark is not scored either, and the record of that says why.
        missing = {test: card["why"] for test, card in read.items() if not card["available"]}
    tests = {test: place for test, place in inputs["tests"].items() if test not in missing}
    write_json(
        job["outputs"]["file"],
        {
            "language": job["language"],
            "task": job["task"],
            "tests": count_tests(kind, tests, inputs["text"]),
            "not_counted": missing,
            "settings": job["settings"],
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    run(stage)
