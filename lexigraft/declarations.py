"""Read what classes declare from the text of their files, without importing them.

Files of initializers, objectives and other kinds import numpy or torch, which the Snakefile should
not load. What it needs to know of a class (its name, what it reads, its version) are literals in
the body of the class: `needs = ("target",)`, `version = 2`.
"""

import ast
import importlib.util
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from lexigraft.errors import UserError


@dataclass(frozen=True)
class DeclaredClass:
    """A class of a file: the names of its base classes, and its attributes that are literals."""

    name: str
    bases: tuple[str, ...]
    attributes: Mapping[str, Any]


@cache
def declared_classes(file: Path) -> tuple[DeclaredClass, ...]:
    """The classes at the top level of a Python file, in the order of the file.

    Raises a `UserError` if the file cannot be read or is not Python.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{file}: cannot be read as Python ({error}); correct it") from None
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return tuple(
        DeclaredClass(
            node.name,
            tuple(ast.unparse(base).rpartition(".")[2] for base in node.bases),
            _literals(node),
        )
        for node in classes
    )


def _literals(node: ast.ClassDef) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for statement in node.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        with suppress(ValueError, TypeError):  # computed, such as the default of an option
            value = ast.literal_eval(statement.value)
            values |= {target.id: value for target in targets if isinstance(target, ast.Name)}
    return values


def load_file(file: Path) -> ModuleType:
    """Import a Python file that belongs to no package, once in each process."""
    name = f"lexigraft_file {file.resolve()}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None  # it is a .py file
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up there
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def load(file: Path, module: str | None) -> ModuleType:
    """Import a module by its name, or a file that belongs to no package."""
    return load_file(file) if module is None else import_module(module)
