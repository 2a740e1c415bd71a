"""Time and memory that Snakemake takes to plan a study, and the number of jobs.

papers     the papers' grids, with an empty results folder
grids      synthetic grids of 100, 1,000 and 10,000 cells, with an empty results folder
finished   the same with all outputs present: nothing to do
status     `make status` of the same

Each runs in a separate process, as a user starts it; Linux only. Present outputs are empty files
with Snakemake's records of them (`--touch`); for the status, the files that jobs write. They are
written before the measurement.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.record import Measurements, described, parser, rounds
from lexigraft.artifacts.completion import begin, complete
from workflow.config.registries import ROOT
from workflow.jobs import jobs_of

PAPERS = ("lowres", "vocadt", "salt", "unifyvocab", "cw2v", "cw2v-roberta")
NAME, STUDY = "planning", "study.yaml"
KINDS = ("papers", "grids", "finished", "status")
# Cells -> languages, vocabularies and seeds; all have ten initializers and five strategies.
AXES = {100: (2, 1, 1), 1_000: (5, 2, 2), 10_000: (10, 4, 5)}
INITIALIZERS = (
    "random", "univariate", "multivariate", "mean", "mean-of-all", "merge", "align", "focus",
    "permutation", "gaussian-small",
)  # fmt: skip
STRATEGIES = ("lora-clm-2048", "lora-clm-512", "2x2ls-clm-512", "2x2ls-clm-2048", "2x2ls-mtp-512")


@dataclass(frozen=True)
class Run:
    """Wall seconds, CPU seconds, peak MiB and output of one command."""

    wall: float
    cpu: float
    mib: float
    output: str


def run(command: list[str], folder: Path) -> Run:
    """Run a command in a folder; raise a `RuntimeError` if it fails."""
    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {text[-2000:]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def snakemake(folder: Path, study: str, *arguments: str) -> Run:
    """Run Snakemake on a study, in a folder that contains the project."""
    command = [sys.executable, "-m", "snakemake", "--configfile", study]
    return run([*command, *arguments], folder)


def place(folder: Path) -> Path:
    """Copy the project to a folder, so that Snakemake's metadata is not written to ours."""
    shutil.copy2(ROOT / "Snakefile", folder)
    for part in ("workflow", "config", "lexigraft", "scripts", "profiles"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def grid(cells: int, folder: Path) -> dict[str, Any]:
    """The config of a synthetic study with this number of cells, and two tasks on each."""
    languages, vocabularies, seeds = AXES[cells]
    (folder / "text.tsv").write_text("A sentence.\tA sentence.\n")
    text = {"loader": "text", "paths": [str(folder / "text.tsv")]}
    pairs = {"loader": "tsv", "path": str(folder / "text.tsv")}
    language = {"code": "te", "script": "Telu", "text": text, "parallel": pairs}
    return {
        "study": f"synthetic-{cells}",
        "report": {"fonts": None, "items": ["results"]},
        "run_tasks": {"perplexity": {}, "translation": {}},
        "sources": {"synthetic": {"hub": "synthetic/model"}},
        "languages": {
            f"language-{number}": {"name": f"Language {number}", **language}
            for number in range(languages)
        },
        "vocabularies": {
            f"expand-{number}": {"mode": "expand", "new_tokens": 100 + number}
            for number in range(vocabularies)
        },
        "cells": [
            {
                "sources": ["synthetic"],
                "languages": [f"language-{number}" for number in range(languages)],
                "vocabularies": [f"expand-{number}" for number in range(vocabularies)],
                "initializers": list(INITIALIZERS),
                "strategies": list(STRATEGIES),
                "seeds": list(range(seeds)),
            }
        ],
    }


def finish(folder: Path) -> None:
    """Create all outputs of a study, up to date, with Snakemake's records."""
    for line in snakemake(folder, STUDY, "--summary", "--cores", "1").output.splitlines():
        file = folder / line.split("\t")[0]
        if "\t" in line and not line.startswith("output_file"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    snakemake(folder, STUDY, "--touch", "--forceall", "--cores", "1", "--quiet", "all")


def leave_outputs(folder: Path) -> None:
    """Write the files of completed jobs, for all jobs of a study's stages."""
    with chdir(folder):  # its paths are relative to it
        for job in jobs_of(STUDY).values():
            output = Path(job.folder)
            output.mkdir(parents=True, exist_ok=True)
            (output / "job.json").write_text(json.dumps(job.description, indent=2))
            (output / "usage.jsonl").write_text('{"seconds": 60, "ended": "done", "gpus": 1}\n')
            Path(job.card).write_text(json.dumps({"job": job.description}))
            finds_inputs = job.rule == "build_report"
            complete(job.description, begin(job.description), finds_inputs=finds_inputs)


def measured(kind: str, case: str | int) -> Run:
    """Measure one kind for a paper, or for a grid with this number of cells."""
    with tempfile.TemporaryDirectory(prefix="planning-") as name:
        folder = place(Path(name))
        if isinstance(case, str):
            paper = f"config/studies/{case}.yaml"
            return snakemake(folder, paper, "--dry-run", "--quiet", "rules")
        (folder / STUDY).write_text(yaml.safe_dump(grid(case, folder)))
        if kind == "status":
            leave_outputs(folder)
            return run([sys.executable, "scripts/status.py", STUDY], folder)
        if kind == "finished":
            finish(folder)
            return snakemake(folder, STUDY, "--cores", "2")
        return snakemake(folder, STUDY, "--dry-run", "--quiet", "rules")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each kind at each size."""
    options = _parser().parse_args(arguments)
    every = [(kind, case) for kind in KINDS for case in (PAPERS if kind == "papers" else AXES)]
    found = Measurements(options, NAME, described("snakemake"), keys=2, order=every)
    for ((kind, case),) in rounds(options, every):
        if kind not in (options.kinds or KINDS) or (
            case in AXES and case not in (options.cells or AXES)
        ):
            continue
        try:
            done = measured(kind, case)
        except RuntimeError as error:
            found.failures.append(f"{kind} {case}: {error}")
            continue
        planned = re.search(r"^total\s+(\d+)$", done.output, flags=re.MULTILINE)
        jobs = int(planned[1]) if planned else None
        took = {"cpu": done.cpu, "wall": done.wall, "mib": done.mib}
        found.add({"kind": kind, "case": case, "jobs": jobs, **took})
    found.end()


def _parser() -> ArgumentParser:
    found = parser(NAME, __doc__)
    found.add_argument("--cells", type=int, action="append", choices=AXES, help="by default all")
    found.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    return found


if __name__ == "__main__":
    main()
