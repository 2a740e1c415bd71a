"""Time and memory of the report of synthetic studies of 100, 1,000 and 10,000 cells.

The job is the same on one machine and on a cluster: inputs are checked against their cards, then
tables, figures and pages are built. Every cell has a log of 50 steps and two records with 20
outputs each, all written before the measurement. Linux only.
"""

import json
import os
import random
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import yaml

from benchmarks.planning import AXES, STUDY, Run, grid, place, run
from benchmarks.record import Measurements, described, parser, rounds
from lexigraft.artifacts.atomic import write_json
from lexigraft.artifacts.cards import write_card
from lexigraft.artifacts.completion import card_of
from lexigraft.cells import Cell
from lexigraft.evaluation.evaluate import record, run_jobs
from lexigraft.evaluation.task_kinds import Measurement
from lexigraft.report.inputs import report_inputs
from workflow.config.registries import load_registries, resolve
from workflow.jobs import jobs_of
from workflow.study import Study

NAME = "report"
STEPS = 50
EXAMPLES = 20
WORDS = ("వెన్నెల", "పుస్తకం", "నది", "ఆకాశం", "తెలుగు", "చెట్టు", "పాట", "రోజు")


def study_of(cells: int, folder: Path) -> Study:
    """The study of the planning benchmark with baselines and the default report items."""
    config = grid(cells, folder)
    config["report"] = {"fonts": None}
    own = {"sources": ["synthetic"], "languages": list(config["languages"]), "seeds": [0]}
    baseline = {"vocabularies": ["source"], "initializers": ["none"]}
    config["cells"].insert(0, {**own, **baseline, "strategies": ["none", "lora-clm-2048"]})
    Path(STUDY).write_text(yaml.safe_dump(config), encoding="utf-8")
    return resolve(config, load_registries())


def leave_results(study: Study) -> dict[str, Any]:
    """Write all files that a report reads, below the working folder; return the report's job."""
    jobs = {card: dict(job.description) for card, job in jobs_of(STUDY).items()}
    for cell in study.cells:
        _train(cell, jobs[study.card("train", **cell.wildcards)])
        _evaluate(cell, jobs[study.card("evaluate", **cell.wildcards)])
    job = jobs[study.card("build_report")]
    inputs = report_inputs(study.config, job["folders"], job["searched"])
    for folder in inputs["initialization"]:
        facts = {"statistics": {"share_recipe": 1.0}, "examples": []}
        _card(folder, [], **facts)
    for folder in inputs["vocabulary"]:
        _card(folder, [])
    for file in inputs["corpora"].values():
        _card(str(Path(file).parent), [], cleaning={}, contamination={})
    for file in inputs["fragmentation"]:
        source, language, vocabulary = Path(file).parts[-5:-2]
        sizes = {"tokens_per_sentence": 70.0, "source_tokens_per_sentence": 250.0}
        metrics = {**sizes, "new_tokens": 100}
        axes = {"source": source, "language": language, "vocabulary": vocabulary}
        write_json(file, {**axes, "metrics": metrics})
        _card(str(Path(file).parent), ["record.json"])
    return job


def _train(cell: Cell, job: dict[str, Any]) -> None:
    """Write the log and the card of a trained cell."""
    folder, draw = Path(job["outputs"]["folder"]), random.Random(cell.path)
    lines: list[dict[str, Any]] = [{"event": "heldout", "step": 0, "tokens": 0, "bits_per_byte": 3}]
    for step in range(1, STEPS + 1):
        lines.append({"event": "step", "phase": 0, "step": step, "tokens": 512 * step,
                      "loss": 9 - step / STEPS + draw.random(), "learning_rate": 1e-4,
                      "tokens_per_second": 900.0, "seconds": 0.5})  # fmt: skip
    end = {"step": STEPS, "tokens": 512 * STEPS, "bits_per_byte": 1 + draw.random()}
    lines.append(lines[0] | end)
    _write_lines(folder / "log.jsonl", lines)
    facts: dict[str, Any] = {"steps": STEPS, "tokens": 512 * STEPS, "seconds": 30.0}
    facts |= {"device": "a CPU", "processes": 1}
    references = {name: job["inputs"][name] for name in ("source", "tokenizer")}
    for read in references.values():
        Path(read).mkdir(parents=True, exist_ok=True)
    relative = {name: os.path.relpath(read, folder) for name, read in references.items()}
    write_card(folder, job, ["log.jsonl"], {}, references=relative, **facts)


def _evaluate(cell: Cell, job: dict[str, Any]) -> None:
    """Write the records and predictions of a cell's runs, and their card."""
    folder, files = Path(job["outputs"]["folder"]), []
    for one in run_jobs(job):
        rows = _predictions(one["task"], random.Random(f"{cell.path} {one['task']}"))
        _write_lines(Path(one["outputs"]["predictions"]), rows)
        write_json(one["outputs"]["record"], record(one, Measurement(_metrics(one["task"], rows))))
        paths = (Path(one["outputs"][name]) for name in ("record", "predictions"))
        files += [str(path.relative_to(folder)) for path in paths]
    write_card(card_of(job), job, files)


def _predictions(task: str, draw: random.Random) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(EXAMPLES):
        if task == "perplexity":
            sizes = {"test": "heldout", "tokens": 300, "bytes": 1200}
            rows.append({"id": f"heldout-{number}", **sizes, "nats": draw.gauss(900, 30)})
        else:
            texts = {key: " ".join(draw.choices(WORDS, k=6)) for key in ("output", "reference")}
            score = {"chrf": draw.gauss(30, 5)}
            rows.append({"id": str(number), "prompt": "Translate.", **texts, **score})
    return rows


def _metrics(task: str, rows: list[dict[str, Any]]) -> dict[str, float | int]:
    if task != "perplexity":
        return {"chrf": sum(row["chrf"] for row in rows) / EXAMPLES}
    bits = sum(row["nats"] for row in rows) / (EXAMPLES * 1200 * 0.6931)
    return {"bits_per_byte": bits, "perplexity": 2 ** (4 * bits), "english_bits_per_byte": 1}


def _card(folder: str, files: list[str], **facts: Any) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_card(folder, {"rule": "synthetic"}, files, **facts)


def _write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def measured(cells: int) -> tuple[int, int, Run]:
    """The number of cells including baselines, the number of files read, and a report's run."""
    with tempfile.TemporaryDirectory(prefix="report-") as name, chdir(name):
        folder = place(Path(name))  # the study's paths are relative to it
        study = study_of(cells, folder)
        job = leave_results(study)
        files = sum(1 for file in Path(study.results).rglob("*") if file.is_file())
        write_json("job.json", job)
        done = run([sys.executable, "scripts/build_report.py", "job.json"], folder)
        return len(study.cells), files, done


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the report of each size."""
    options = _parser().parse_args(arguments)
    found = Measurements(options, NAME, described("matplotlib", "pandas"), keys=1)
    for (size,) in rounds(options, options.cells or AXES):
        try:
            cells, files, done = measured(size)
        except RuntimeError as error:
            found.failures.append(f"{size}: {error}")
            continue
        took = {"cpu": done.cpu, "wall": done.wall, "mib": done.mib}
        found.add({"cells": cells, "files": files, **took})
    found.end()


def _parser() -> ArgumentParser:
    found = parser(NAME, __doc__)
    found.add_argument("--cells", type=int, action="append", choices=AXES, help="by default all")
    return found


if __name__ == "__main__":
    main()
