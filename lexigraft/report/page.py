"""One self-contained page: findings, advice, figures, tables, sample outputs and the setup."""

import html
import re
from dataclasses import dataclass
from typing import Any

from lexigraft.report.findings import Finding
from lexigraft.report.formats import as_html
from lexigraft.report.sample_outputs import SampleOutput, SampleOutputs
from lexigraft.report.style import INK, MUTED, PAPER, RULE
from lexigraft.report.stylesheet import STYLESHEET
from lexigraft.report.table import Table, number

_LEAD = "Vocabulary expansion: the effect of the new tokens and of how they are initialized."


@dataclass(frozen=True)
class Figure:
    """A figure on the page: its name, its SVG text, its caption and its title."""

    name: str
    svg: str
    caption: str
    title: str


@dataclass(frozen=True)
class Page:
    """A page of its own: its Markdown, its HTML without a title, and what `summary.json` has of it.

    Without numbers there was nothing to show.
    """

    markdown: str
    body: str
    numbers: list[dict[str, Any]]


@dataclass(frozen=True)
class Content:
    """Everything that the page shows, computed before."""

    title: str
    numbers: dict[str, Any]
    findings: list[Finding]
    pages: list[tuple[str, Page]]
    figures: list[Figure]
    tables: list[Table]
    samples: list[SampleOutputs]
    facts: list[tuple[str, str]]
    caveats: list[str]
    omitted: dict[str, str]
    languages: dict[str, str]
    fonts: dict[str, str]

    def texts(self) -> list[str]:
        """The texts in other scripts, which need fonts."""
        found = []
        for group in self.samples:
            for row in group.rows:
                found += [row.prompt, row.reference, row.source or "", row.best]
        return found


def render(content: Content) -> str:
    """The page as HTML text: no scripts, nothing loaded from elsewhere."""
    parts = [
        f"<h1>{html.escape(content.title)}</h1>",
        f'<p class="lead">{_LEAD if content.numbers else ""} All numbers are computed from the '
        "records of this study.</p>",
        _cards(content),
        _caveats(content),
        *(f"<h2>{html.escape(title)}</h2>{page.body}" for title, page in content.pages),
    ]
    if content.figures:
        parts.append("<h2>Figures</h2>")
        parts += [_figure(figure) for figure in content.figures]
    if content.tables:
        parts.append("<h2>Tables</h2>")
        parts += [as_html(table) for table in content.tables]
    if content.samples:
        parts.append("<h2>Sample outputs</h2>")
        parts.append('<p class="lead">Ordered by the score of the best model\'s output, evenly '
                     "spaced from its best to its worst; first seed, first run.</p>")  # fmt: skip
        parts += [_samples(group, content.languages) for group in content.samples]
    parts.append("<h2>Experimental setup</h2>" + _facts(content.facts))
    if content.omitted:
        listed = "".join(
            f"<li>{html.escape(_title(name))}: {html.escape(why)}</li>"
            for name, why in content.omitted.items()
        )
        parts.append(f"<h2>Nothing to show</h2><ul>{listed}</ul>")
    return document(content.title, "\n".join(parts), content.fonts)


def table_document(table: Table) -> str:
    """A page with one table alone."""
    return document(table.title, as_html(table), {})


def document(title: str, body: str, fonts: dict[str, str]) -> str:
    """An HTML document with the style sheet and these fonts, as data URIs, inside."""
    faces = "".join(
        f'@font-face {{ font-family: "{family}"; src: url({uri}) format("woff"); }}\n'
        for family, uri in fonts.items()
    )
    names = "".join(f'"{family}", ' for family in fonts)
    style = faces + STYLESHEET.replace("FONTS ", names)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def inline_svg(svg: str, name: str) -> str:
    """Matplotlib's SVG for use inside a page: ids of its own, theme colours, no namespaces."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    # The first tag's size in points would beat the style sheet's.
    head, rest = svg.split(">", 1)
    svg = re.sub(r'\s(width|height)="[^"]*"', "", head) + ' aria-hidden="true">' + rest
    for colour, variable in ((INK, "ink"), (MUTED, "muted"), (RULE, "rule"), (PAPER, "paper")):
        svg = re.sub(colour, f"var(--{variable})", svg, flags=re.IGNORECASE)
    return svg


def _cards(content: Content) -> str:
    cards = []
    for language, name in content.languages.items():
        own = [finding for finding in content.findings if finding.language == language]
        if not own:
            continue
        items = "".join(
            f"<li>{html.escape(finding.text[:1].upper() + finding.text[1:])}</li>"
            for finding in own
        )
        big = _big(content.numbers[language])
        cards.append(
            f'<section class="card"><h3>{html.escape(name)}</h3>{big}<ul>{items}</ul></section>'
        )
    return f'<div class="cards">{"".join(cards)}</div>' if cards else ""


def _big(numbers: dict[str, Any]) -> str:
    """The one number of a language that needs no knowledge to read: how much shorter text gets."""
    for row in numbers["vocabularies"]:
        before, after = row["tokens_per_sentence_before"], row["tokens_per_sentence_after"]
        if 0 < after < before:
            return (
                f'<p class="big">{number(before / after, 1)}×<small>fewer tokens for the same text '
                f"({html.escape(row['vocabulary'])})</small></p>"
            )
    return ""


def _caveats(content: Content) -> str:
    items = "".join(f"<li>{html.escape(text)}</li>" for text in content.caveats)
    return f'<div class="caveats"><ul class="plain">{items}</ul></div>' if items else ""


def _figure(figure: Figure) -> str:
    title, caption = html.escape(figure.title), html.escape(figure.caption)
    return (
        f'<figure id="figure-{figure.name}" aria-label="{title}">'
        f"{inline_svg(figure.svg, figure.name)}"
        f"<figcaption><b>{title}.</b> {caption}</figcaption></figure>"
    )


def _samples(group: SampleOutputs, languages: dict[str, str]) -> str:
    heading = f"{languages.get(group.language, group.language)}, {group.task}"
    rows = "".join(_sample(row, group.best) for row in group.rows)
    return f"<h3>{html.escape(heading)}</h3>{rows}"


def _sample(row: SampleOutput, best: str) -> str:
    columns = [
        ("Prompt", row.prompt, None),
        ("Reference", row.reference, None),
        ("Source model", row.source if row.source is not None else "–", row.source_score),
        (best, row.best, row.best_score),
    ]
    cells = []
    for name, text, score in columns:
        shown = f' <span class="score">{number(score, 1)}</span>' if score is not None else ""
        written = html.escape(text) if text.strip() else "<em>(nothing)</em>"
        cells.append(f'<div><dt>{html.escape(name)}{shown}</dt><dd dir="auto">{written}</dd></div>')
    return f'<dl class="sample">{"".join(cells)}</dl>'


def _facts(rows: list[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in rows)
    return f'<dl class="facts">{items}</dl>'


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()
