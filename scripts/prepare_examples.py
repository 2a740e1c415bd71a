"""Read one part of a task's examples: to fine-tune on, to test on, or to show in prompts."""

from lexigraft.corpus.examples import prepare_examples, prepare_test_set
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    prepare = prepare_examples if "labels" in job["settings"] else prepare_test_set
    return prepare(job["settings"], job["outputs"]["folder"])


if __name__ == "__main__":
    run(stage)
