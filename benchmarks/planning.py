"""How long Snakemake takes to plan a study, how much memory, and for how many jobs.

python benchmarks/planning.py papers             the papers' grids, on an empty results folder
python benchmarks/planning.py grids [CELLS …]    synthetic grids: 100, 1,000 and 10,000 cells
python benchmarks/planning.py finished [CELLS …] the same, all outputs present: nothing to do
python benchmarks/planning.py status [CELLS …]   `make status` of the same

Each is a process of its own, as a user starts it; Linux only. Outputs that are present are empty
files with Snakemake's records of them (`--touch`), written before the clock starts; for the status,
what jobs write.

On two cores of a busy machine, in CPU seconds, before (a job for each run of each task, functions
of Snakemake replaced) and after (a job for all tasks of a cell, Snakemake as it is):

    plan of 1,000 cells        3,193 jobs   8.1 s    273 MiB    2,193 jobs   8.2 s  248 MiB
    plan of 10,000 cells      31,343 jobs  57.1 s  1,029 MiB   21,343 jobs  55.8 s  698 MiB
    1,000 cells, all finished                                                9.2 s  250 MiB
    status of 10,000 cells                                                   5.7 s  133 MiB
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workflow.config.registries import ROOT, load_registries, read_yaml, resolve
from workflow.stages import Study

PAPERS = ("lowres", "vocadt", "salt", "unifyvocab", "cw2v", "cw2v-roberta")
STUDY = "study.yaml"
CELLS = (100, 1_000, 10_000)
# Cells -> languages, vocabularies and seeds; all have ten initializers and five strategies.
AXES = {100: (2, 1, 1), 1_000: (5, 2, 2), 10_000: (10, 4, 5)}
INITIALIZERS = (
    "random", "univariate", "multivariate", "mean", "mean-of-all", "merge", "align", "focus",
    "permutation", "gaussian-small",
)  # fmt: skip
STRATEGIES = ("lora-clm-2048", "lora-clm-512", "2x2ls-clm-512", "2x2ls-clm-2048", "2x2ls-mtp-512")


@dataclass(frozen=True)
class Run:
    """What one command took: seconds on the wall and of processors, MiB at the peak."""

    wall: float
    cpu: float
    mib: float
    output: str


def run(command: list[str], folder: Path) -> Run:
    """Run a command in a folder.

    Raises
    ------
    SystemExit
        It failed.
    """
    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        sys.exit(f"{' '.join(command)}: {text[-2000:]}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def snakemake(folder: Path, study: str, *arguments: str) -> Run:
    """Run Snakemake on a study, in a folder with the project."""
    command = [sys.executable, "-m", "snakemake", "--configfile", study]
    return run([*command, *arguments], folder)


def place(folder: Path) -> Path:
    """Give a folder a copy of the project: what Snakemake notes of it is not noted in ours."""
    shutil.copy2(ROOT / "Snakefile", folder)
    for part in ("workflow", "config", "lexigraft", "scripts", "profiles"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def grid(cells: int, folder: Path) -> dict[str, Any]:
    """The config of a synthetic study of so many cells, with two tasks on each."""
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
    """Make all outputs of a study be there and up to date, with Snakemake's records."""
    for line in snakemake(folder, STUDY, "--summary", "--cores", "1").output.splitlines():
        file = folder / line.split("\t")[0]
        if "\t" in line and not line.startswith("output_file"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    snakemake(folder, STUDY, "--touch", "--forceall", "--cores", "1", "--quiet", "all")


def leave_outputs(folder: Path) -> None:
    """Leave what the jobs of a study's stages leave: all are done."""
    os.chdir(folder)  # where its paths begin
    study = Study(resolve(read_yaml(folder / STUDY), load_registries()))
    for job in study.jobs().values():
        place = Path(job.output)
        place.mkdir(parents=True, exist_ok=True)
        described = study.described(job.rule, job.output.wildcards)
        (place / "job.json").write_text(json.dumps(described, indent=2))
        (place / "usage.jsonl").write_text('{"seconds": 60, "ended": "done", "gpus": 1}\n')
        Path(job.output.card).write_text(json.dumps({"job": described}))


def measured(what: str, sizes: tuple[int, ...]) -> Iterator[tuple[str, Run]]:
    """Name and run of each measurement."""
    for case in PAPERS if what == "papers" else sizes:
        with tempfile.TemporaryDirectory(prefix="planning-") as name:
            folder = place(Path(name))
            if isinstance(case, str):
                paper = f"config/studies/{case}.yaml"
                yield case, snakemake(folder, paper, "--dry-run", "--quiet", "rules")
                continue
            (folder / STUDY).write_text(yaml.safe_dump(grid(case, folder)))
            if what == "finished":
                finish(folder)
            if what == "status":
                leave_outputs(folder)
                done = run([sys.executable, "scripts/status.py", STUDY], folder)
            elif what == "finished":
                done = snakemake(folder, STUDY, "--cores", "2")
            else:
                done = snakemake(folder, STUDY, "--dry-run", "--quiet", "rules")
            yield f"{case:,} cells", done


def main(what: str = "grids", *sizes: str) -> None:
    """Print what was measured, a line each, and of the papers the sum."""
    walls, counts = [], []
    for name, done in measured(what, tuple(map(int, sizes)) or CELLS):
        found = re.search(r"^total\s+(\d+)$", done.output, flags=re.MULTILINE)
        walls.append(done.wall)
        counts.append(int(found[1]) if found else 0)
        print(
            f"{name:16} {counts[-1]:7,} jobs  {done.wall:6.1f} s  {done.cpu:6.1f} CPU-s  "
            f"{done.mib:6.0f} MiB",
            flush=True,
        )
    if what == "papers":
        print(f"{'together':16} {sum(counts):7,} jobs  {sum(walls):6.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
