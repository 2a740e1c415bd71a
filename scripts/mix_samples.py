"""Mix the samples of the languages of a group."""

from pathlib import Path

from lexigraft.corpus.training_samples import mix_samples
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    folder, inputs = Path(job["outputs"]["folder"]), job["inputs"]
    files, facts = mix_samples(inputs["samples"], inputs["corpora"], folder)
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage)
