"""How long a report takes and how much memory: of made-up studies of 100, 1,000 and 10,000 cells.

python benchmarks/report.py [CELLS …]

The job is that of a run on one machine and on a cluster alike: inputs are checked against their
cards, then come tables, figures and pages. Every cell has a log of 50 steps and two records with 20
outputs each, all written before the clock starts. Linux only.
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planning import CELLS, Run, grid, place, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.atomic import write_json
from lexigraft.cells import Cell
from lexigraft.evaluation.task_kinds import Measurement, record
from lexigraft.provenance import write_card
from workflow.config.registries import load_registries, resolve
from workflow.stages import Study

STEPS = 50
EXAMPLES = 20
WORDS = ("వెన్నెల", "పుస్తకం", "నది", "ఆకాశం", "తెలుగు", "చెట్టు", "పాట", "రోజు")


def study(cells: int, folder: Path) -> Study:
    """That of the planning benchmark with baselines, and with what a report shows by itself."""
    config = grid(cells, folder)
    config["report"] = {"fonts": None}
    own = {"sources": ["made-up"], "languages": list(config["languages"]), "seeds": [0]}
    baseline = {"vocabularies": ["source"], "initializers": ["none"]}
    config["cells"].insert(0, {**own, **baseline, "strategies": ["none", "lora-clm-2048"]})
    return Study(resolve(config, load_registries()))


def leave_results(made: Study) -> None:
    """Write all that a report reads, below the working folder."""
    for cell in made.cells:
        _train(made, cell)
        for task in made.config["run_tasks"]:
            _evaluate(made, cell, task)
    inputs = made.report_inputs()
    for folder in inputs["initialization"]:
        facts = {"statistics": {"share_recipe": 1.0}, "examples": []}
        _card(folder, [], **facts)
    for folder in inputs["vocabulary"]:
        _card(folder, [])
    for file in inputs["corpora"]:
        _card(str(Path(file).parent), [], cleaning={}, contamination={})
    for file in inputs["fragmentation"]:
        source, language, vocabulary = Path(file).parts[-5:-2]
        sizes = {"tokens_per_sentence": 70.0, "source_tokens_per_sentence": 250.0}
        metrics = {**sizes, "new_tokens": 100}
        axes = {"source": source, "language": language, "vocabulary": vocabulary}
        write_json(file, {**axes, "metrics": metrics})
        _card(str(Path(file).parent), ["record.json"])


def _train(made: Study, cell: Cell) -> None:
    """A log, and the card of a trained cell."""
    folder, draw = Path(made.training_folder(cell)), random.Random(cell.path)
    lines: list[dict[str, Any]] = [{"event": "heldout", "step": 0, "tokens": 0, "bits_per_byte": 3}]
    for step in range(1, STEPS + 1):
        lines.append({"event": "step", "phase": 0, "step": step, "tokens": 512 * step,
                      "loss": 9 - step / STEPS + draw.random(), "learning_rate": 1e-4,
                      "tokens_per_second": 900.0, "seconds": 0.5})  # fmt: skip
    lines.append(lines[0] | {"step": STEPS, "bits_per_byte": 1 + draw.random()})
    _write_lines(folder / "log.jsonl", lines)
    facts = {"steps": STEPS, "tokens": 512 * STEPS, "seconds": 30.0, "device": "a CPU"}
    job = made.described("train", {**vars(cell), "seed": str(cell.seed)})
    write_card(folder, job, ["log.jsonl"], **facts)


def _evaluate(made: Study, cell: Cell, task: str) -> None:
    """The record of a cell's run of a task, and what it wrote."""
    draw = random.Random(f"{cell.path} {task}")
    job = described(
        made, "evaluate", {**vars(cell), "seed": str(cell.seed), "task": task, "run": "0"}
    )
    rows: list[dict[str, Any]] = []
    for at in range(EXAMPLES):
        if task == "perplexity":
            sizes = {"test": "heldout", "tokens": 300, "bytes": 1200}
            rows.append({"id": f"heldout-{at}", **sizes, "nats": draw.gauss(900, 30)})
        else:
            texts = {key: " ".join(draw.choices(WORDS, k=6)) for key in ("output", "reference")}
            rows.append({"id": str(at), "prompt": "Translate.", **texts, "chrf": draw.gauss(30, 5)})
    metrics: dict[str, float | int] = {"chrf": sum(row.get("chrf", 0) for row in rows) / EXAMPLES}
    if task == "perplexity":
        bits = sum(row["nats"] for row in rows) / (EXAMPLES * 1200 * 0.6931)
        metrics = {"bits_per_byte": bits, "perplexity": 2 ** (4 * bits), "english_bits_per_byte": 1}
    folder = Path(job["outputs"]["folder"])
    _write_lines(folder / "predictions.jsonl", rows)
    write_json(folder / "record.json", record(job, Measurement(metrics)))
    write_card(folder, job, ["record.json", "predictions.jsonl"])


def _card(folder: str, files: list[str], **facts: Any) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_card(folder, {"rule": "made-up"}, files, **facts)


def _write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def measured(sizes: tuple[int, ...]) -> Iterator[tuple[int, int, Run]]:
    """Cells, files that are read, and the run of each measurement."""
    for cells in sizes:
        with tempfile.TemporaryDirectory(prefix="report-") as name:
            folder = place(Path(name))
            os.chdir(folder)  # where the study's paths begin
            made = study(cells, folder)
            leave_results(made)
            files = sum(1 for file in Path(made.results).rglob("*") if file.is_file())
            write_json("job.json", made.described("build_report", {}))
            yield (
                len(made.cells),
                files,
                run([sys.executable, "scripts/build_report.py", "job.json"], folder),
            )
            os.chdir("/")


def main(*sizes: str) -> None:
    """Print what was measured, a line each."""
    for cells, files, done in measured(tuple(map(int, sizes)) or CELLS):
        print(
            f"{cells:7,} cells  {files:8,} files  {done.wall:6.1f} s  {done.cpu:6.1f} CPU-s  "
            f"{done.mib:6.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
