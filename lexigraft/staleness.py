"""A digest of the code that a job runs: editing code re-runs the job, editing comments does not.

Standard library only: the Snakefile computes these digests each time it is parsed.
"""

import ast
import hashlib
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lexigraft.artifacts.atomic import write_json
from lexigraft.installation import PIPELINE, ROOT

_MOST = 5000  # number of files whose parsed content is cached, newest first


class _Code(NamedTuple):
    syntax: str  # digest of the syntax tree without docstrings
    imports: list[str]  # files of the imported lexigraft modules, relative to the repository


def code_digest(*entry_points: str) -> str:
    """Digest of the entry points and of all lexigraft modules that they import, also indirectly.

    Entry points are paths relative to the repository, e.g. `scripts/train.py`. Comments, docstrings
    and formatting do not count; names, constants and imports do.
    """
    known = _parsed()
    before = len(known)
    found: dict[str, _Code] = {}
    waiting = list(entry_points)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = _read(file)
            waiting.extend(found[file].imports)
    if len(known) > before:
        with suppress(OSError):  # a read-only clone
            write_json(_memory(), dict([*known.items()][-_MOST:]))
    text = "\n".join(f"{file} {found[file].syntax}" for file in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _read(file: str) -> _Code:
    """The parsed content of a file, cached by the digest of its text."""
    source = _place(file).read_bytes()
    text = hashlib.sha256(source).hexdigest()
    known = _parsed()
    if text not in known:
        known[text] = _parse(source, file)
    # A module may have been added or removed since.
    return known[text]._replace(imports=[f for f in known[text].imports if _place(f).is_file()])


def _parse(source: bytes, file: str) -> _Code:
    """Parse a file; for a file that is not Python, such as a template, its bytes are hashed.

    Imports within functions are included. `__init__` files are not: they contain no logic, and no
    module imports through them.
    """
    if not file.endswith(".py"):
        return _Code(hashlib.sha256(source).hexdigest(), [])
    tree = ast.parse(source, filename=file)
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    own = [module for module in modules if module.split(".")[0] == "lexigraft"]
    syntax = hashlib.sha256(_written(tree).encode()).hexdigest()
    return _Code(syntax, sorted(f"{module.replace('.', '/')}.py" for module in own))


def _written(node: object) -> str:
    """A syntax tree as text, the same in every version of Python, unlike `ast.dump`.

    A newer version may add fields, which are empty in code that older versions can parse
    (`type_params` since 3.12), and supports more Unicode characters, which `repr` does not escape.
    """
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
        given = ",".join(f"{name}={_written(value)}" for name, value in fields)
        return f"{type(node).__name__}({given})"
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    return ascii(node)


def _place(file: str) -> Path:
    """The path of a repository file; an installed wheel has library and workflow in two places."""
    return (ROOT if file.startswith("lexigraft/") else PIPELINE) / file


def _memory() -> Path:
    """The cache, next to the bytecode; parsing all files takes half a second per Snakemake run."""
    return ROOT / "lexigraft/__pycache__/staleness.json"


@cache
def _parsed() -> dict[str, _Code]:
    """Digest of a file's text -> its parsed content."""
    with suppress(OSError, ValueError, TypeError):
        return {text: _Code(*code) for text, code in json.loads(_memory().read_text()).items()}
    return {}
