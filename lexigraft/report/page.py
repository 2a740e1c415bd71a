"""The self-contained page: a figure, the recommendation, findings, all items and the setup."""

import re
from typing import Any, NamedTuple

from markupsafe import Markup

from lexigraft.report.formats import as_html
from lexigraft.report.rendering import render
from lexigraft.report.style import INK, MUTED, PAPER, RULE


class Figure(NamedTuple):
    """A figure on the page: its name, its SVG text, its caption, its title and its rank."""

    name: str
    svg: str
    caption: str
    title: str
    rank: int

    def inline(self) -> Markup:
        """Matplotlib's SVG for use in a page: unique ids, theme colours, no namespaces."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
        svg = svg.replace("xlink:href=", "href=")
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{self.name}-", svg)
        # The size in points in the first tag would override the style sheet.
        head, rest = svg.split(">", 1)
        svg = re.sub(r'\s(width|height)="[^"]*"', "", head) + ' aria-hidden="true">' + rest
        for colour, variable in ((INK, "ink"), (MUTED, "muted"), (RULE, "rule"), (PAPER, "paper")):
            svg = re.sub(colour, f"var(--{variable})", svg, flags=re.IGNORECASE)
        return Markup(svg)


class Page(NamedTuple):
    """A separate page: its Markdown, its HTML without a title, and its numbers in `summary.json`.

    Without numbers, there is nothing to show.
    """

    markdown: str
    body: Markup
    numbers: list[dict[str, Any]]


def report_document(title: str, fonts: dict[str, str], **content: Any) -> str:
    """The page of a whole report: no scripts, nothing loaded from elsewhere.

    Parameters
    ----------
    content
        Variables of `templates/report.html.j2`: `lead` (a paragraph), `numbers` and `findings` (see
        `findings`), `pages` (heading and `Page`), `figures`, `tables`, `samples`, `facts` (name and
        values), `caveats` and `omitted` (name of an item -> why).
    """
    first = min(content["figures"], key=lambda figure: figure.rank, default=None)
    tables = [(table, as_html(table)) for table in content.pop("tables")]
    return render("report.html.j2", title=title, fonts=fonts, first=first, tables=tables, **content)
