"""docs/troubleshooting.md quotes messages as the code has them."""

import ast
import re

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs/troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)
VALUE = "…"


def texts(tree: ast.AST) -> list[str]:
    """The strings of a module but docstrings, with `…` in place of what is formatted into them."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] if id(node) not in docstrings else []
        elif isinstance(node, ast.JoinedStr):
            parts = (
                part.value if isinstance(part, ast.Constant) else VALUE for part in node.values
            )
            found.append("".join(parts))
    return [re.sub(r"\{[^{}]*\}", VALUE, text) for text in found]


@pytest.fixture(scope="module")
def messages() -> list[str]:
    files = [
        file
        for folder in ("lexigraft", "workflow", "scripts")
        for file in (REPOSITORY / folder).rglob("*.py")
    ]
    return [text for file in files for text in texts(ast.parse(file.read_text(encoding="utf-8")))]


def quotes(quoted: str, message: str) -> bool:
    """Whether a message contains what is quoted, of which each `…` stands for anything."""
    pattern = ".*".join(map(re.escape, quoted.strip(VALUE).split(VALUE)))
    return re.search(pattern, message) is not None


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_message_is_one_of_the_code(quoted, messages):
    assert any(quotes(quoted, message) for message in messages)


def test_messages_are_quoted_once_and_only_where_they_mean_something():
    assert len(QUOTED) == len(set(QUOTED)) >= 20
    assert all(len(quoted.replace(VALUE, "").split()) >= 3 for quoted in QUOTED)
