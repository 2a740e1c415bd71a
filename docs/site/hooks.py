"""Hooks of mkdocs: which files of the repository are pages, and what is written for the site alone.

A page has the same path on the site as in the repository, so that links between pages work in both.
Files of other kinds that a page links to (studies, scripts, notebooks) become pages that show them,
under their name and `.md`; links to them are changed on the way.
"""

import json
import os
import re
import sys
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]

_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
_LANGUAGES = {".yaml": "yaml", ".cff": "yaml", ".py": "python"}
_IMAGES = {".png", ".svg"}
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL
)  # fmt: skip
PACKAGES = ("source", "corpus", "vocabulary", "auxiliary", "initialization", "training",
            "inference", "evaluation", "report")  # fmt: skip


def pages() -> list[str]:
    """Paths of the pages that people write, relative to the repository."""
    paths = [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/studies/*.md"))]
    written = [str(path.relative_to(ROOT)) for path in paths]
    return ["README.md", "CHANGELOG.md", "config/README.md", *written]


def linked_files(page: str) -> dict[str, str]:
    """Link of a page -> the file of the repository that it leads to, if that is no page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    files = {}
    for target, _ in _LINK.findall(text):
        path = os.path.normpath(Path(page).parent / target)
        if "://" not in target and not path.endswith(".md") and (ROOT / path).is_file():
            files[target] = path
    return files


def on_startup(**_: Any) -> None:
    """Find lexigraft's public names in the repository: importing them loads no dependency."""
    sys.path.insert(0, str(ROOT))


def on_files(files: Files, config: Any) -> Files:
    """Replace the files of `docs` by the pages, what they link to, and the API reference."""
    chosen = Files([file for file in files if file.src_dir != config.docs_dir])

    def add(path: str, content: str | None = None) -> None:
        if content is None:
            chosen.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
        else:
            chosen.append(File.generated(config, path, content=content))

    for page in pages():
        add(page)
    for path in sorted({path for page in pages() for path in linked_files(page).values()}):
        add(path) if Path(path).suffix in _IMAGES else add(f"{path}.md", shown(path))
    add("docs/site/site.css")
    add("docs/reference/lexigraft.md", reference("lexigraft"))
    add("docs/reference/initializers.md", initializers())
    for name in PACKAGES:
        add(f"docs/reference/{name}.md", reference(f"lexigraft.{name}"))
    return chosen


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to the pages that show files, and names of functions to the reference."""
    path = page.file.src_uri
    if page.file.generated_by is not None:
        return markdown
    files = linked_files(path)

    def of_site(link: re.Match[str]) -> str:
        shown_as_page = link[1] in files and Path(link[1]).suffix not in _IMAGES
        return f"]({link[1]}.md{link[2] or ''})" if shown_as_page else link[0]

    markdown = _LINK.sub(of_site, markdown)
    return with_references(markdown) if path == "docs/library.md" else markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Render formulas as MathML, which browsers show without a script, and numbered references."""

    def as_mathml(formula: re.Match[str]) -> str:
        display = "block" if formula[2] == "[" else "inline"
        return convert(unescape(formula[3]).strip(), display=display)

    html = _FORMULA.sub(as_mathml, html)
    if page.file.src_uri.startswith("docs/reference/"):
        # reStructuredText's footnotes, [1]_ and .. [1], which numpy's docstrings have.
        html = re.sub(r"\[(\d)\]_", r"[\1]", html)
        html = re.sub(r"(?<!<p>)\s*\.\. \[(\d)\]", r"<br>[\1]", html).replace("<p>.. [", "<p>[")
    return html


def shown(path: str) -> str:
    """A page that shows a file: a notebook as text and code, others as they are."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".ipynb"):
        return notebook(text)
    language = _LANGUAGES.get(Path(path).suffix, "text")
    return f"---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n{fenced(text, language)}"


def notebook(text: str) -> str:
    """A notebook as Markdown: its text, its code, and what the code printed."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        for output in cell.get("outputs", ()):
            # What is printed, or the value of the last line.
            lines = output["text"] if "text" in output else output["data"]["text/plain"]
            parts.append(fenced("".join(lines), "text"))
    return "\n\n".join(parts)


def reference(package: str) -> str:
    """The page of the API reference for the public names of a package, by mkdocstrings."""
    import lexigraft

    module = import_module(package)
    names = dict(module._MODULES)
    parts = [f"# `{package}`", module.__doc__ or ""]
    if package != "lexigraft":
        in_both = [name for name in names if name in lexigraft.__all__]
        if in_both:
            links = ", ".join(f"[`{name}`][{names.pop(name)}.{name}]" for name in in_both)
            parts.append(f"Also {links}.")
    parts += [f"::: {where}.{name}" for name, where in names.items()]
    return "\n\n".join(parts)


def initializers() -> str:
    """The page of the API reference for the class of each method, with its options."""
    from lexigraft.initialization.registry import declaration, methods

    parts = [
        "# Initializers",
        "The classes behind `lexigraft.initializer(name, …)`. Parameters are options.",
    ]
    for name in methods():
        declared = declaration(name)
        options = {"heading": name, "toc_label": name, "members": False, "show_bases": False}
        parts.append(
            f"::: {declared.module}.{declared.class_name}\n    options: {json.dumps(options)}"
        )
    return "\n\n".join(parts)


def with_references(markdown: str) -> str:
    """The page of the library with links to the reference from the names in its table."""
    import lexigraft

    defined = {name: f"{where}.{name}" for name, where in lexigraft._MODULES.items()}
    for package in PACKAGES:
        for name, where in import_module(f"lexigraft.{package}")._MODULES.items():
            defined[f"{package}.{name}"] = f"{where}.{name}"

    def linked(span: re.Match[str]) -> str:
        return f"[{span[0]}][{defined[span[1]]}]" if span[1] in defined else span[0]

    def linked_row(line: str) -> str:
        names, separator, columns = line.partition(" | ")
        return re.sub(r"`([a-zA-Z_.]+)[^`]*`", linked, names) + separator + columns

    lines = markdown.split("\n")
    return "\n".join(linked_row(line) if line.startswith("| `") else line for line in lines)


def fenced(text: str, language: str) -> str:
    """A block of code."""
    return f"````{language}\n{text.rstrip()}\n````"
