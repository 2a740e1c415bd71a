"""The developer's check that changed code and result versions agree: `python -m workflow.versions`.

The fingerprint of a result contains versions: of its stage, and of its initializer, objectives,
tasks and metric. The text of the code is no part of it, so an upgrade keeps finished work unless a
version was raised. `versions.lock` lists each version with a digest of the code that it stands for.
When a digest differs, the developer decides: if results change, raise the version of each affected
stage or kind and name it in CHANGELOG.md; then, or if results are the same, run `refresh`.

Comments, docstrings, formatting, and the messages of exceptions and loggers do not count.
"""

import argparse
import ast
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lexigraft.auxiliary.registry import auxiliary_kinds, kind_name
from lexigraft.corpus.loader import loader_file, loaders
from lexigraft.evaluation.learned.checkpoint import learned_kind, learned_kinds
from lexigraft.evaluation.metric_kinds import metric_file, text_metrics
from lexigraft.evaluation.task_kinds import kinds, task_file, task_kind
from lexigraft.initialization.registry import declaration, method_file, methods
from lexigraft.installation import PIPELINE, ROOT
from lexigraft.report.items import kind_file, template_files
from lexigraft.report.items import kinds as report_kinds
from lexigraft.training.registry import objective, objective_file, objectives
from workflow.rule_files import rules

VERSIONS_FILE = Path(__file__).with_name("versions.lock")
# Run in another environment by a command, not imported.
SCORER = "lexigraft/evaluation/learned/scorer.py"
READ_TEXTS = ("prepare_corpus", "prepare_samples", "prepare_examples")
_LOGGING = [f"logger.{level}" for level in ("debug", "info", "warning", "error", "exception")]


class Versioned(NamedTuple):
    """A stage or a kind: its version, and the files that its code starts from."""

    version: int
    files: list[str]  # relative to the repository


def all_versioned() -> dict[str, Versioned]:
    """Every stage and kind with a version, by the name that messages use."""
    more = {
        "build_report": [*map(kind_file, report_kinds()), *template_files()],
        "score_predictions": [SCORER],
        # Stages that read the user's texts, with any loader.
        **{stage: list(map(loader_file, loaders())) for stage in READ_TEXTS},
        "prepare_source": ["lexigraft/source/gguf.py", "lexigraft/bundled/llama2c.py"],
    }
    versioned = {
        f"stage {name}": Versioned(rule.version, [rule.script, *more.get(name, ())])
        for name, rule in rules().items()
        if rule.version is not None
    }
    auxiliaries = {kind_name(kind): kind for kind in auxiliary_kinds()}
    metrics = text_metrics()
    for label, names, kind_of, file_of in (
        ("initializer", methods(), declaration, method_file),
        (
            "auxiliary",
            auxiliaries,
            auxiliaries.__getitem__,
            lambda name: f"{auxiliaries[name].__module__.replace('.', '/')}.py",
        ),
        ("objective", objectives(), objective, objective_file),
        ("task", kinds(), task_kind, task_file),
        ("metric", metrics, metrics.__getitem__, metric_file),
    ):
        for name in names:
            versioned[f"{label} {name}"] = Versioned(kind_of(name).version, [file_of(name)])
    for name, kind in auxiliaries.items():
        if kind.computed_by:
            module = kind.computed_by.rpartition(".")[0]
            versioned[f"auxiliary {name}"].files.append(f"{module.replace('.', '/')}.py")
    for name in learned_kinds():
        files = [SCORER, f"lexigraft/evaluation/learned/kinds/{name}.py"]
        versioned[f"metric {name}"] = Versioned(learned_kind(name).VERSION, files)
    return versioned


def reachable_files(entry_points: list[str]) -> set[str]:
    """The entry points and all lexigraft modules that they import, also indirectly."""
    reached: set[str] = set()
    waiting = list(entry_points)
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            modules = _imports(_path(file).read_bytes()) if file.endswith(".py") else []
            waiting += [module for module in modules if _path(module).is_file()]
    return reached


def digest_code(source: str) -> str:
    """Digest of Python code without comments, docstrings, formatting and messages."""
    # `ast.unparse` writes no fields that only newer versions of Python have.
    return digest_text(ast.unparse(_Messages().visit(ast.parse(source))))


def digest_text(text: str) -> str:
    """Digest of a text, such as a template."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def current() -> dict[str, str]:
    """The content of an up-to-date lock file: stage or kind -> version and digest of its code."""
    versioned = all_versioned()
    reached = {name: sorted(reachable_files(entry.files)) for name, entry in versioned.items()}
    digests = {
        file: (digest_code if file.endswith(".py") else digest_text)(_path(file).read_text())
        for file in {file for files in reached.values() for file in files}
    }
    codes = {
        name: digest_text("\n".join(f"{file} {digests[file]}" for file in files))
        for name, files in reached.items()
    }
    return {name: f"{entry.version} {codes[name]}" for name, entry in versioned.items()}


def check(locked: Mapping[str, str]) -> list[str]:
    """What differs from a lock file: a line for each raised version, and one for changed code."""
    lines, changed = [], []
    now = current()
    for name in dict.fromkeys([*now, *locked]):
        version, _, digest = now.get(name, "none").partition(" ")
        before, _, digest_before = locked.get(name, "none").partition(" ")
        if version != before:
            lines.append(f"{name}: version {before} -> {version}")
        elif digest != digest_before:
            changed.append(name)
    return [*lines, *([f"Code has changed of {', '.join(changed)}."] if changed else [])]


def main() -> None:
    """Check the lock file, or write it anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", nargs="?", choices=("check", "refresh"), default="check")
    if parser.parse_args().action == "refresh":
        VERSIONS_FILE.write_text(json.dumps(current(), indent=1) + "\n", encoding="utf-8")
    elif changes := check(json.loads(VERSIONS_FILE.read_text("utf-8"))):
        advice = (
            "If results change, raise `version` of each stage or kind whose results change and "
            "name it in CHANGELOG.md. Then run `python -m workflow.versions refresh`."
        )
        raise SystemExit("\n".join([*changes, advice]))


def _path(file: str) -> Path:
    """The path of a repository file; an installed wheel has library and workflow in two places."""
    return (ROOT if file.startswith("lexigraft/") else PIPELINE) / file


@cache
def _imports(source: bytes) -> list[str]:
    """The files of the lexigraft modules that a file imports, in functions too.

    Some do not exist: `from lexigraft.errors import UserError` may import a module `UserError`.
    `__init__` files are not included: they only re-export.
    """
    files: list[str] = []
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        own = [module for module in modules if module.split(".")[0] == "lexigraft"]
        files += [f"{module.replace('.', '/')}.py" for module in own]
    return files


class _Messages(ast.NodeTransformer):
    """Removes docstrings, and the arguments of exceptions and of calls of a logger."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return super().generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args, node.exc.keywords = [], []
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) in _LOGGING:
            node.args, node.keywords = [], []
        return self.generic_visit(node)


if __name__ == "__main__":
    main()
