"""Recognize HTML and Markdown in lines of text, and strip them."""

import re
from html.parser import HTMLParser

_MARKUP = re.compile(
    r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>|&(nbsp|amp|lt|gt|quot|#\d+);"  # HTML
    r"|^\s*(#{1,6}\s|```|\|.*\|$)|\[[^\]]+\]\([^)\s]+\)|\*\*[^*]+\*\*",  # Markdown
    re.IGNORECASE,
)
# Markdown -> its text: lines without any, images and links, emphasis and code, headings, items.
_MARKDOWN = (
    (re.compile(r"^\s*(```.*|[-*_|:\s]{3,})$"), ""),
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"(\*\*|__|`)(?=\S)(.+?)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]+)\*(?![\w*])"), r"\1"),
    (re.compile(r"^\s*(#{1,6}|>|[-*+]|\d+\.)\s+"), ""),
)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def has_markup(line: str) -> bool:
    """Whether a line contains a tag or a character reference of HTML, or Markdown."""
    return _MARKUP.search(line) is not None


def strip_markup(text: str) -> str:
    """The text without tags, character references and Markdown, line by line.

    >>> strip_markup("## <b>Mvua</b> &amp; [maji](water.md)")
    'Mvua & maji'
    """
    return "\n".join(map(_stripped, text.split("\n")))


def _stripped(line: str) -> str:
    for pattern, replacement in _MARKDOWN:
        line = pattern.sub(replacement, line)
    parser = _Text()
    parser.feed(line)
    parser.close()
    return "".join(parser.parts)
