"""Make prompts with answers of one text, to train on."""

from pathlib import Path

from lexigraft.corpus.training_samples import prepare_samples
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    folder, inputs = Path(job["outputs"]["folder"]), job["inputs"]
    files, facts = prepare_samples(
        job["settings"], inputs["corpus"], folder, tuple(job["seed"]), inputs.get("package")
    )
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage)
