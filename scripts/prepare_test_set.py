"""Read the test set of a task in one language, or the few-shot examples of its prompts."""

from lexigraft.corpus.test_sets import prepare_test_set
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    return prepare_test_set(job["settings"], job["outputs"]["folder"])


if __name__ == "__main__":
    run(stage)
