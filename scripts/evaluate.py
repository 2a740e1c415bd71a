"""Rule evaluate: one task on one cell, written to record.json."""

from lexigraft.atomic import write_json
from lexigraft.evaluation.harness.benchmark_state import lacking
from lexigraft.evaluation.measurement import Measurement, record
from lexigraft.evaluation.opening import opened
from lexigraft.evaluation.registry import task
from lexigraft.job import Job, run


def stage(job: Job) -> None:
    if why := lacking(job):
        # No reason to stop a study, and none to open a model.
        write_json(job["outputs"]["record"], {**record(job, Measurement({})), "not_scored": why})
        return
    evaluate = task(job["settings"]["kind"])
    with opened(job) as (model, tokenizer):
        measured = evaluate(model, tokenizer, job)
    write_json(job["outputs"]["record"], record(job, measured))


if __name__ == "__main__":
    run(stage)
