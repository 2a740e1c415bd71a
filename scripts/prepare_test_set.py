"""Reads the test set of a task in one language, or the examples that its prompts begin with."""

from pathlib import Path

from lexigraft.corpus.test_sets import prepare_test_set
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    folder = Path(job["outputs"]["folder"])
    files, facts = prepare_test_set(job["settings"], folder)
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage)
