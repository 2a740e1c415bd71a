"""Pages of the documentation whose numbers come from studies that ran.

`python -m workflow.pages STUDY.yaml …` copies the numbers of finished studies to
`docs/results/<study>.json`. Then, and also without a study, it renders `docs/templates/`: README.md
and pages of `docs/`, each from the template with the same path. The faults and bad inputs that the
tests cover (`workflow.reliability`) are recorded first.
"""

import json
import re
import shutil
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.artifacts.atomic import replacing
from lexigraft.artifacts.cards import commit_of_code, read_card
from lexigraft.cells import AXES
from lexigraft.errors import UserError
from lexigraft.usage import DONE, read_usage
from workflow.config.registries import ROOT
from workflow.papers import as_markdown, read_paper
from workflow.reliability import AREAS, collected
from workflow.stages import Study
from workflow.stages.study import open_study
from workflow.status.cost import Cost, modelled

if TYPE_CHECKING:
    import pandas

DOCS = ROOT / "docs"
TEMPLATES = DOCS / "templates"
_HELDOUT = ("step", "tokens", "bits_per_byte", "english_bits_per_byte", "perplexity",
            "english_perplexity")  # fmt: skip
_DIFFERENCES = ["item", *AXES[:-1], "task", "metric", *(f"baseline_{axis}" for axis in AXES[2:-1]),
                "difference", "low", "high", "p_corrected"]  # fmt: skip
_SPEED_UP = [*AXES[:-1], "task", "metric", "speed_up", "speed_up_low", "speed_up_high"]


class Record:
    """The numbers of one study that ran: `docs/results/<study>.json`.

    Attributes
    ----------
    run
        When and with which version it ran: `date`, `version`, `revision`, number of `jobs`, the sum
        of `seconds` of the last run of each, and `elapsed` seconds from the first start to the last
        end.
    """

    def __init__(self, path: Path):
        self._path = path
        self._content = json.loads(path.read_text(encoding="utf-8"))
        self.run: dict[str, Any] = self._content["run"]

    def rows(self, table: str, **wanted: Any) -> list[dict[str, Any]]:
        """The rows of a table in which these columns have these values, or one of a list of values.

        The tables are frames of `lexigraft.report.study.StudyResults`, where `scores` are means
        over seeds and `heldout` are the scores during training; `speed_up` and `leaderboard` are
        from the report.
        """
        if table not in self._content["tables"]:
            raise UserError(f"{self._path}: there is no table {table}")
        columns, *rows = self._content["tables"][table]
        read = (dict(zip(columns, row, strict=True)) for row in rows)
        return [
            row
            for row in read
            if all(
                row[name] in value if isinstance(value, list) else row[name] == value
                for name, value in wanted.items()
            )
        ]

    def value(self, table: str, column: str, **wanted: Any) -> Any:
        """The single value that these columns select; raises a UserError if it is not unique."""
        found = self.rows(table, **wanted)
        if len(found) != 1:
            raise UserError(
                f"{self._path}: {len(found)} rows of {table} match {wanted}, expected one"
            )
        return found[0][column]

    def by(self, key: str, table: str, column: str, **wanted: Any) -> dict[Any, Any]:
        """Value of the column `key` -> value in `column`; of several rows, the last is used."""
        return {row[key]: row[column] for row in self.rows(table, **wanted)}

    def score(self, metric: str, **wanted: Any) -> float:
        """The single score of a metric, a mean over seeds, in the selected cells and tasks."""
        return float(self.value("scores", "mean", metric=metric, **wanted))


def record(study: Study) -> dict[str, Any]:
    """The numbers of a finished study as its report reads them, and facts about its run.

    Raises
    ------
    UserError
        The study is not finished.
    """
    from lexigraft.report.inputs import report_inputs, report_settings
    from lexigraft.report.records import read_study
    from lexigraft.report.summarize import CELL, summarize

    report = Path(study.output("build_report"))
    if not (report / "card.json").exists():
        raise UserError(f"{report}: there is no report; run study {study.name} first")
    job = study.described("build_report", {})
    inputs = report_inputs(study.config, job["folders"], job["searched"])
    read = read_study(
        report_settings(study.config),
        inputs | {"languages": study.config["languages"], "fonts": None},
    )
    heldout = read.curves[read.curves.get("event") == "heldout"]
    frames = {
        "scores": summarize(read.scores)[[*CELL, "task", "metric", "mean", "std", "n_seeds"]],
        "training": read.training.drop(columns="card_sha256", errors="ignore"),
        "heldout": heldout[[name for name in (*CELL, "seed", *_HELDOUT) if name in heldout]],
        "initialization": read.initialization,
        "alignment": read.alignment,
        "fragmentation": read.fragmentation,
        "tokenizers": read.tokenizers,
        "speed_up": _speed_up(report / "tables"),
    }
    if found := _filled(report / "tables", "leaderboard.csv"):
        frames |= found  # rows without a language are means
    frames["differences"] = _differences(report / "tables")
    tables = {name: _rows(frame) for name, frame in frames.items() if len(frame)}
    return {"study": study.name, "run": _run(study), "tables": tables}


