"""Paragraphs of an HTML page, such as a document that a package contains in many languages."""

from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lexigraft.corpus.loader import Inputs, Loader, Shard
from lexigraft.errors import UserError
from lexigraft.settings import Settings

# Elements inside a paragraph; the start and the end tag of any other element end a text.
_INLINE = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "dfn", "em", "i", "kbd", "mark", "q", "ruby",
    "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr",
})  # fmt: skip
_NO_TEXT = frozenset({"head", "script", "style", "template"})


class HtmlPage(Settings):
    """Paragraphs of a page in a package."""

    loader: Literal["html"]
    package: str = Field(description="a name of packages.yaml")
    page: Annotated[str, StringConstraints(pattern=r"^\w[\w.-]*(/\w[\w.-]*)*$")] = Field(
        description="a file of the package, such as package/page.html"
    )


def read_page(file: Path) -> list[str]:
    """The texts of a page in order: each paragraph, heading and list item is one."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); check the page") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 ({error})") from None
    parser = _Texts()
    parser.feed(text)
    parser.close()
    parser.end_text("html")
    return parser.texts


class _Texts(HTMLParser):
    """Collects the texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._hidden = 0  # number of open elements without text

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.end_text(tag)
        # A body ends a head without an end tag.
        self._hidden = 0 if tag == "body" else self._hidden + (tag in _NO_TEXT)

    def handle_endtag(self, tag: str) -> None:
        self.end_text(tag)
        self._hidden = max(0, self._hidden - (tag in _NO_TEXT))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def end_text(self, tag: str) -> None:
        """Add the text before a tag to the texts, unless the tag is inside of it."""
        if tag not in _INLINE:
            if text := " ".join("".join(self._parts).split()):
                self.texts.append(text)
            self._parts = []


def _read_texts(text: Mapping[str, Any], inputs: Inputs) -> list[Shard]:
    assert inputs.package is not None
    file = Path(inputs.package) / text["page"]
    return [lambda: iter(read_page(file))]


LOADER = Loader(text=(HtmlPage,), read_texts=_read_texts, needs_package=True)
