"""Rule evaluate: one task on one cell, written to record.json."""

import torch

from lexigraft.atomic import write_json
from lexigraft.evaluation.measurement import record
from lexigraft.evaluation.registry import FINE_TUNED, task
from lexigraft.hardware import device, precision
from lexigraft.job import Job, run
from lexigraft.training.store import load_cell


def stage(job: Job) -> None:
    kind = job["settings"]["kind"]
    evaluate = task(kind)
    # What is trained on keeps all of its digits.
    dtype = torch.float32 if kind in FINE_TUNED else precision()
    model, tokenizer = load_cell(job["inputs"]["cell"], dtype)
    model.to(device())  # type: ignore[arg-type]  # its decorator hides `self` from mypy
    measured = evaluate(model, tokenizer, job)
    write_json(job["outputs"]["record"], record(job, measured))


if __name__ == "__main__":
    run(stage)
