"""The command `lexigraft status`, from a clone: python scripts/status.py [STUDY.yaml]."""

import sys
from pathlib import Path

# The package installed in the environment may belong to another clone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.commands.app import main

main(["status", *(sys.argv[1:] or ["config/config.yaml"])])
