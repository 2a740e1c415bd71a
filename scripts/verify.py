"""Hash every file that cards list: `python scripts/verify.py results .cache/packages`.

`lexigraft verify STUDY.yaml` does the same for the folders of a study.
"""

import sys
from pathlib import Path

import typer

# The package installed in the environment may belong to another clone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.errors import UserError
from workflow.commands.overview import verify_folders

if __name__ == "__main__":
    try:
        verify_folders(sys.argv[1:] or ["results"])
    except typer.Exit as end:
        raise SystemExit(end.exit_code) from None
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