def render(template: str) -> str:
    """The page of a template, by its path below `docs/templates`."""
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    from lexigraft.report.table import number

    environment = SandboxedEnvironment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["require"] = _require
    environment.globals["record"] = lambda name: Record(DOCS / "results" / f"{name}.json")
    environment.globals["is_recorded"] = lambda name: (DOCS / "results" / f"{name}.json").exists()
    environment.globals["cost"] = _cost
    environment.globals["paper_rows"] = lambda study: as_markdown(read_paper(study)[1])
    environment.globals["areas"] = AREAS
    environment.filters["digits"] = number
    environment.filters["percent"] = lambda share, count=0: f"{number(100 * share, count)} %"
    try:
        return environment.get_template(template).render()
    except UserError as error:
        frames = traceback.extract_tb(error.__traceback__)
        # The outermost frame: a sentence may call a macro that is defined elsewhere.
        line = next(frame.lineno for frame in frames if frame.filename.endswith(template))
        raise UserError(f"docs/templates/{template}, line {line}: {error}") from None


def pages() -> dict[str, Path]:
    """Template -> its page."""
    templates = [str(path.relative_to(TEMPLATES)) for path in sorted(TEMPLATES.rglob("*.md"))]
    return {one: (ROOT if one == "README.md" else DOCS) / one for one in templates}


def main(*configs: str) -> None:
    """Record studies, then render all pages."""
    for config in configs:
        study = open_study(config)
        path = write_record(study.name, record(study))
        for name in _figures(study.name):
            source = Path(study.output("build_report")) / "figures" / name
            if not source.is_file():
                raise UserError(
                    f"{source}: missing, but shown on a page; add it to the items of the report"
                )
            path.with_suffix("").mkdir(exist_ok=True)
            shutil.copyfile(source, path.with_suffix("") / name)
        print(f"{path.relative_to(ROOT)}: recorded")
    write_record("reliability", collected())
    for template, page in pages().items():
        page.write_text(render(template), encoding="utf-8")


def write_record(name: str, content: dict[str, Any]) -> Path:
    """Write a record (`run` and `tables`) for pages, with one line per row of a table.

    A table is a list of the column names, followed by the rows.
    """
    path = DOCS / "results" / f"{name}.json"
    with replacing(path) as temporary:
        temporary.write_text(_as_text(content), encoding="utf-8")
    return path


def _require(claim: bool) -> str:
    """Empty text; raises a UserError if the numbers no longer support a sentence of a page."""
    if not claim:
        raise UserError("the numbers no longer support this sentence; rewrite it")
    return ""


def _cost(study: str, device: str) -> Cost:
    """The estimated cost of a study of `config/studies` on a device."""
    return modelled(open_study(f"{ROOT}/config/studies/{study}.yaml"), device)


def _figures(study: str) -> set[str]:
    """The figures of a study's report that pages show."""
    shown = re.compile(rf"results/{re.escape(study)}/([\w.-]+\.png)")
    return {
        name for path in TEMPLATES.rglob("*.md") for name in shown.findall(path.read_text("utf-8"))
    }


def _as_text(content: dict[str, Any]) -> str:
    """JSON with one line per row of a table, for readable diffs."""
    tables = {
        name: ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        for name, rows in content["tables"].items()
    }
    listed = ",\n".join(f'"{name}": [\n{rows}\n]' for name, rows in tables.items())
    head = json.dumps(content | {"tables": None}, ensure_ascii=False)
    return head.replace('"tables": null}', f'"tables": {{\n{listed}\n}}}}\n')


def _speed_up(tables: Path) -> "pandas.DataFrame":
    """The speed-up of cells over their source model, from the report's tables."""
    import pandas

    read = [pandas.DataFrame(columns=_SPEED_UP), *_filled(tables, "*.csv").values()]
    found = pandas.concat([frame.reindex(columns=_SPEED_UP) for frame in read])
    # If two tables have the same number, only one may have its interval.
    found = found.dropna(subset="speed_up").groupby(_SPEED_UP[:-3], sort=False)
    return found.first().reset_index()


def _differences(tables: Path) -> "pandas.DataFrame":
    """The differences between models, and how certain they are, from the report's tables."""
    import pandas

    read = [
        frame.assign(item=name)[_DIFFERENCES]
        for name, frame in _filled(tables, "*.csv").items()
        if "baseline_score" in frame
    ]
    return pandas.concat([pandas.DataFrame(columns=_DIFFERENCES), *read], ignore_index=True)


def _filled(tables: Path, pattern: str) -> "dict[str, pandas.DataFrame]":
    """Item -> its table, for the report's non-empty tables with these file names."""
    import pandas

    files = (path for path in sorted(tables.glob(pattern)) if path.stat().st_size > 1)
    return {path.stem: pandas.read_csv(path) for path in files}


def _rows(frame: "pandas.DataFrame") -> list[list[Any]]:
    """The column names, then the rows; empty columns are omitted."""
    filled = frame.dropna(axis="columns", how="all")
    found = json.loads(filled.to_json(orient="split", double_precision=5))
    return [found["columns"], *found["data"]]


def _run(study: Study) -> dict[str, Any]:
    folders = [job.output for job in study.jobs().values()]
    # Only the last run of each job: outputs of earlier ones, with other settings, were replaced.
    finished = ([line for line in read_usage(one) if line["ended"] == DONE] for one in folders)
    lines = [runs[-1] for runs in finished if runs]
    starts = [datetime.fromisoformat(line["started"]).timestamp() for line in lines]
    ends = [start + line["seconds"] for start, line in zip(starts, lines, strict=True)]
    versions = read_card(Path(study.output("build_report")))["versions"]
    return {
        "date": max(line["started"] for line in lines)[:10],
        "version": versions["lexigraft"],
        "revision": commit_of_code(),
        "jobs": len(lines),
        "seconds": round(sum(line["seconds"] for line in lines)),
        "elapsed": round(max(ends) - min(starts)),
    }


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
