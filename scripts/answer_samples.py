"""Let a source model answer the prompts of other samples, to train on its answers."""

from pathlib import Path

from lexigraft.job import Job, run
from lexigraft.provenance import write_card
from lexigraft.training.teacher_answers import answer_samples


def stage(job: Job) -> None:
    folder, inputs = Path(job["outputs"]["folder"]), job["inputs"]
    files, facts = answer_samples(
        inputs["prompts"], inputs["teacher"], folder, code=job.get("code"), **job["settings"]
    )
    write_card(folder, job, files, **facts)


if __name__ == "__main__":
    run(stage)
