"""Row-by-row comparison of each paper with its study: what both do, and where they differ.

`docs/papers/<study>.yaml` has a row for every setting, table, figure and data set of the paper that
`config/studies/<study>.yaml` follows. The pages of studies show them; tests compare them with the
studies' settings and report items.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from lexigraft.errors import UserError
from lexigraft.setting_types import Name, Whole
from lexigraft.settings import Settings, validate
from lexigraft.yaml_files import read_yaml
from workflow.config.registries import ROOT
from workflow.config.texts import Unique

PAPERS = ROOT / "docs/papers"


def _as_text(value: Any) -> Any:
    """Convert numbers to text, so that rank 8 may be written as 8."""
    return str(value) if type(value) in (int, float) else value


Text = Annotated[str, BeforeValidator(_as_text), StringConstraints(pattern=r"\S")]


class Check(Settings):
    """A key of the study's resolved configuration, and the value that it has there."""

    key: Text = Field(
        description="keys, and numbers of list items, such as `strategies.<name>.lora.r`"
    )
    value: Any = Field(description="its value in the resolved configuration")


class PaperRow(Settings):
    """One setting, table, figure or data set of a paper, and what the project does about it."""

    row: Text = Field(description="name of the row; for a table or figure its number: `Table 3`")
    source: Text = Field(description="where the paper or its published code states it")
    paper: Text = Field(description="what the paper states; `not specified` if it does not")
    here: Text = Field(description="what this project does")
    verdict: Literal["same", "differs", "missing"] = Field(description="whether the two agree")
    reason: Text | None = Field(
        None, description="why they differ, and how large the effect is, if known"
    )
    study: Name | None = Field(
        None, description="the study of `items` and `check`; by default the one of the file name"
    )
    items: Annotated[list[Name], Unique] = Field(
        default_factory=list, description="report items of the study that show a table or figure"
    )
    check: Check | None = Field(None, description="a setting that a test compares")

    @model_validator(mode="after")
    def _check_reason(self) -> "PaperRow":
        if self.verdict != "same" and self.reason is None:
            raise ValueError(f"'reason' is missing: verdict '{self.verdict}' needs one")
        return self


Numbers = Annotated[list[Whole], Unique]


class Paper(Settings):
    """A paper: which tables and figures it has, and its rows."""

    tables: Numbers = Field(description="numbers of the paper's tables, appendices included")
    figures: Numbers = Field(description="numbers of the paper's figures")
    rows: Annotated[list[dict[str, Any]], Field(min_length=1)] = Field(
        description="rows of the paper"
    )


def read_paper(study: str, folder: Path = PAPERS) -> tuple[Paper, list[PaperRow]]:
    """The paper of a study and its rows; a UserError names the file and the wrong row."""
    path = folder / f"{study}.yaml"
    file = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    paper = validate(Paper, read_yaml(path), f"{file}: paper")
    rows: dict[str, PaperRow] = {}
    for number, content in enumerate(paper.rows, 1):
        where = f"{file}: row {number} ({content.get('row', 'without a name')})"
        row = validate(PaperRow, content, where)
        if row.row in rows:
            raise UserError(f"{where}: an earlier row has this name; rename one")
        rows[row.row] = row
    return paper, list(rows.values())


def paper_table(study: str, folder: Path = PAPERS) -> str:
    """The rows of a paper as a Markdown table, preceded by their numbers by verdict."""
    _, rows = read_paper(study, folder)
    counts = Counter(row.verdict for row in rows)
    lines = [
        f"{len(rows)} rows: {counts['same']} the same, {counts['differs']} different, "
        f"{counts['missing']} missing.",
        "",
        "| what | where | the paper | here | verdict | why, or what shows it |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        items = ", ".join(f"`{name}`" for name in row.items)
        if items and row.study:
            items += f" of `{row.study}`"
        explanation = "; ".join(filter(None, (row.reason, items)))
        cells = (row.row, row.source, row.paper, row.here, row.verdict, explanation)
        escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
        lines.append("| " + " | ".join(escaped) + " |")
    return "\n".join(lines)
