"""Rule prepare_metric: download a learned metric's checkpoint, or record what is missing."""

from pathlib import Path

from lexigraft.artifacts.atomic import write_json
from lexigraft.evaluation.learned.checkpoint import STATE, observed, prepare_metric
from lexigraft.job import Job, Written, run


def stage(job: Job) -> Written:
    folder, python = Path(job["outputs"]["folder"]), job["inputs"]["python"]
    facts = prepare_metric(job["metric"], job["settings"], python)
    digest, _ = observed(job["settings"], python)
    state = {"state": job["state"], "found": digest, "available": facts["available"]}
    write_json(folder / STATE, state)
    return [], facts


if __name__ == "__main__":
    run(stage)
