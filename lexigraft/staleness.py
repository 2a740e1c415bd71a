"""A digest of the code that a job runs: editing code re-runs the job, editing comments does not.

Standard library only: the Snakefile computes these digests each time it is parsed.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def code_digest(*entry_points: str) -> str:
    """Digest of the entry points and of every lexigraft module that they import, directly or not.

    Entry points are paths relative to the repository, e.g. `scripts/train.py`. Comments, docstrings
    and layout do not count; names, constants and imports do.
    """
    files: set[Path] = set()
    waiting = [ROOT / entry for entry in entry_points]
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            waiting.extend(_read(file)[1])
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\n{_read(file)[0]}\n".encode())
    return digest.hexdigest()[:16]


@cache
def _read(file: Path) -> tuple[str, tuple[Path, ...]]:
    """The syntax tree of a file, as text without docstrings, and the modules that it imports.

    Imports within functions are included. `__init__` files are not: they hold no logic, and no
    module imports through them.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
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
    paths = (ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in own)
    return ast.dump(tree), tuple(sorted(path for path in paths if path.is_file()))
