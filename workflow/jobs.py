"""The jobs of a study, as Snakemake plans them.

`jobs_of` runs Snakemake's own plan, a dry run, with the logger plugin of
`workflow/snakemake_logger`. It takes as long as `snakemake -n`, whatever is finished already.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError
from lexigraft.installation import PIPELINE
from lexigraft.job import with_prefix

# The description of a job in the command of its rule, as `shlex.quote` writes it.
_DESCRIPTION = re.compile(r"'(\{.*\})'", re.DOTALL)


@dataclass(frozen=True)
class Job:
    """A job of a study: its rule, what it reads and writes, and what it requests.

    `card` is the output that marks it as complete, `inputs` are cards of other jobs and the user's
    files, and `description` is what its script reads, the last argument of its `command`.
    """

    rule: str
    wildcards: Mapping[str, str]
    card: str
    inputs: tuple[str, ...]
    log: str
    description: Mapping[str, Any]
    message: str = ""
    command: str = ""
    memory_mb: int = 0
    minutes: int = 0
    gpus: int = 0

    @property
    def folder(self) -> str:
        """Its output folder."""
        return str(Path(self.card).parent)


def jobs_of(file: str, *targets: str, prefix: str | None = None) -> dict[str, Job]:
    """Card -> job, for all jobs of the study in a file; inputs come before the jobs that read them.

    With `targets`, paths of outputs, only the jobs that these need. `prefix` is that of the study.
    Raises a UserError with Snakemake's message if it cannot plan the study.
    """
    options = ["--dry-run", "--forceall", "--logger", "jobs", "--cores", "1"]
    options += ["--resources", "gpu=1000"]  # jobs request as many GPUs as on a cluster
    command = [sys.executable, "-P", "-m", "snakemake", *options, "--configfile", file]
    command += ["--snakefile", str(PIPELINE / "Snakefile"), "--", *targets]
    plugins = str(PIPELINE / "workflow/snakemake_logger")
    paths = [plugins, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    planned = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if planned.returncode:
        lines = [line for line in planned.stderr.splitlines() if not line.startswith("Using ")]
        raise UserError(f"{file}: Snakemake cannot plan it: {' '.join(' '.join(lines).split())}")
    entries = [json.loads(line) for line in planned.stdout.splitlines() if line.startswith("{")]
    return by_card(_job(entry, prefix) for entry in entries if entry["outputs"])


def by_card(jobs: Iterable[Job]) -> dict[str, Job]:
    """Card -> job; inputs come before the jobs that read them."""
    cards = {job.card: job for job in jobs}
    needs = {card: [path for path in job.inputs if path in cards] for card, job in cards.items()}
    return {card: cards[card] for card in TopologicalSorter(needs).static_order()}


def job_in_run(job: Any, prefix: str | None) -> Job:
    """A job of a running Snakemake, for the hooks of the Snakefile."""
    facts = {
        "rule": job.rule.name,
        "message": "",
        "wildcards": dict(job.wildcards.items()),
        "outputs": [str(path) for path in job.output],
        "inputs": [str(path) for path in job.input],
        "log": [str(path) for path in job.log],
        "resources": {"mem_mb": int("mem_mb" in job.rule.resources)},  # local jobs have none
        "command": f"'{job.params.get('job', '{}')}'",
    }
    return _job(facts, prefix)


def _job(facts: Mapping[str, Any], prefix: str | None) -> Job:
    found = _DESCRIPTION.search(facts["command"])
    text = found[1].replace("'\"'\"'", "'") if found else "{}"
    return Job(
        facts["rule"],
        facts["wildcards"],
        facts["outputs"][0],
        tuple(facts["inputs"]),
        next(iter(facts["log"]), ""),
        json.loads(with_prefix(text, prefix)),
        facts["message"],
        facts["command"],
        *(facts["resources"].get(name, 0) for name in ("mem_mb", "runtime", "gpu")),
    )
