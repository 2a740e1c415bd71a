"""Rule build_report: tables, figures and one page of a study, from its records."""

import sys
from collections.abc import Iterator
from pathlib import Path

# The grid knows where a study's files lie; it belongs to the workflow, not to the package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.integrity import check_inputs
from lexigraft.job import Job, run
from lexigraft.provenance import write_card
from lexigraft.report.build import build_report
from workflow.cells import is_wanted
from workflow.grid import Study

# Not all of the folder: Snakemake puts its own report there too.
_WRITTEN = (
    "report.html", "recommendation.*", "summary.json", "tables/*", "figures/*", "captions/*"
)  # fmt: skip


def stage(job: Job) -> None:
    config = job["settings"]["study"]
    study, asked = Study(config), config["report"]
    fonts = asked["fonts"]
    settings = {
        "study": config["study"],
        "title": config["title"],
        "reference": {"strategy": asked["reference_strategy"]},
        "items": asked["items"],
    }
    cells = {cell: (study.training_folder(cell), vars(cell)) for cell in study.cells}
    fits = {
        fit: vars(cell) | {"seed": None if fit.endswith("all-seeds") else cell.seed}
        for cell in study.cells
        if (fit := study.initialization_folder(cell))
    }
    inputs = study.report_inputs() | {
        "training": dict(cells.values()),
        "initialization": fits,
        "corpora": {Path(card).parent.name: card for card in study.corpus_cards()},
        "planned": [
            (cell.language, task)
            for task, wanted in config["run_tasks"].items()
            for cell in study.cells
            if is_wanted(cell, wanted)
        ],
        "languages": config["languages"],
        "fonts": Path(study.package_folder(fonts["package"]), fonts["folder"]) if fonts else None,
    }
    check_inputs(list(_read_by_report(study.report_inputs())))
    build_report(settings, inputs, job["outputs"])
    folder = Path(job["outputs"]["folder"])
    files = [file for pattern in _WRITTEN for file in folder.glob(pattern)]
    write_card(folder, job, [file.relative_to(folder).as_posix() for file in files])


def _read_by_report(inputs: dict[str, list[str]]) -> Iterator[str]:
    """Of each folder, and beside each record, the files that a report reads: no tensors."""
    for place in (place for places in inputs.values() for place in places):
        if place.endswith(".json"):
            yield place
            yield f"{Path(place).parent}/predictions.jsonl"
        else:
            yield from (f"{place}/{name}" for name in ("card.json", "log.jsonl"))


if __name__ == "__main__":
    run(stage)
