"""Generate the tables of config/README.md from models: `python -m workflow.config.documentation`.

A table is after `<!-- table: <class> -->`, which names the class of its settings. The command also
writes the schemas for editors (`workflow.config.schemas`).
"""

import re
from collections.abc import Iterator, Mapping
from inspect import Parameter, signature
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

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
_KINDS = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}


def documented(text: str) -> str:
    """The text of the README with tables generated from the current models."""
    generated = {"report.kinds": report_kinds, "strategies.objectives": objective_tables}

    def fill(match: re.Match[str]) -> str:
        name = match[2]
        rows = generated[name]() if name in generated else table(models()[name])
        return f"{match[1]}{rows}{match[4]}"

    return TABLE.sub(fill, text)


def models(base: type[BaseModel] = Settings) -> dict[str, type[BaseModel]]:
    """Every model of settings by the name of its class."""
    found: dict[str, type[BaseModel]] = {}
    for model in base.__subclasses__():
        found = {**models(model), **found, model.__name__: model}
    return found


def table(model: type[BaseModel]) -> str:
    """A table with a row for each key: name, type and bounds, default, and meaning."""
    passed_on: Mapping[str, Parameter] = {}
    if issubclass(model, AuxiliaryKind) and (function := model.function()):
        passed_on = signature(function).parameters
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        description = (field.description or "").replace("|", "\\|")
        default = _default(field)
        if name in passed_on and (value := passed_on[name].default) is not Parameter.empty:
            default = f"`{_plain(value)}`"
        rows.append(f"| `{name}` | {_value(field)} | {default} | {description} |")
    return "\n".join(rows) + "\n"


def objective_tables() -> str:
    """A table of all objectives, and a table of the keys that only their phases have."""
    lines = ["| objective | what is predicted |", "|---|---|"]
    lines += [f"| `{name}` | {objective(name).predicts} |" for name in objectives()]
    lines += ["", "| objective | key | value | default | meaning |", "|---|---|---|---|---|"]
    for name in objectives():
        keys, fields = objective(name).keys(), objective(name).phase.model_fields
        rows = {key: field for key, field in fields.items() if key in keys}
        for key in list(rows):
            if is_model(model := bare(rows[key].annotation)[0]):
                del rows[key]
                rows |= {f"{key}.{inner}": field for inner, field in model.model_fields.items()}
        for key, field in rows.items():
            meaning = (field.description or "").replace("|", "\\|")
            lines.append(
                f"| `{name}` | `{key}` | {_value(field)} | {_default(field)} | {meaning} |"
            )
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


def _value(field: FieldInfo) -> str:
    bounds = ", ".join(_bounds(field.metadata))
    kind, null, _ = _kind(field.annotation).partition(", or `null`")
    return kind + (f", {bounds}" if bounds else "") + null


def _kind(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        inner, *metadata = get_args(kind)
        return ", ".join([_kind(inner), *_bounds(metadata)])
    origin, members = get_origin(kind), get_args(kind)
    if NoneType in members:
        kinds = [_kind(member) for member in members if member is not NoneType]
        return f"{' or '.join(kinds)}, or `null`"
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in members)
    if origin in (list, tuple):
        return f"list of {_plural(_kind(members[0]))}"
    if origin is dict or is_model(kind):
        return "mapping"
    if tags := bare(kind)[1]:
        return " or ".join(dict.fromkeys(map(_kind, tags.values())))
    return _KINDS.get(kind, "any")


def _plural(kind: str) -> str:
    first, *rest = kind.split(", ", 1)
    plural = {"text": "texts", "mapping": "mappings", "whole number": "whole numbers"}
    return ", ".join([plural.get(first, first), *rest])


def _bounds(metadata: list[Any]) -> Iterator[str]:
    for constraint in metadata:
        if isinstance(constraint, FieldInfo):
            yield from _bounds(constraint.metadata)
        for name, text in (("gt", "above"), ("ge", "from"), ("lt", "below"), ("le", "to")):
            if (bound := getattr(constraint, name, None)) is not None:
                yield f"{text} {bound:g}"


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
