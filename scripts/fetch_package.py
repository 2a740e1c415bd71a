"""Fetch one package of config/packages.yaml and unpack the files that it names."""

from pathlib import Path

from lexigraft.artifacts.atomic import write_json
from lexigraft.bundled.packages import fetch_package
from lexigraft.job import Job, run


def stage(job: Job) -> None:
    folder = Path(job["outputs"]["folder"])
    fetch_package(**job["settings"], into=folder)
    # The folder was replaced as a whole, and the job description with it.
    write_json(folder / "job.json", job)


if __name__ == "__main__":
    run(stage, replaces=True)
