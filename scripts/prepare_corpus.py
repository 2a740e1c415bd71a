"""Read, clean and split the text of one language."""

from pathlib import Path

from lexigraft.corpus.language import prepare_corpus
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    folder = Path(job["outputs"]["folder"])
    package = job["inputs"].get("package")
    files, facts = prepare_corpus(job["settings"], folder, tuple(job["seed"]), package)
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage, shared=True)
