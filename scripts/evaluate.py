"""Rule evaluate: all tasks of a study on one cell, each run written to a record.json."""

from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    from lexigraft.evaluation.evaluate import evaluate_cell

    return evaluate_cell(job), {}


if __name__ == "__main__":
    run(stage, checked=lambda job: job["inputs"]["cell"])
