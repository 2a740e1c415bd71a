"""One self-contained page: findings, advice, figures, tables, sample outputs and the setup."""

import html
import re
from typing import Any, NamedTuple

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from lexigraft.report.formats import as_html
from lexigraft.report.style import INK, MUTED, PAPER, RULE
from lexigraft.report.stylesheet import STYLESHEET
from lexigraft.report.table import number

_HTML = SandboxedEnvironment(
    autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
)
_HTML.globals |= {"as_html": as_html, "number": number}
_BODY = _HTML.from_string("""
<h1>{{ title }}</h1>
<p class="lead">
{% if numbers %}
Vocabulary expansion: the effect of the new tokens and of how they are initialized.
{% endif %}
All numbers are computed from the records of this study.
</p>
{% if findings %}
<div class="cards">
{% for language, own in numbers.items() %}
{% set texts = findings|selectattr("language", "eq", language)|map(attribute="text")|list %}
{% if texts %}
<section class="card"><h3>{{ own.name }}</h3>
{# The one number that needs no knowledge to read: how much shorter text gets. #}
{% for row in own.vocabularies
   if 0 < row.tokens_per_sentence_after < row.tokens_per_sentence_before %}
{% if loop.first %}
<p class="big">{{ number(row.tokens_per_sentence_before / row.tokens_per_sentence_after, 1) }}×
<small>fewer tokens for the same text ({{ row.vocabulary }})</small></p>
{% endif %}
{% endfor %}
<ul>
{% for text in texts %}<li>{{ text[:1].upper() }}{{ text[1:] }}</li>{% endfor %}
</ul></section>
{% endif %}
{% endfor %}
</div>
{% endif %}
{% if caveats %}
<div class="caveats"><ul class="plain">
{% for text in caveats %}<li>{{ text }}</li>{% endfor %}
</ul></div>
{% endif %}
{% for heading, page in pages %}
<h2>{{ heading }}</h2>
{{ page.body|safe }}
{% endfor %}
{% if figures %}
<h2>Figures</h2>
{% for figure in figures %}
<figure id="figure-{{ figure.name }}" aria-label="{{ figure.title }}">
{{ figure.inline()|safe }}
<figcaption><b>{{ figure.title }}.</b> {{ figure.caption }}</figcaption></figure>
{% endfor %}
{% endif %}
{% if tables %}
<h2>Tables</h2>
{% for table in tables %}{{ as_html(table)|safe }}{% endfor %}
{% endif %}
{% if samples %}
<h2>Sample outputs</h2>
<p class="lead">Ordered by the score of the best model's output, evenly spaced from its best to its
worst; first seed, first run.</p>
{% for group in samples %}
<h3>{{ numbers[group.language].name }}, {{ group.task }}</h3>
{% for row in group.rows %}
<dl class="sample">
{% for name, text, score in row %}
<div><dt>{{ name }}
{% if score is not none %}<span class="score">{{ number(score, 1) }}</span>{% endif %}</dt>
{% if text.strip() %}
<dd dir="auto">{{ text }}</dd></div>
{% else %}
<dd dir="auto"><em>(nothing)</em></dd></div>
{% endif %}
{% endfor %}
</dl>
{% endfor %}
{% endfor %}
{% endif %}
<h2>Experimental setup</h2>
<dl class="facts">
{% for name, value in facts %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor %}
</dl>
{% if omitted %}
<h2>Nothing to show</h2>
<ul>
{% for name, why in omitted.items() %}
<li>{{ name.replace("_", " ").capitalize() }}: {{ why }}</li>
{% endfor %}
</ul>
{% endif %}
""")


class Figure(NamedTuple):
    """A figure on the page: its name, its SVG text, its caption and its title."""

    name: str
    svg: str
    caption: str
    title: str

    def inline(self) -> str:
        """Matplotlib's SVG for use in a page: ids of its own, theme colours, no namespaces."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
        svg = svg.replace("xlink:href=", "href=")
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{self.name}-", svg)
        # The first tag's size in points would beat the style sheet's.
        head, rest = svg.split(">", 1)
        svg = re.sub(r'\s(width|height)="[^"]*"', "", head) + ' aria-hidden="true">' + rest
        for colour, variable in ((INK, "ink"), (MUTED, "muted"), (RULE, "rule"), (PAPER, "paper")):
            svg = re.sub(colour, f"var(--{variable})", svg, flags=re.IGNORECASE)
        return svg


class Page(NamedTuple):
    """A page of its own: its Markdown, its HTML without a title, and what `summary.json` has of it.

    Without numbers there was nothing to show.
    """

    markdown: str
    body: str
    numbers: list[dict[str, Any]]


def report_document(title: str, fonts: dict[str, str], **content: Any) -> str:
    """The page of a whole report: no scripts, nothing loaded from elsewhere.

    Parameters
    ----------
    content
        What the template above names: `numbers` and `findings` (see `findings`), `pages` (heading
        and `Page`), `figures`, `tables`, `samples`, `facts` (name and value), `caveats` and
        `omitted` (name of an item -> why).
    """
    return document(title, _BODY.render(title=title, **content), fonts)


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
