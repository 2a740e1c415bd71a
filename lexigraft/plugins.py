"""Plug-ins: initializers, objectives, tasks and other kinds that are defined outside the library.

A study lists them under `plugins`: Python files, or names of entry points of installed packages in
the group `lexigraft.plugins`. Only what a study lists is imported. A plug-in registers the kinds
that it defines; docs/extend.md shows how. Jobs load the plug-ins of their study (`lexigraft.job`).
A result depends on the plug-in that computed it by the digest of the plug-in's code.
"""

import hashlib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lexigraft.auxiliary.registry import auxiliary_kinds, kind_name
from lexigraft.corpus.loader import loaders
from lexigraft.declarations import load
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.learned.checkpoint import learned_kinds
from lexigraft.evaluation.metric_kinds import text_metrics
from lexigraft.evaluation.task_kinds import kinds as task_kinds
from lexigraft.initialization.registry import methods
from lexigraft.initialization.registry import register as register_initializers
from lexigraft.report.items import kinds as report_kinds
from lexigraft.training.registry import objectives

GROUP = "lexigraft.plugins"  # of entry points


@dataclass(frozen=True)
class Plugin:
    """A loaded plug-in.

    `name` is what a study calls it, `file` the Python file that was imported, `digest` that of its
    code, and `kinds` are the kinds that it defines, such as `initializer mine`.
    """

    name: str
    file: Path
    digest: str
    kinds: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {', '.join(self.kinds) or 'defines nothing'}"


_loaded: dict[str, Plugin] = {}


def load_plugins(names: Iterable[str]) -> list[Plugin]:
    """Load plug-ins by the names that a study gives them, each once in a process.

    Raises a UserError, which names the plug-in, if it does not exist or cannot be imported.
    """
    return [_loaded.get(name) or _load(name) for name in names]


def with_digests(versions: Mapping[str, Any], settings: Any = None) -> dict[str, Any]:
    """The versions of the kinds that compute a result, with the code of those from plug-ins.

    `versions` has a version by kind, such as `initializer mine`. Loaders and report items that the
    `settings` of a job name are added if they are from a plug-in.
    """
    digests = {kind: plugin.digest for plugin in _loaded.values() for kind in plugin.kinds}
    if not digests:
        return dict(versions)
    used = {**versions, **{kind: 1 for kind in _named_kinds(settings) if kind in digests}}
    return {
        kind: f"{version}, plug-in {digests[kind]}" if kind in digests else version
        for kind, version in used.items()
    }


def _named_kinds(settings: Any) -> Iterator[str]:
    """The loaders of texts and the kinds of report items in nested settings."""
    if isinstance(settings, Mapping):
        yield f"loader {settings.get('loader')}"
        yield f"report item {settings.get('item')}"
        items = settings.get("items")
        yield from (f"report item {item}" for item in (items if isinstance(items, list) else ()))
        settings = list(settings.values())
    if isinstance(settings, list | tuple):
        for value in settings:
            yield from _named_kinds(value)


def _load(name: str) -> Plugin:
    known, where = _registered_kinds(), f"plugins: '{name}'"
    module, file = None, Path(name).expanduser()
    if not name.endswith(".py"):
        points = {point.name: point.value for point in entry_points(group=GROUP)}
        if name not in points:
            among = f"a Python file (*.py) or an entry point in the group {GROUP}"
            raise unknown("plugins", name, points, among)
        module = points[name]
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise UserError(f"{where}: there is no module {module}; reinstall the package")
        file = Path(spec.origin)
    if not file.is_file():
        raise UserError(f"{where}: there is no such file; correct the path, or remove it")
    try:
        load(file, module)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        reason = f"{type(error).__name__}: {error}, line {line}"
        raise UserError(f"{where}: cannot be imported ({reason}); correct it") from error
    register_initializers(file, module)
    kinds = tuple(kind for kind in _registered_kinds() if kind not in known)
    _loaded[name] = Plugin(name, file, _digest(file, module), kinds)
    return _loaded[name]


def _registered_kinds() -> list[str]:
    names = {
        "initializer": methods(),
        "auxiliary": map(kind_name, auxiliary_kinds()),
        "objective": objectives(),
        "task": task_kinds(),
        "metric": [*text_metrics(), *learned_kinds()],
        "loader": loaders(),
        "report item": report_kinds(),
    }
    return [f"{sort} {name}" for sort, registered in names.items() for name in registered]


def _digest(file: Path, module: str | None) -> str:
    """Digest of a file, or of all Python files of the package that a module belongs to."""
    files = [file]
    if module is not None and (file.name == "__init__.py" or "." in module):
        package = file.parents[module.count(".") - (file.name != "__init__.py")]
        files = sorted(package.rglob("*.py"))
    content = b"\0".join(each.read_bytes() for each in files)
    return hashlib.sha256(content).hexdigest()[:16]
