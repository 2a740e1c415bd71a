"""Generate the tables of config/README.md from models: `python -m workflow.config.documentation`.

A table is after `<!-- table: <class> -->`, which names the class of its settings. The command also
writes the schemas for editors (`workflow.config.schemas`).
"""

import re
from collections.abc import Collection, Iterator, Mapping
from inspect import Parameter, signature
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lexigraft.auxiliary.registry import AuxiliaryKind
from lexigraft.report.items import DEFAULT, Item, choices, kinds, load
from lexigraft.settings import Settings, bare, is_model
from lexigraft.training.registry import objective, objectives
from lexigraft.training.settings import MONOLINGUAL
from workflow.config import schemas
from workflow.config.registries import ROOT

README = ROOT / "config" / "README.md"
TABLE = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "array": "list",
    "object": "mapping",
}
_PLURALS = {"text": "texts", "mapping": "mappings", "whole number": "whole numbers"}
_BOUNDS = {
    "exclusiveMinimum": "above",
    "minimum": "from",
    "exclusiveMaximum": "below",
    "maximum": "to",
}


def documented(text: str) -> str:
    """The text of the README with tables generated from the current models."""
    generated = {"report.kinds": report_kinds, "strategies.objectives": objective_tables}

    def fill(match: re.Match[str]) -> str:
        name = match[2]
        text = generated[name]() if name in generated else table(models()[name])
        return f"{match[1]}{text}{match[4]}"

    return TABLE.sub(fill, text)


def models(base: type[BaseModel] = Settings) -> dict[str, type[BaseModel]]:
    """Every model of settings by the name of its class."""
    found: dict[str, type[BaseModel]] = {}
    for model in base.__subclasses__():
        found = {**models(model), **found, model.__name__: model}
    return found


def table(model: type[BaseModel]) -> str:
    """A table with a row for each key: name, type and bounds, default, and meaning."""
    return (
        "\n".join(["| key | value | default | meaning |", "|---|---|---|---|", *rows(model)]) + "\n"
    )


def rows(model: type[BaseModel], prefix: str = "", only: Collection[str] = ()) -> Iterator[str]:
    """The rows of such a table; `prefix` begins all keys, `only` are the keys that it has."""
    passed_on: Mapping[str, Parameter] = {}
    if issubclass(model, AuxiliaryKind) and model.computed_by:
        passed_on = signature(model.function()).parameters
    schema = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        if only and name not in only:
            continue
        meaning, default = (field.description or "").replace("|", "\\|"), _default(field)
        if name in passed_on and (value := passed_on[name].default) is not Parameter.empty:
            default = f"`{_plain(value)}`"
        yield f"| `{prefix}{name}` | {_value(schema[name])} | {default} | {meaning} |"


def objective_tables() -> str:
    """A table of all objectives, and a table of the keys that only their phases have."""
    lines = ["| objective | what is predicted |", "|---|---|"]
    lines += [f"| `{name}` | {objective(name).predicts} |" for name in objectives()]
    lines += ["", "| objective | key | value | default | meaning |", "|---|---|---|---|---|"]
    for name in objectives():
        phase, keys = objective(name).phase, objective(name).keys()
        for key in (key for key in phase.model_fields if key in keys):
            inner = bare(phase.model_fields[key].annotation)[0]
            of_key = rows(inner, f"{key}.") if is_model(inner) else rows(phase, only=[key])
            lines += [f"| `{name}` {row}" for row in of_key]
    return "\n".join(lines) + "\n"


def report_kinds() -> str:
    """A table with a row for each kind of page, table and figure, and the default items."""
    lines = ["| kind | shows | its own options |", "|---|---|---|"]
    for kind in kinds():
        model = load(kind).options
        text = Item(kind, kind, options=model()).caption()
        shows = re.split(r"(?<=[.;:]) ", text)[0].rstrip(".;:")
        described = []
        for name, field in model.model_fields.items():
            of = ", ".join(f"`{choice}`" for choice in choices(field.annotation))
            described.append(f"`{name}`: {field.description or f'any of {of}'}")
        lines.append(f"| `{kind}` | {shows} | {'; '.join(described)} |")
    shown = ", ".join(f"`{kind}`" for kind in DEFAULT)
    return "\n".join([*lines, "", f"Without `report.items` a report shows {shown}.", ""])


def _value(schema: Mapping[str, Any]) -> str:
    """Type and bounds of a value by its JSON schema, as `model_json_schema` gives it."""
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if kinds := schema.get("anyOf", schema.get("oneOf")):
        names = dict.fromkeys(_value(kind) for kind in kinds if kind != {"type": "null"})
        return " or ".join(names) + (", or `null`" if {"type": "null"} in kinds else "")
    name = _KINDS.get(schema.get("type", "object" if "$ref" in schema else ""), "any")
    if name == "list" and (items := schema.get("items")):
        first, *rest = _value(items).split(", ", 1)
        name = ", ".join([f"list of {_PLURALS.get(first, first)}", *rest])
    return ", ".join(
        [name, *(f"{_BOUNDS[key]} {schema[key]:g}" for key in _BOUNDS if key in schema)]
    )


def _default(field: FieldInfo) -> str:
    if isinstance(field.json_schema_extra, dict) and field.default is None:
        return ""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)  # type: ignore[call-arg]
    if value == {MONOLINGUAL: 1.0}:
        value = MONOLINGUAL
    if isinstance(value, BaseModel):
        value = value.model_dump()
        if any(isinstance(inner, dict | list) for inner in value.values()) or len(value) > 3:
            return "see below"
        return f"`{{{', '.join(f'{key}: {_plain(inner)}' for key, inner in value.items())}}}`"
    if isinstance(value, list) and len(value) > 3:
        return ""
    return "" if value is PydanticUndefined or value == "" else f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).replace("'", "")


if __name__ == "__main__":
    README.write_text(documented(README.read_text(encoding="utf-8")), encoding="utf-8")
    schemas.FOLDER.mkdir(exist_ok=True)
    for path, schema in schemas.files().items():
        path.write_text(schema, encoding="utf-8")
