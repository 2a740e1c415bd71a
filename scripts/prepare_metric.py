"""Rule prepare_metric: a learned metric's checkpoint is brought to this machine, or what lacks."""

from pathlib import Path

from lexigraft.atomic import write_json
from lexigraft.evaluation.learned.checkpoint import STATE, observed
from lexigraft.evaluation.learned.prepare import prepare_metric
from lexigraft.job import Job, run
from lexigraft.provenance import write_card


def stage(job: Job) -> None:
    folder, python = Path(job["outputs"]["folder"]), job["inputs"]["python"]
    facts = prepare_metric(job["metric"], job["settings"], python)
    found, _ = observed(job["settings"], python)
    checkpoint = {"state": job["state"], "found": found, "available": facts["available"]}
    write_json(folder / STATE, checkpoint)
    write_card(folder, job, [], **facts)


if __name__ == "__main__":
    run(stage)
