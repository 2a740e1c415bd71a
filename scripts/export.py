"""Writes a trained cell as a plain Hugging Face folder.

By hand: `python scripts/export.py results/training/…/seed-0 out/`.
"""

import sys

from lexigraft import job as jobs
from lexigraft.errors import UserError
from lexigraft.training.export import export


def stage(job: jobs.Job) -> None:
    export(job["inputs"]["cell"], job["outputs"]["folder"])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        try:
            print(export(sys.argv[1], sys.argv[2]))
        except UserError as error:
            raise SystemExit(f"error: {error}") from None
    else:
        jobs.run(stage, replaces=True)
