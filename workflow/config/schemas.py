"""JSON schemas of a study and of the registries, for completion and checks in editors.

They are generated from the models; `python -m workflow.config.documentation` writes them to
`config/schemas`. A file refers to its schema in its first line:
`# yaml-language-server: $schema=schemas/study.json`. They are less strict than the checks before a
run, since they do not cover references between entries.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from workflow.config.registries import BASE, REGISTRIES, ROOT, TITLE
from workflow.config.study import StudyConfig

FOLDER = ROOT / "config" / "schemas"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_Schema = dict[str, Any]
# Keys that every entry of a registry may have in addition to those of its model.
_SHARED = {
    BASE: {"type": "string", "description": "another entry, whose keys this entry inherits"},
    TITLE: {
        "type": "string",
        "description": "name shown in reports, instead of the name of the entry",
    },
}


def files() -> dict[Path, str]:
    """Path -> text of each schema."""
    named = {"study": study()} | {kind: registry(kind) for kind in REGISTRIES}
    return {
        FOLDER / f"{name}.json": json.dumps(schema, ensure_ascii=False, indent=1) + "\n"
        for name, schema in named.items()
    }


def study() -> _Schema:
    """The schema of a study, including its own entries."""
    schema = _plain(StudyConfig.model_json_schema(ref_template="#/$defs/study.{model}"))
    definitions = {f"study.{name}": own for name, own in schema.pop("$defs").items()}
    for kind in REGISTRIES:
        # An entry with a `base`, or with a name of the registry, gives only what differs.
        _, some, own = _entries(kind)
        schema["properties"][kind] |= {"type": "object", "additionalProperties": some}
        definitions |= own
    return {"$schema": _DIALECT, **schema, "$defs": definitions}


def registry(kind: str) -> _Schema:
    """The schema of a registry file, which may have additional keys for anchors."""
    whole, some, definitions = _entries(kind)
    entry = {"if": {"required": [BASE]}, "then": some, "else": whole}
    return {
        "$schema": _DIALECT,
        "title": f"lexigraft: {kind}",
        "type": "object",
        "properties": {kind: {"type": "object", "additionalProperties": entry}},
        "required": [kind],
        "$defs": definitions,
    }


def _entries(kind: str) -> tuple[_Schema, _Schema, dict[str, _Schema]]:
    """Schemas of a complete entry and of a partial one, and their definitions."""
    template = f"#/$defs/{kind}.{{model}}"
    schema = _plain(TypeAdapter(REGISTRIES[kind]).json_schema(ref_template=template))
    definitions = schema.pop("$defs", {})
    models = [_of(one, kind, definitions) for one in schema.get("anyOf", [schema])]
    properties: dict[str, _Schema] = {}
    for model in models:
        for key, own in model["properties"].items():
            same = properties.setdefault(key, {"anyOf": []})["anyOf"]
            if own not in same:
                same.append(own)
        model["properties"] |= _SHARED
    some = {
        "type": "object",
        "properties": properties | _SHARED,
        "additionalProperties": any(model.get("additionalProperties", True) for model in models),
    }
    return schema, some, {f"{kind}.{name}": own for name, own in definitions.items()}


def _of(schema: _Schema, kind: str, definitions: dict[str, _Schema]) -> _Schema:
    """The schema of a model, with a reference resolved."""
    reference = schema.get("$ref")
    return definitions[reference.removeprefix(f"#/$defs/{kind}.")] if reference else schema


def _plain(schema: Any) -> Any:
    """A schema simplified for editors: without `oneOf` and without class names."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return dict(_kept(schema))


def _kept(schema: _Schema) -> Iterator[tuple[str, Any]]:
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs"):
            yield key, {name: _plain(one) for name, one in value.items()}
        elif key == "default":
            yield key, value
        else:
            # Several alternatives may match, since a schema cannot check everything.
            yield "anyOf" if key == "oneOf" else key, _plain(value)
