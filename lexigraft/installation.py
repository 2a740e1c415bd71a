"""Paths of the lexigraft installation and of the workflow that comes with it.

In a clone, the Snakefile, `workflow/`, `scripts/`, `config/` and `profiles/` are next to the
library; in an installed wheel they are in its folder `_pipeline`, where hatch_build.py puts them.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent  # the clone, or site-packages
_CARRIED = ROOT / "lexigraft/_pipeline"
PIPELINE = _CARRIED if _CARRIED.is_dir() else ROOT  # the folder of the Snakefile


def add_workflow_to_path() -> None:
    """Let `import workflow` find the package next to the Snakefile before any other."""
    if str(PIPELINE) not in sys.path:
        sys.path.insert(0, str(PIPELINE))
