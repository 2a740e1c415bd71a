"""A table as data, and its four formats: tidy CSV in full precision, Markdown, LaTeX and HTML.

pandas' Styler does not support rules under groups of columns, rules between some rows only, and
shading of two rows with the same name.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, select_autoescape
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape
from pandas import DataFrame

from lexigraft.artifacts.atomic import atomic_file

_TEMPLATES = Path(__file__).resolve().parent / "templates"
MINUS = "−"


def number(value: float, decimals: int, sign: bool = False) -> str:
    """Format a number with a minus sign (U+2212) and thousands separators."""
    text = f"{value:{'+' if sign else ''},.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def render(template: str, **values: Any) -> str:
    """Render a template with these values, which HTML templates escape."""
    return _environment().get_template(template).render(values)


def document(title: str, body: str) -> str:
    """A self-contained HTML document, with the style sheet."""
    return render("document.html.j2", title=title, body=Markup(body))


def inline_code(text: str) -> Markup:
    """Text as HTML, with text between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def escape_markdown(text: str) -> str:
    """Text for Markdown, in which names and tokens such as `<s>` are no HTML, and no links."""
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", r"]\(")


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(("html.j2",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"inline_code": inline_code, "markdown": escape_markdown}
    environment.globals |= {"number": number}
    return environment


MISSING = "–"
BETTER, WORSE = "▲", "▼"
# A change by this share of the source model's score gets the full colour.
FULL_SHADE = 0.5
FULL_SHADE_NOTE = f"full colour at a change of {100 * FULL_SHADE:g} %"
PALEST = 0.01  # paler colours would not be visible and are left out
# A table with more columns, including names of rows, is set small, with a mark instead of the
# number of the change; with yet more, even smaller on the page.
_MOST_ROOMY, _MOST_COMPACT = 7, 16
# The extremes of the shading, legible under black text in print: blue better, red worse.
BLUE, RED = (0x3B, 0x82, 0xC4), (0xD6, 0x60, 0x4D)
_DEEPEST = 0.65
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    MINUS: "$-$", "±": r"$\pm$", "×": r"$\times$", "–": "--", "†": r"$\dagger$",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "→": r"$\rightarrow$", "…": r"\dots{}",
    BETTER: r"$\bigtriangleup$", WORSE: r"$\bigtriangledown$",
}  # fmt: skip


@dataclass(frozen=True)
class TableCell:
    """One number as text."""

    text: str = MISSING
    deviation: str = ""  # the standard deviation, formatted
    change: str = ""  # the change from the source model, or another secondary number, formatted
    shade: float = 0.0  # from -1 (worse than the source model, red) to 1 (better, blue)
    rank: int = 0  # 1 for the best of its column, 2 for the second, 0 for the others
    value: float | None = None  # the number itself
    mark: str = ""  # the meaning of the colour as a symbol: `▲` better, `▼` worse
    stars: str = ""  # significance of the change on other examples and seeds: `*` or `**`
    noise: bool = False  # whether the score is too low to be compared or ranked

    @property
    def marks(self) -> str:
        """The symbols after the number."""
        return self.mark + self.stars


@dataclass(frozen=True)
class Row:
    """One row: its names, its cells, and whether it is a baseline (shown in grey).

    Rows of different `group`s, i.e. source models or vocabularies, are ranked separately.
    """

    stub: tuple[str, ...]
    cells: tuple[TableCell, ...]
    baseline: bool = False
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table with two header rows: a group (a language) over its columns."""

    stub: Sequence[str]  # headings of the row names
    columns: Sequence[tuple[str, str]]  # group and heading of each column of numbers
    rows: Sequence[Row]
    data: DataFrame  # the same numbers in full precision, tidy, one row per number
    notes: Sequence[str] = ()
    title: str = ""  # empty: that of the item or the kind of table; the same holds for the name
    name: str = ""

    @property
    def compact(self) -> bool:
        """Whether it must be set small to fit a page."""
        return is_compact(len(self.columns), len(self.stub))

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Groups of adjacent columns and their numbers of columns; empty if none has a name."""
        groups = groupby(group for group, _ in self.columns)
        sizes = [(group, len(list(columns))) for group, columns in groups]
        return sizes if any(group for group, _ in sizes) else []

    def ruled_rows(self) -> Iterator[tuple[Row, bool]]:
        """Each row, and whether a rule separates it from the one above.

        Rules are after the baselines, and where the first of several names of a row changes.
        """
        parts = [(row.baseline, len(self.stub) > 1 and row.stub[0]) for row in self.rows]
        changes = [False, *(above != below for above, below in pairwise(parts))]
        return zip(self.rows, changes, strict=False)


def is_compact(columns: int, stubs: int) -> bool:
    """Whether a table with this number of columns must be set small to fit a page."""
    return columns + stubs > _MOST_ROOMY


@dataclass(frozen=True)
class Shown:
    """How a column of a frame is shown: its group and heading, and the format of its numbers.

    `decimals` None: as percent. `higher_is_better` None: the column is not ranked. `sign`: positive
    numbers have one.
    """

    head: tuple[str, str]
    decimals: int | None
    higher_is_better: bool | None = None
    sign: bool = False

    def cell(self, value: float | None) -> TableCell:
        """A number as text, or a dash if it is missing."""
        return number_cell(value, self.decimals, self.sign)


def frame_table(
    frame: DataFrame,
    columns: Mapping[str, Shown],
    headers: Sequence[str],
    stub: Callable[[dict[str, Any]], tuple[str, ...]],
    notes: Sequence[str],
    data: DataFrame | None = None,
    group: Callable[[dict[str, Any]], str] = lambda _: "",
) -> Table:
    """A table with a row for each row of a wide frame, and its columns that have any number.

    Rows are ranked in their group. Its `data` is the frame, unless it is given.
    """
    columns = {
        name: shown
        for name, shown in columns.items()
        if name in frame and frame[name].notna().any()
    }
    rows = [
        Row(stub(row), tuple(shown.cell(row[name]) for name, shown in columns.items()),
            group=group(row))
        for row in frame.to_dict("records")
    ]  # fmt: skip
    rows = ranked(rows, [shown.higher_is_better for shown in columns.values()])
    heads = [shown.head for shown in columns.values()]
    notes = [*notes, *missing_note(rows, heads)]
    return Table(headers, heads, rows, frame if data is None else data, notes)


def number_cell(value: float | None, decimals: int | None, sign: bool = False) -> TableCell:
    """A number, as percent if `decimals` is None, or a dash if it is missing."""
    if value is None or value != value:
        return TableCell()
    text = (
        f"{number(100 * value, 1, sign)} %" if decimals is None else number(value, decimals, sign)
    )
    return TableCell(text, value=float(value))


def shade_of(change: float, higher_is_better: bool = True) -> float:
    """The shade of a change; -1 and 1 are the full colours."""
    return max(-1.0, min(1.0, change if higher_is_better else -change))


def compacted(rows: Sequence[Row], keep_changes: bool = False) -> list[Row]:
    """Rows of scores; if they are too wide, with a mark for each colour instead of changes."""

    def compact(cell: TableCell) -> TableCell:
        mark = "" if abs(cell.shade) < PALEST else BETTER if cell.shade > 0 else WORSE
        return replace(cell, mark=mark, change=cell.change if keep_changes else "")

    return [
        replace(row, cells=tuple(map(compact, row.cells)))
        if is_compact(len(row.cells), len(row.stub))
        else row
        for row in rows
    ]


def ranked(rows: Sequence[Row], higher_is_better: Sequence[bool | None]) -> list[Row]:
    """Mark the best and the second best of each column among the rows that are not baselines.

    Each `group` of rows is ranked separately. Columns with None and cells that are noise are not
    ranked. Numbers that are equal as shown have the same rank.
    """
    ranks: dict[tuple[str, int, str], int] = {}
    for group in {row.group for row in rows}:
        rivals = [row.cells for row in rows if row.group == group and not row.baseline]
        for column, higher in enumerate(higher_is_better):
            known = [
                (cells[column].value, cells[column].text)
                for cells in rivals
                if higher is not None
                and not cells[column].noise
                and cells[column].value is not None
            ]
            order = list(dict.fromkeys(text for _, text in sorted(known, reverse=bool(higher))))
            # A single row has no best, and two rows have no second best.
            best = order[: len(order) - 1][:2]
            ranks |= {(group, column, text): rank for rank, text in enumerate(best, 1)}
    return [
        row
        if row.baseline
        else replace(
            row,
            cells=tuple(
                replace(cell, rank=ranks.get((row.group, column, cell.text), 0))
                for column, cell in enumerate(row.cells)
            ),
        )
        for row in rows
    ]


def missing_note(rows: Sequence[Row], columns: Sequence[tuple[str, str]]) -> list[str]:
    """List the missing numbers, so that no gap is unexplained."""
    missing = [
        f"{' '.join(row.stub)} in {' '.join(filter(None, column))}"
        for row in rows
        for column, cell in zip(columns, row.cells, strict=True)
        if cell.text == MISSING
    ]
    more = f"; and {len(missing) - 6} more" if len(missing) > 6 else ""
    note = f"{MISSING}: not measured or not recorded ({'; '.join(missing[:6])}{more})."
    return [note] if missing else []


def write_table(table: Table, folder: Path) -> None:
    """Write `<name>.csv`, `.md`, `.tex` and, as a separate page, `.html`."""
    texts = {
        "csv": table.data.to_csv(index=False, lineterminator="\n"),
        "md": markdown(table),
        "tex": latex(table),
        "html": document(table.title, as_html(table)),
    }
    for suffix, text in texts.items():
        write_text(folder / f"{table.name}.{suffix}", text)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def markdown(table: Table) -> str:
    """A pipe table; group and column share a header cell, since Markdown has one header row."""

    def plain(cell: TableCell) -> str:
        text = f"{cell.text} {_escape_stars(cell.marks)}".rstrip()
        text += f" ± {cell.deviation}" if cell.deviation else ""
        text += f" ({cell.change})" if cell.change else ""
        return f"**{text}**" if cell.rank == 1 else text

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(_escape_pipe, cells)) + " |"

    heads = [*table.stub, *(", ".join(filter(None, column)) for column in table.columns)]
    return "\n".join([
        f"**{_escape_pipe(table.title)}**",
        "",
        line(heads),
        "|" + "---|" * len(table.stub) + "---:|" * len(table.columns),
        *(line([*row.stub, *map(plain, row.cells)]) for row in table.rows),
        "",
        *(f"- {_escape_stars(escape_markdown(note))}" for note in table.notes),
        "",
    ])  # fmt: skip


