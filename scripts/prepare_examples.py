"""Reads the examples of one part of a task that encoders are fine-tuned for."""

from pathlib import Path

from lexigraft.corpus.examples import prepare_examples
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    folder = Path(job["outputs"]["folder"])
    files, facts = prepare_examples(job["settings"], folder)
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage)
