"""The command `lexigraft cost`, from a clone: python scripts/cost.py [STUDY.yaml]."""

import sys
from pathlib import Path

# The package installed in the environment may belong to another clone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.commands.app import main

main(["cost", *(sys.argv[1:] or ["config/config.yaml"])])