def _escape_stars(text: str) -> str:
    """Escape stars, which Markdown would read as emphasis."""
    return text.replace("*", r"\*")


def _escape_pipe(text: str) -> str:
    return escape_markdown(text).replace("|", r"\|").replace("\n", " ")


def escape_latex(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_LATEX.get(char, char) for char in text)


def latex(table: Table) -> str:
    r"""A booktabs tabular to `\input`; shading needs xcolor with the option `table`.

    A compact table is scaled to the line width.
    """
    packages = r"% \usepackage{booktabs} \usepackage[table]{xcolor}"
    lines = [packages + (r" \usepackage{graphicx}" if table.compact else "")]
    if table.compact:
        lines += [
            r"\begingroup\setlength{\tabcolsep}{3pt}%",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        ]
    aligned = "l" * len(table.stub) + "r" * len(table.columns)
    lines += [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule"]
    if table.groups:
        spans, rules, start = [" & " * (len(table.stub) - 1)], "", len(table.stub) + 1
        for group, size in table.groups:
            spans.append(rf"\multicolumn{{{size}}}{{c}}{{{escape_latex(group)}}}")
            rules += rf"\cmidrule(lr){{{start}-{start + size - 1}}}" if group else ""
            start += size
        lines += [" & ".join(spans) + r" \\", rules]
    heads = [*table.stub, *(heading for _, heading in table.columns)]
    lines += [" & ".join(map(escape_latex, heads)) + r" \\", r"\midrule"]
    for row, ruled in table.ruled_rows():
        lines += [r"\midrule"] if ruled else []
        stub = [escape_latex(text) for text in row.stub]
        if row.baseline:
            stub = [rf"\textcolor{{gray}}{{{text}}}" for text in stub]
        cells = [_latex_cell(cell, table.compact) for cell in row.cells]
        lines.append(" & ".join([*stub, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}" + (r"}\endgroup" if table.compact else ""), ""]
    lines += [rf"{{\footnotesize {escape_latex(note)}\par}}" for note in table.notes]
    return "\n".join([*lines, ""])


def _latex_cell(cell: TableCell, compact: bool) -> str:
    text = escape_latex(cell.text)
    if cell.rank:
        text = rf"\textbf{{{text}}}" if cell.rank == 1 else rf"\underline{{{text}}}"
    if cell.marks:
        text += rf"{{\tiny{escape_latex(cell.marks)}}}"
    if cell.deviation:
        deviation = escape_latex(cell.deviation)
        text += rf"\textsubscript{{{deviation}}}" if compact else rf"{{\tiny$\pm${deviation}}}"
    if cell.change:
        text += rf" {{\tiny({escape_latex(cell.change)})}}"
    return rf"\textcolor{{gray}}{{{text}}}" if cell.noise else latex_shade(cell.shade) + text


def latex_shade(shade: float) -> str:
    """The command that colours a cell; empty if the colour would not be visible."""
    if abs(shade) < PALEST:
        return ""
    share = _DEEPEST * abs(shade)
    mixed = (round(255 - share * (255 - c)) for c in (BLUE if shade > 0 else RED))
    return rf"\cellcolor[HTML]{{{''.join(f'{c:02X}' for c in mixed)}}}"


def as_html(table: Table) -> Markup:
    """A `<table>` with two header rows, and its notes."""

    def style(cell: TableCell) -> str:
        if abs(cell.shade) >= PALEST:
            colour = ",".join(map(str, BLUE if cell.shade > 0 else RED))
            return f"background:rgba({colour},{_DEEPEST * abs(cell.shade):.2f})"
        return "color:var(--muted)" if cell.noise else ""

    classes = ["compact"] if table.compact else []
    classes += ["dense"] if len(table.columns) > _MOST_COMPACT else []
    return Markup(render("table.html.j2", table=table, classes=classes, style=style))
