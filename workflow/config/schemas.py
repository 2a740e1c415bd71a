"""JSON schemas of a study and of the registries, for completion and checks in editors.

They are generated from the models; `python -m workflow.config.documentation` writes them to
`config/schemas`. A file refers to its schema in its first line:
`# yaml-language-server: $schema=schemas/study.json`. They are less strict than the checks before a
run, since they do not cover references between entries.
"""

import json
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
    schema = _simplified(StudyConfig.model_json_schema(ref_template="#/$defs/study.{model}"))
    definitions = {f"study.{name}": entry for name, entry in schema.pop("$defs").items()}
    for kind in REGISTRIES:
        # An entry with a `base`, or with a name of the registry, gives only what differs.
        _, partial, of_kind = _entries(kind)
        schema["properties"][kind] |= {"type": "object", "additionalProperties": partial}
        definitions |= of_kind
    return {"$schema": _DIALECT, **schema, "$defs": definitions}


def registry(kind: str) -> _Schema:
    """The schema of a registry file, which may have additional keys for anchors."""
    complete, partial, definitions = _entries(kind)
    entry = {"if": {"required": [BASE]}, "then": partial, "else": complete}
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
    prefix = f"#/$defs/{kind}."
    schema = _simplified(TypeAdapter(REGISTRIES[kind]).json_schema(ref_template=prefix + "{model}"))
    definitions = schema.pop("$defs", {})
    models = [
        definitions[model["$ref"].removeprefix(prefix)] if "$ref" in model else model
        for model in schema.get("anyOf", [schema])
    ]
    properties: dict[str, _Schema] = {}
    for model in models:
        for key, value in model["properties"].items():
            alternatives = properties.setdefault(key, {"anyOf": []})["anyOf"]
            if value not in alternatives:
                alternatives.append(value)
        model["properties"] |= _SHARED
    partial = {
        "type": "object",
        "properties": properties | _SHARED,
        "additionalProperties": any(model.get("additionalProperties", True) for model in models),
    }
    return schema, partial, {f"{kind}.{name}": entry for name, entry in definitions.items()}


def _simplified(schema: Any) -> Any:
    """A schema for editors: without class names, and with `anyOf` instead of `oneOf`.

    Several alternatives may match, since a schema cannot check everything.
    """
    if isinstance(schema, list):
        return [_simplified(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    simplified: _Schema = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            simplified[key] = {name: _simplified(inner) for name, inner in value.items()}
        elif key == "default":
            simplified[key] = value
        elif key != "title" or not isinstance(value, str):
            simplified["anyOf" if key == "oneOf" else key] = _simplified(value)
    return simplified
