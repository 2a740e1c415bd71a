"""Fill the tables of README.md and docs/ from records: `python -m workflow.pages [STUDY.yaml …]`.

Pages are written by hand, except their tables: a page has `<!-- table: NAME -->` and
`<!-- end of table -->`, and this command writes a table of `docs/tables.yaml` between them. With
studies that have run, it first copies their numbers, and the figures that pages show, to
`docs/results`.
"""

import ast
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from lexigraft.errors import UserError, unknown
from lexigraft.yaml_files import read_yaml
from workflow import records
from workflow.config.registries import ROOT, open_study
from workflow.jobs import jobs_of
from workflow.papers import paper_table, published_table
from workflow.records import Row, open_record, record_path, study_record, write_record

DOCS = ROOT / "docs"
TABLES = DOCS / "tables.yaml"
TABLE = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
MISSING = "–"
# Marks of tests -> areas, as docs/reliability.md names them. A test is marked with a case that it
# covers: `@pytest.mark.fault("disk", "a disk without room", "one line names the file")`.
AREAS = {
    "fault": {
        "kill": "kills and interruptions",
        "disk": "disks and permissions",
        "damage": "damaged, lost and changed files",
        "parallel": "several runs at once",
        "cluster": "clusters",
        "machine": "memory, devices and clocks",
        "network": "networks and hubs",
    },
    "bad_input": {
        "config": "studies and registries",
        "command": "commands",
        "text": "texts and data sets",
        "model": "models and tokenizers",
        "vectors": "vectors, dictionaries and recipes",
        "hostile": "hostile input",
    },
}


def main(*configs: str) -> None:
    """Record studies, then fill the tables of all pages."""
    for config in configs:
        study = open_study(config)
        path = write_record(study.name, study_record(study, jobs_of(config).values()))
        copy_figures(study.name, Path(study.folder("build_report")) / "figures")
        print(f"{path.relative_to(ROOT)}: recorded")
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def pages() -> list[Path]:
    """The pages that may have tables."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def copy_figures(study: str, folder: Path) -> None:
    """Copy the figures of a study's report that pages show."""
    shown = re.compile(rf"results/{re.escape(study)}/([\w.-]+\.png)")
    for name in {name for page in pages() for name in shown.findall(page.read_text("utf-8"))}:
        if not (folder / name).is_file():
            raise UserError(
                f"{folder / name}: missing, but shown on a page; add it to the items of the report"
            )
        (records.RESULTS / study).mkdir(exist_ok=True)
        shutil.copyfile(folder / name, records.RESULTS / study / name)


def filled(page: str) -> str:
    """The text of a page with tables made from the records."""
    return TABLE.sub(lambda match: f"{match[1]}{table(match[2])}\n{match[4]}", page)


def table(name: str) -> str:
    """A table as Markdown, by its name on a page."""
    kind, _, subject = name.partition("-")
    if kind == "paper":
        return paper_table(subject)
    if kind == "published":
        return published_table(subject)
    if kind == "tested":
        return tested(subject.replace("-", "_"))
    declarations = read_yaml(TABLES)
    if name not in declarations:
        raise unknown("table", name, [name for name in declarations if not name.startswith("_")])
    declared = declarations[name]
    part = declared.get("part")  # of a record that is measured in parts
    if not record_path(declared["record"]).exists():
        return "Not yet measured."
    run = open_record(declared["record"]).run
    if part not in (None, *run):
        return "Not yet measured."
    text = rows_table(declared) if "row" in declared else grid(declared)
    if "facts" not in declared:
        return text
    # When and with which versions and sizes it was measured.
    run = run[part] if part else run
    dates = [row["date"] for row in _rows(declared) if "date" in row]
    facts = ({"date": max(dates)} if dates else {}) | {**run, **run.get("versions", {})}
    texts = (
        f"{key.replace('_', ' ')} {value}"
        for key, value in facts.items()
        if not isinstance(value, dict)
    )
    return f"{text}\n\nMeasured: {', '.join(texts)}."


def rows_table(declared: Mapping[str, Any]) -> str:
    """A Markdown table with a row for each row of a record's table."""
    header, cells = (declared[key].split(" | ") for key in ("header", "row"))
    rows = _rows(declared)
    for column, titles in declared.get("titles", {}).items():
        rows = [row | {column: titles.get(row[column], row[column])} for row in rows]
    return markdown(header, [[text_of(cell, row) for cell in cells] for row in rows])


def grid(declared: Mapping[str, Any]) -> str:
    """A Markdown table whose rows and columns select rows of records."""
    columns = declared["columns"]
    keys = ("record", "from", "cell", "join")
    defaults = {key: declared[key] for key in keys if key in declared} | declared.get("where", {})
    selections = [*declared.get("rows", {}).items()]
    if each := declared.get("each"):  # a row for each combination of values of these columns
        rows = _rows(declared)
        if column := declared.get("descending"):
            rows = sorted(rows, key=lambda row: row[column], reverse=True)
        for values in dict.fromkeys(tuple(row[key] for key in each) for row in rows):
            selected = dict(zip(each, values, strict=True))
            title = text_of(declared.get("title", "{" + each[0] + "}"), selected)
            selections.append((title, selected))
    lines = [
        [title, *(_cell(defaults | column | selected) for column in columns.values())]
        for title, selected in selections
    ]
    return markdown([declared.get("corner", ""), *columns], lines)


