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


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class Check(Settings):
    """What a test compares with the study: a setting, or a number of cells."""

    # Keys, and numbers of list items, such as `strategies.<name>.lora.r`, and the value there in
    # the resolved configuration; `prompts.<file>.<entry>` is of config/prompts.
    key: Text | None = None
    value: Any = None
    # Names on axes of cells, such as `{strategy: [none]}`, and how many cells have them.
    cells: dict[str, list[Name]] | None = None
    count: Annotated[int, Field(ge=0)] | None = None
    study: Name | None = None  # by default the study of the row


class PaperRow(Settings):
    """One setting, table, figure or data set of a paper, and what the project does about it."""

    row: Text  # its name; of a table or figure its number: `Table 3`
    source: Text  # where the paper or its published code states it
    paper: Text  # what the paper states; `not specified` if it does not
    here: Text
    as_published: Text | None = None  # what `<study>-as-published` does, if it differs
    verdict: Literal["same", "differs", "missing"]
    # Why they differ, and how large the effect is, if known; or why nothing can be compared.
    reason: Text | None = None
    study: Name | None = None  # of items and checks; by default that of the file name
    items: Annotated[list[Name], Unique] = Field([])  # that show a table or figure
    check: Annotated[list[Check], BeforeValidator(_as_list)] = Field([])

    @model_validator(mode="after")
    def _check_reason(self) -> "PaperRow":
        if self.reason is None and (
            self.verdict != "same" or not (self.items or self.check or self.as_published)
        ):
            raise ValueError(
                f"'reason' is missing: verdict '{self.verdict}' needs one"
                + (", or items or a check that show it" if self.verdict == "same" else "")
            )
        if self.as_published and not self.check:
            raise ValueError("'check' is missing: 'as_published' needs one")
        return self


Numbers = Annotated[list[Whole], Unique]


class Paper(Settings):
    """A paper: which tables and figures it has, and its rows."""

    tables: Numbers  # with those of appendices
    figures: Numbers
    rows: Annotated[list[dict[str, Any]], Field(min_length=1)]


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


def published_table(study: str, folder: Path = PAPERS) -> str:
    """The rows in which the study with the ending `-as-published` differs, as a Markdown table."""
    _, rows = read_paper(study, folder)
    lines = [
        "| | the paper and its code | as published here | with our improvements |",
        "|---|---|---|---|",
    ]
    lines += [
        _line(row.row, row.paper, row.as_published, row.here) for row in rows if row.as_published
    ]
    return "\n".join(lines)


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
        lines.append(_line(row.row, row.source, row.paper, row.here, row.verdict, explanation))
    return "\n".join(lines)


def _line(*cells: str | None) -> str:
    escaped = (" ".join((cell or "").split()).replace("|", "\\|") for cell in cells)
    return "| " + " | ".join(escaped) + " |"
