"""The command `lexigraft cost`, from a clone: python scripts/cost.py [STUDY.yaml]."""

import sys
from pathlib import Path

# A package that the environment has installed may be another one's.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.commands.app import main

main(["cost", *(sys.argv[1:] or ["config/config.yaml"])])
