"""Rule build_report: tables, figures and pages of a study, from its records."""

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path

from lexigraft.artifacts.cards import commit_of_code
from lexigraft.job import Job, Written, run
from lexigraft.report.inputs import files_read, report_inputs, report_settings
from lexigraft.report.names import display_titles

# Not the whole folder: Snakemake writes its own report there too.
_WRITTEN = (
    "report.html", "recommendation.*", "summary.json", "tables/*", "figures/*", "captions/*"
)  # fmt: skip
# Arguments of Snakemake to show if this script was called by hand.
_BY_HAND = "--cores 1 --configfile STUDY.yaml"


def stage(job: Job) -> Written:
    from lexigraft.report.page import build_report

    config, fonts = job["settings"]["study"], job["inputs"].get("fonts")
    inputs = report_inputs(config, job["folders"], job["searched"]) | {
        "languages": config["languages"],
        "published": job["inputs"].get("published", []),
        "fonts": Path(fonts) if fonts else None,
        "reports": Path(job["outputs"]["folder"]).parent,
        "snakemake": shlex.split(os.environ.get("LEXIGRAFT_SNAKEMAKE", _BY_HAND)),
        "circumstances": [
            ("Report built", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
            ("Commit of lexigraft", commit_of_code() or "not from a clone"),
        ],
    }
    with display_titles(config.get("titles", {})):
        build_report(report_settings(config), inputs, job["outputs"])
    folder = Path(job["outputs"]["folder"])
    files = [file for pattern in _WRITTEN for file in folder.glob(pattern)]
    return [file.relative_to(folder).as_posix() for file in files], {}


def expand(job: Job) -> Job:
    config, reports = job["settings"]["study"], Path(job["outputs"]["folder"]).parent
    read = files_read(report_inputs(config, job["folders"], job["searched"]))
    for item in config["report"]["items"]:
        if isinstance(item, dict) and "beside" in item:
            name = item.get("name", item["item"])
            read.append(f"{reports}/{item['beside']}/tables/{name}.csv")
    return {**job, "inputs": {**job["inputs"], "read": read}}


if __name__ == "__main__":
    run(stage, expand=expand)
