"""`lexigraft list`: the names of the registries, which studies and commands accept."""

import ast
import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from lexigraft.evaluation import tasks
from lexigraft.initialization.registry import declaration
from lexigraft.settings import plain
from workflow.config.registries import load_registries, read_entries

_REGISTRIES = {"models": "sources"}  # kinds whose registry has another name


class ListedKind(StrEnum):
    """What can be listed."""

    MODELS = "models"
    INITIALIZERS = "initializers"
    STRATEGIES = "strategies"
    TASKS = "tasks"
    LANGUAGES = "languages"


def list(
    kind: Annotated[
        ListedKind, typer.Argument(metavar="KIND", help=", ".join(ListedKind), show_default=False)
    ],
) -> None:
    """List the models, initializers, strategies, tasks or languages that have a name.

    Studies accept these names. `adapt`, `init`, `inspect`, `expand` and `graft` also accept those
    of models, and `--initializer` and `--strategy` those of initializers and strategies.

        lexigraft list models
    """
    registry = _REGISTRIES.get(kind, kind)
    entries, titles = read_entries(registry, {}, load_registries()[registry])
    width = max(map(len, entries))
    plain_tasks: dict[str, Any] = {}
    for name, entry in entries.items():
        # The first task of a kind is the plain one; the others say what they change.
        first = plain_tasks.setdefault(entry.kind, entry) if kind == ListedKind.TASKS else None
        parts = (titles.get(name), *_description(plain(entry), registry, first))
        typer.echo(f"{name:<{width}}  {'; '.join(part for part in parts if part)}")


def _description(entry: Mapping[str, Any], registry: str, first: Any) -> Iterator[str]:
    """What an entry is."""
    if registry == "sources":
        yield entry.get("hub") or f"from the package {entry['package']}"
        if billions := entry["resources"].get("billion_parameters"):
            yield f"{billions:g} billion parameters"
        yield "masked language model" if entry.get("kind") == "masked" else ""
        yield entry.get("license") or ""
    elif registry == "initializers":
        yield _first_line(declaration(entry["method"]).file)
        yield _settings(entry["options"])
        vectors = dict.fromkeys((entry.get("auxiliary") or {}).values())
        yield f"vectors: {', '.join(vectors)}" if vectors else ""
    elif registry == "strategies":
        for phase in entry["phases"]:
            parts = [
                part if isinstance(part, str) else f"layers {', '.join(map(str, part['layers']))}"
                for part in phase["trainable"]
            ]
            yield f"{phase['objective']}, {phase['length']} tokens: {', '.join(parts)}"
        yield "" if entry["phases"] else "no training"
    elif registry == "languages":
        yield from (entry["name"], entry.get("code") or "", entry["script"])
        text = entry.get("text") or {}
        members = (entry.get("group") or {}).get("members", ())
        keys = ("data_files", "package", "paths")
        places = (text[key] for key in keys if text.get(key))
        place = next(places, members)
        yield place if isinstance(place, str) else ", ".join(place)
    else:
        file = Path(tasks.__path__[0], f"{entry['kind'].replace('-', '_')}.py")
        yield _first_line(file)
        plain_task = plain(first)
        yield _settings({key: entry[key] for key in entry if entry[key] != plain_task.get(key)})


def _settings(settings: Mapping[str, Any]) -> str:
    """Settings in one line, without nested ones."""
    return ", ".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in settings.items()
        if isinstance(value, str | int | float | None)
    )


def _first_line(file: Path) -> str:
    """The first line of a module's docstring, without its full stop."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem
    return docstring.splitlines()[0].removesuffix(".")
