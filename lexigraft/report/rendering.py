"""Render HTML and Markdown from the templates in `templates/`, which share one style sheet."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, select_autoescape
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

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
