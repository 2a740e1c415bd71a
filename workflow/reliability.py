"""Faults and bad inputs that the tests cover: what happens, and which test checks it.

A test is marked with the case that it covers, on the test or one of its `pytest.param`:

    @pytest.mark.fault("disk", "a disk without room", "one line names the file")
    @pytest.mark.bad_input("text", "a text that is not UTF-8", "one line names file and line")

The arguments are an area of `AREAS`, the case, and its outcome. They are read from the syntax tree
of the test files without running them, and shown in docs/reliability.md.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError, unknown
from workflow.config.registries import ROOT

AREAS = {  # mark -> area -> its heading
    "fault": {
        "kill": "Kills and interruptions",
        "disk": "Disks and permissions",
        "damage": "Damaged, lost and changed files",
        "parallel": "Several at once",
        "cluster": "Clusters",
        "machine": "Memory, devices and clocks",
        "network": "Networks and hubs",
    },
    "bad_input": {
        "config": "Studies and registries",
        "command": "Commands",
        "text": "Texts and data sets",
        "model": "Models and tokenizers",
        "vectors": "Vectors, dictionaries and recipes",
        "hostile": "Hostile input",
    },
}
COLUMNS = ("area", "what", "outcome", "tests")


def collected(root: Path = ROOT) -> dict[str, Any]:
    """The record of docs/reliability.md: for each mark, a table of the cases that tests cover.

    Tests with identical arguments share a row. Raises a `UserError` that names the file and line of
    an invalid mark.
    """
    found: dict[str, dict[tuple[str, ...], list[str]]] = {mark: {} for mark in AREAS}
    for file in sorted((root / "tests").rglob("*.py")):
        for mark, arguments, test in _marks(file, file.relative_to(root).as_posix()):
            tests = found[mark].setdefault(arguments, [])
            tests += [test] if test not in tests else []
    tables = {}
    for mark, rows in found.items():
        order = list(AREAS[mark])
        listed = sorted(rows.items(), key=lambda row: order.index(row[0][0]))
        tables[f"{mark}s"] = [list(COLUMNS), *([*row, tests] for row, tests in listed)]
    return {"run": {}, "tables": tables}


def _marks(file: Path, name: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Mark, arguments and test, `<file>::<test>`, of each mark in a file."""
    text = file.read_text(encoding="utf-8")
    if not any(f"mark.{mark}(" in text for mark in AREAS):
        return
    for top in ast.parse(text).body:
        parts: Sequence[ast.AST] = [top]
        test = ""
        if isinstance(top, ast.FunctionDef):
            parts, test = top.decorator_list, top.name
        for node in (node for part in parts for node in ast.walk(part)):
            if not (isinstance(node, ast.Call) and (mark := _called(node)) in AREAS):
                continue
            where = f"{name}:{node.lineno}"
            if not test.startswith("test_"):
                raise UserError(f"{where}: {mark} does not mark a test; move it to one")
            yield mark, _arguments(node, mark, where), f"{name}::{test}"


def _called(call: ast.Call) -> str:
    """`x` of `pytest.mark.x(…)`; empty for any other call."""
    is_mark = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Attribute)
    name = ast.unparse(call.func) if is_mark else ""
    return name.removeprefix("pytest.mark.") if name.startswith("pytest.mark.") else ""


def _arguments(call: ast.Call, mark: str, where: str) -> tuple[str, ...]:
    texts = (node.value for node in call.args if isinstance(node, ast.Constant))
    values = tuple(text for text in texts if isinstance(text, str))
    if call.keywords or not len(values) == len(call.args) == 3:
        raise UserError(f"{where}: {mark} takes three strings: area, what is tried, what happens")
    if values[0] not in AREAS[mark]:
        raise unknown(f"{where}: area", values[0], AREAS[mark])
    return values
