"""Records of measurements, `docs/results/<name>.json`: numbers of studies and benchmarks that ran.

A record has a `run` (when it ran and with which versions) and `tables`; a table is a list of the
column names, followed by the rows. For a study, the tables are frames of its report: `scores` are
means over seeds, `heldout` are the scores during training; `speed_up`, `differences` and
`leaderboard` are the report's own tables.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import atomic_file
from lexigraft.artifacts.cards import commit_of_code, read_card
from lexigraft.cells import AXES
from lexigraft.errors import UserError
from lexigraft.report.inputs import report_inputs, report_settings
from lexigraft.usage import DONE, read_usage
from workflow.config.registries import ROOT
from workflow.jobs import Job
from workflow.study import Study

RESULTS = ROOT / "docs/results"
_HELDOUT = ("step", "tokens", "bits_per_byte", "english_bits_per_byte", "perplexity",
            "english_perplexity")  # fmt: skip
_DIFFERENCES = ["item", *AXES[:-1], "task", "metric", *(f"baseline_{axis}" for axis in AXES[2:-1]),
                "difference", "low", "high", "p_corrected"]  # fmt: skip
_SPEED_UP = [*AXES[:-1], "task", "metric", "speed_up"]
Row = dict[str, Any]


class Record:
    """A record that was written earlier.

    Attributes
    ----------
    run
        For a study: `date`, `version`, `revision`, number of `jobs`, the sum of `seconds` of the
        last run of each, and `elapsed` seconds from the first start to the last end.
    """

    def __init__(self, path: Path):
        self.path = path
        content = json.loads(path.read_text(encoding="utf-8"))
        self.run: dict[str, Any] = content["run"]
        self._rows: dict[str, list[Row]] = {
            name: [dict(zip(columns, row, strict=True)) for row in rows]
            for name, (columns, *rows) in content["tables"].items()
        }

    def rows(self, table: str, **where: Any) -> list[Row]:
        """The rows of a table in which these columns have this value, or one in this list."""
        if table not in self._rows:
            raise UserError(f"{self.path}: there is no table {table}")
        return [
            row
            for row in self._rows[table]
            if all(
                row[column] in value if isinstance(value, list) else row[column] == value
                for column, value in where.items()
            )
        ]


def record_path(name: str) -> Path:
    """Where the record of a study or benchmark is stored."""
    return RESULTS / f"{name}.json"


def open_record(name: str) -> Record:
    """The record of a study or benchmark; read again only if its file changed."""
    path = record_path(name)
    return _read_record(path, path.stat().st_mtime_ns)


@cache
def _read_record(path: Path, changed: int) -> Record:
    return Record(path)


def write_record(name: str, content: dict[str, Any]) -> Path:
    """Write a record, and return its path."""
    path = record_path(name)
    with atomic_file(path) as temporary:
        temporary.write_text(as_text(content), encoding="utf-8")
    return path


def as_text(content: dict[str, Any]) -> str:
    """A record as JSON with one line per row of a table, for readable diffs."""
    tables = ",\n".join(
        f'"{table}": [\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"
        for table, rows in content["tables"].items()
    )
    head = json.dumps(content | {"tables": None}, ensure_ascii=False)
    return head.replace('"tables": null}', f'"tables": {{\n{tables}\n}}}}\n')


def study_record(study: Study, jobs: Iterable[Job]) -> dict[str, Any]:
    """The numbers of a finished study as its report reads them, and facts about its run.

    `jobs` are all jobs of the study. Raises a `UserError` if it is not finished.
    """
    import pandas  # `python -m workflow.pages` without a study needs no pandas

    from lexigraft.report.frame import CELL, summarize
    from lexigraft.report.records import read_study

    report = Path(study.folder("build_report"))
    if not (report / "card.json").exists():
        raise UserError(f"{report}: there is no report; run study {study.name} first")
    job = read_card(report)["job"]
    inputs = report_inputs(study.config, job["folders"], job["searched"])
    results = read_study(
        report_settings(study.config),
        inputs | {"languages": study.config["languages"], "fonts": None},
    )
    heldout = results.curves[results.curves.get("event") == "heldout"]
    files = [path for path in sorted((report / "tables").glob("*.csv")) if path.stat().st_size > 1]
    items = {path.stem: pandas.read_csv(path) for path in files}
    speed_ups = [frame.reindex(columns=_SPEED_UP) for frame in items.values()]
    speed_up = pandas.concat([pandas.DataFrame(columns=_SPEED_UP), *speed_ups])
    speed_up = speed_up.dropna(subset="speed_up")
    differences = [
        frame.assign(item=name)[_DIFFERENCES]
        for name, frame in items.items()
        if "baseline_score" in frame
    ]
    frames = {
        "scores": summarize(results.scores)[[*CELL, "task", "metric", "mean", "std", "n_seeds"]],
        "training": results.training.drop(columns="card_sha256", errors="ignore"),
        "heldout": heldout[[name for name in (*CELL, "seed", *_HELDOUT) if name in heldout]],
        "initialization": results.initialization,
        "alignment": results.alignment,
        "fragmentation": results.fragmentation,
        "tokenizers": results.tokenizers,
        "speed_up": speed_up.groupby(_SPEED_UP[:-1], sort=False, as_index=False).first(),
        "leaderboard": items.get(
            "leaderboard", pandas.DataFrame()
        ),  # rows without a language are means
        "differences": pandas.concat([pandas.DataFrame(columns=_DIFFERENCES), *differences]),
    }
    tables = {}
    for name, frame in frames.items():
        if len(frame):
            filled = frame.dropna(axis="columns", how="all")
            content = json.loads(filled.to_json(orient="split", double_precision=5))
            tables[name] = [content["columns"], *content["data"]]
    folders = [job.folder for job in jobs]
    # Only the last run of each job: outputs of earlier ones, with other settings, were replaced.
    finished = ([line for line in read_usage(path) if line["ended"] == DONE] for path in folders)
    lines = [runs[-1] for runs in finished if runs]
    starts = [datetime.fromisoformat(line["started"]).timestamp() for line in lines]
    ends = [start + line["seconds"] for start, line in zip(starts, lines, strict=True)]
    facts = {
        "date": max(line["started"] for line in lines)[:10],
        "version": read_card(report)["versions"]["lexigraft"],
        "revision": commit_of_code(),
        "jobs": len(lines),
        "seconds": round(sum(line["seconds"] for line in lines)),
        "elapsed": round(max(ends) - min(starts)),
    }
    return {"study": study.name, "run": facts, "tables": tables}
