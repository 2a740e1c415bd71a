"""Read the examples of one part of a task on which encoders are fine-tuned."""

from lexigraft.corpus.examples import prepare_examples
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    return prepare_examples(job["settings"], job["outputs"]["folder"])


if __name__ == "__main__":
    run(stage)