def _rows(declared: Mapping[str, Any]) -> list[Row]:
    return open_record(declared["record"]).rows(declared["from"], **declared.get("where", {}))


def _cell(selection: Row) -> str:
    """The text of the row of a record that a selection selects, or a dash."""
    if isinstance(selection["cell"], list):
        parts = (_cell(selection | part) for part in selection["cell"])
        return selection["join"].join(part for part in parts if part != MISSING) or MISSING
    record, name = open_record(selection["record"]), selection["from"]
    # A row of a grid may select by columns that only some of the tables have.
    where = {key: value for key, value in selection.items() if key in record.rows(name)[0]}
    rows = record.rows(name, **where)
    if len(rows) > 1:
        raise UserError(f"{TABLES.name}: {len(rows)} rows of {name} in {record.path} match {where}")
    return text_of(selection["cell"], rows[0]) if rows else MISSING


class _Row(Formatter):
    """Formats applied to a row of a record: `{mean:.2f}`, `{share:.0%}`, `{ratio[cpu]}`."""

    def get_value(self, key: int | str, args: Any, row: Mapping[str, Any]) -> Any:
        return row[str(key)] if key in row else DERIVED[str(key)](row)

    def format_field(self, value: Any, spec: str) -> str:
        """A dash for None, `12 %` for a share, and a minus sign (U+2212)."""
        if value is None:
            return MISSING
        text = str(super().format_field(value, spec))
        if not isinstance(value, int | float):
            return text
        if not re.search("[1-9]", text):  # zero after rounding has no sign
            text = text.lstrip("+-")
        return text.replace("-", "−").replace("%", " %")


def text_of(form: str, row: Mapping[str, Any]) -> str:
    """A format applied to a row of a record and to what is derived from it."""
    return _Row().vformat(form, (), row)


def _ratios(row: Mapping[str, Any]) -> dict[str, str]:
    """Column -> ratio to the alternative's number, which is in `other_…` or `script_…`."""
    alternatives = {key: row.get(f"other_{key}", row.get(f"script_{key}")) for key in row}
    return {
        key: f"{row[key] / alternative:.2f}" if alternative and row[key] else MISSING
        for key, alternative in alternatives.items()
        if row[key] is None or isinstance(row[key], float)
    }


# What formats may name in addition to the columns of a row.
DERIVED: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "ratio": _ratios,
    # The range of the first ratio over repetitions.
    "spread": lambda row: (
        text_of(" ({lowest:.2f}–{highest:.2f})", row)
        if row["runs"] > 1 and row["lowest"] is not None
        else ""
    ),
    "gib": lambda row: row["mib"] / 1024,
    "other_gib": lambda row: row["other_mib"] / 1024,
    "megabytes": lambda row: row["peak_memory_bytes"] and row["peak_memory_bytes"] / 1e6,
    "deviation": lambda row: f" ± {row['std']:.3f}" if row["n_seeds"] > 1 else "",
    "star": lambda row: "\\*" if row["p_corrected"] < 0.05 else "",  # significant
    "fewer": lambda row: f" ({row['new_tokens']:,})" if row["new_tokens"] < row["asked"] else "",
    "several": lambda row: f"{row['gpus']} × " if (row["gpus"] or 1) > 1 else "",
    "small": lambda row: "*" if row["passes"] == "sequence" else "",  # small micro-batches
}


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns of numbers are aligned to the right."""
    rows = [list(row) for row in rows]
    is_number = [all(re.match(r"[-\d−+–(]|$", row[i]) for row in rows) for i in range(len(header))]
    ruler = "|".join("---:" if right else "---" for right in is_number)
    lines = ["| " + " | ".join(row) + " |" for row in (header, *rows)]
    return "\n".join([lines[0], f"|{ruler}|", *lines[1:]]).replace("|  |", "| |")


def tested(mark: str) -> str:
    """How many cases of a mark the tests cover, by area."""
    cases = {tuple(arguments) for name, arguments in marks() if name == mark}
    counts = Counter(area for area, *_ in cases)
    rows = [[title, str(counts[area])] for area, title in AREAS[mark].items()]
    return markdown(["area", "cases"], [*rows, ["all", str(len(cases))]])


def marks(tests: Path = ROOT / "tests") -> Iterator[tuple[str, list[Any]]]:
    """Name and arguments of each mark of `AREAS`, read from the syntax trees of the test files."""
    for path in sorted(tests.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"mark\.(fault|bad_input)\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).removeprefix("pytest.mark.")
                if name in AREAS:
                    yield name, [ast.literal_eval(argument) for argument in node.args]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.exit(f"error: {error}")
