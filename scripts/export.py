"""Write a trained cell as a plain Hugging Face folder.

By hand: `python scripts/export.py results/training/…/seed-0 out/`.
"""

import sys

from lexigraft.errors import UserError
from lexigraft.job import Job, run


def stage(job: Job) -> None:
    main(job["inputs"]["cell"], job["outputs"]["folder"])


def main(cell: str, folder: str) -> None:
    from lexigraft.training.export import export

    print(export(cell, folder))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        try:
            main(*sys.argv[1:])
        except UserError as error:
            raise SystemExit(f"error: {error}") from None
    else:
        run(stage, replaces=True)
