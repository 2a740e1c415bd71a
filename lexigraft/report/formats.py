"""A table in four formats: tidy CSV in full precision, Markdown, LaTeX and HTML.

pandas' Styler does not support rules under groups of columns, rules between some rows only, and
shading of two rows with the same name.
"""

from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path

from markupsafe import Markup

from lexigraft.artifacts.atomic import replacing
from lexigraft.report.rendering import document, escape_markdown, render
from lexigraft.report.table import MINUS, PALEST, Row, Table, TableCell

# The extremes of the shading, legible under black text in print: blue better, red worse.
BLUE, RED = (0x3B, 0x82, 0xC4), (0xD6, 0x60, 0x4D)
_DEEPEST = 0.65
# Tables with more columns are set even smaller on the page.
_MOST_COMPACT = 16
_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    MINUS: "$-$", "±": r"$\pm$", "×": r"$\times$", "–": "--", "†": r"$\dagger$",
    "↓": r"$\downarrow$", "↑": r"$\uparrow$", "→": r"$\rightarrow$", "…": r"\dots{}",
    "▲": r"$\bigtriangleup$", "▼": r"$\bigtriangledown$",
}  # fmt: skip


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
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def markdown(table: Table) -> str:
    """A pipe table; group and column share a header cell, since Markdown has one header row."""
    heads = [*table.stub, *(", ".join(filter(None, column)) for column in table.columns)]
    lines = [f"**{_pipe(table.title)}**", "", _line(heads)]
    lines.append("|" + "---|" * len(table.stub) + "---:|" * len(table.columns))
    lines += [_line([*row.stub, *map(_plain, row.cells)]) for row in table.rows]
    return "\n".join(
        [*lines, "", *(f"- {_starred(escape_markdown(note))}" for note in table.notes), ""]
    )


def escape_latex(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_ESCAPES.get(char, char) for char in text)


def latex(table: Table) -> str:
    r"""A booktabs tabular to `\input`; shading needs xcolor with the option `table`.

    A compact table is scaled to the line width.
    """
    packages = r"% \usepackage{booktabs} \usepackage[table]{xcolor}"
    lines = [packages + (r" \usepackage{graphicx}" if table.compact else "")]
    if table.compact:
        lines += [r"\begingroup\setlength{\tabcolsep}{3pt}%"]
        lines += [r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"]
    aligned = "l" * len(table.stub) + "r" * len(table.columns)
    lines += [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule"]
    if groups := _groups(table):
        spans, rules, start = [" & " * (len(table.stub) - 1)], "", len(table.stub) + 1
        for group, size in groups:
            spans.append(rf"\multicolumn{{{size}}}{{c}}{{{escape_latex(group)}}}")
            rules += rf"\cmidrule(lr){{{start}-{start + size - 1}}}" if group else ""
            start += size
        lines += [" & ".join(spans) + r" \\", rules]
    lines += [" & ".join(map(escape_latex, [*table.stub, *(c for _, c in table.columns)])) + r" \\"]
    lines.append(r"\midrule")
    for row, ruled in _ruled(table):
        lines += [r"\midrule"] if ruled else []
        stub = [escape_latex(text) for text in row.stub]
        if row.baseline:
            stub = [rf"\textcolor{{gray}}{{{text}}}" for text in stub]
        cells = [_latex_cell(cell, table.compact) for cell in row.cells]
        lines.append(" & ".join([*stub, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}" + (r"}\endgroup" if table.compact else ""), ""]
    lines += [rf"{{\footnotesize {escape_latex(note)}\par}}" for note in table.notes]
    return "\n".join([*lines, ""])


def as_html(table: Table) -> Markup:
    """A `<table>` with two header rows, and its notes."""
    classes = ["compact"] if table.compact else []
    classes += ["dense"] if len(table.columns) > _MOST_COMPACT else []
    rows = [(_look(row, ruled), row.stub, map(_html_cell, row.cells))
            for row, ruled in _ruled(table)]  # fmt: skip
    return Markup(render("table.html.j2", table=table, classes=classes, groups=_groups(table),
                         rows=rows))  # fmt: skip


def _groups(table: Table) -> list[tuple[str, int]]:
    """Groups of adjacent columns, and their numbers of columns; empty if none has a name."""
    groups = [(group, len(list(columns)))
              for group, columns in groupby(group for group, _ in table.columns)]  # fmt: skip
    return groups if any(group for group, _ in groups) else []


def _ruled(table: Table) -> Iterator[tuple[Row, bool]]:
    """Each row, and whether a rule separates it from the one above.

    Rules are after the baselines, and where the first of several names of a row changes.
    """
    parts = [(row.baseline, len(table.stub) > 1 and row.stub[0]) for row in table.rows]
    return zip(table.rows, [False, *(one != other for one, other in pairwise(parts))], strict=False)


def _plain(cell: TableCell) -> str:
    text = cell.text + (f" {marks}" if (marks := cell.mark + _starred(cell.stars)) else "")
    text += f" ± {cell.deviation}" if cell.deviation else ""
    text += f" ({cell.change})" if cell.change else ""
    return f"**{text}**" if cell.rank == 1 else text


def _latex_cell(cell: TableCell, compact: bool) -> str:
    text = escape_latex(cell.text)
    if cell.rank:
        text = rf"\textbf{{{text}}}" if cell.rank == 1 else rf"\underline{{{text}}}"
    if marks := cell.mark + cell.stars:
        text += rf"{{\tiny{escape_latex(marks)}}}"
    if cell.deviation:
        deviation = escape_latex(cell.deviation)
        text += rf"\textsubscript{{{deviation}}}" if compact else rf"{{\tiny$\pm${deviation}}}"
    if cell.change:
        text += rf" {{\tiny({escape_latex(cell.change)})}}"
    return rf"\textcolor{{gray}}{{{text}}}" if cell.noise else f"{_latex_shade(cell.shade)}{text}"


def _latex_shade(shade: float) -> str:
    if abs(shade) < PALEST:
        return ""
    share = _DEEPEST * abs(shade)
    mixed = (round(255 - share * (255 - c)) for c in (BLUE if shade > 0 else RED))
    return rf"\cellcolor[HTML]{{{''.join(f'{c:02X}' for c in mixed)}}}"


def _look(row: Row, ruled: bool) -> str:
    return " ".join(["baseline"] * row.baseline + ["rule"] * ruled)


def _html_cell(cell: TableCell) -> tuple[str, ...]:
    """The parts of a cell for the template: rank, style, text, marks, deviation and change."""
    style = "color:var(--muted)" if cell.noise else ""
    if abs(cell.shade) >= PALEST:
        red, green, blue = BLUE if cell.shade > 0 else RED
        style = f"background:rgba({red},{green},{blue},{_DEEPEST * abs(cell.shade):.2f})"
    rank = {1: "best", 2: "second"}.get(cell.rank, "")
    return rank, style, cell.text, cell.mark + cell.stars, cell.deviation, cell.change


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(map(_pipe, cells)) + " |"


def _starred(text: str) -> str:
    """Escape stars, which Markdown would read as emphasis."""
    return text.replace("*", r"\*")


def _pipe(text: str) -> str:
    return escape_markdown(text).replace("|", r"\|").replace("\n", " ")
