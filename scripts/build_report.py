"""Rule build_report: tables, figures and pages of a study, from its records."""

from pathlib import Path

from lexigraft.job import Job, run
from lexigraft.report.inputs import RECORDS, report_inputs

# Not all of the folder: Snakemake puts its own report there too.
_WRITTEN = (
    "report.html", "recommendation.*", "summary.json", "tables/*", "figures/*", "captions/*"
)  # fmt: skip


def stage(job: Job) -> None:
    from lexigraft.provenance import write_card
    from lexigraft.report.build import build_report
    from lexigraft.report.names import shown_as

    config = job["settings"]["study"]
    settings = {
        "study": config["study"],
        "title": config["title"],
        "reference": {"strategy": config["report"]["reference_strategy"]},
        "items": config["report"]["items"],
    }
    read = report_inputs(config, job["folders"], job["searched"])
    fonts = job["inputs"].get("fonts")
    inputs = read | {"languages": config["languages"], "fonts": Path(fonts) if fonts else None}
    with shown_as(config.get("titles", {})):
        build_report(settings, inputs, job["outputs"])
    folder = Path(job["outputs"]["folder"])
    files = [file for pattern in _WRITTEN for file in folder.glob(pattern)]
    write_card(folder, job, [file.relative_to(folder).as_posix() for file in files])


def expand(job: Job) -> Job:
    """The job with all files that it reads among its inputs; of folders no tensors."""
    places = report_inputs(job["settings"]["study"], job["folders"], job["searched"])
    read = []
    for kind in RECORDS:
        for record in places[kind]:
            read += [record, f"{Path(record).parent}/predictions.jsonl"]
    read += places["corpora"].values()
    for folder in (*places["training"], *places["initialization"], *places["vocabulary"]):
        read += [f"{folder}/{name}" for name in ("card.json", "log.jsonl")]
    return {**job, "inputs": {**job["inputs"], "read": read}}


if __name__ == "__main__":
    run(stage, expand=expand)
