"""Rule evaluate: all tasks of a study on one cell, each run written to a record.json."""

from lexigraft.completion import card_of
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    from lexigraft.evaluation.evaluate import evaluate_cell

    write_card(card_of(job), job, evaluate_cell(job))


if __name__ == "__main__":
    run(stage, checked=lambda job: job["inputs"]["cell"])
