"""Bring a source model into Hugging Face layout, check it, and write down what it is."""

from pathlib import Path

from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    from lexigraft.source.preparation import prepare_source

    folder = Path(job["outputs"]["folder"])
    package = job["inputs"].get("package")
    files, facts = prepare_source(job["settings"], folder, package)
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage)
