"""Rule build_report: tables, figures and one page of a study, from its records."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The grid knows where a study's files lie; it belongs to the workflow, not to the package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lexigraft.integrity import check_inputs
from lexigraft.job import Job, run
from lexigraft.provenance import write_card
from lexigraft.report.build import build_report
from lexigraft.report.names import shown_as
from workflow.grid import Study

# Not all of the folder: Snakemake puts its own report there too.
_WRITTEN = ("report.html", "recommendation.*", "summary.json", "tables/*", "figures/*")


def stage(job: Job) -> None:
    config = job["settings"]["study"]
    study, asked = Study(config), config["report"]
    fonts = asked["fonts"]
    untrained = [name for name, entry in config["strategies"].items() if not entry["phases"]]
    settings = {
        "study": config["study"],
        "title": config["title"],
        "reference": {"strategy": asked["reference_strategy"]},
        "items": [_with_none(item, untrained) for item in asked["items"]],
        "untrained": untrained,
    }
    inputs = study.report_inputs() | {
        "languages": config["languages"],
        "fonts": Path(study.package_folder(fonts["package"]), fonts["folder"]) if fonts else None,
    }
    check_inputs(list(_read_by_report(study.report_inputs())))
    with shown_as(config.get("titles", {})):
        build_report(settings, inputs, job["outputs"])
    folder = Path(job["outputs"]["folder"])
    files = [file for pattern in _WRITTEN for file in folder.glob(pattern)]
    write_card(folder, job, [file.relative_to(folder).as_posix() for file in files])


def _with_none(item: str | dict[str, Any], untrained: list[str]) -> str | dict[str, Any]:
    """An item that names a strategy which trains nothing as the report does: `none`."""
    where = item.get("where", {}) if isinstance(item, dict) else {}
    if not isinstance(item, dict) or "strategies" not in where:
        return item
    names = ["none" if name in untrained else name for name in where["strategies"]]
    return item | {"where": where | {"strategies": names}}


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
