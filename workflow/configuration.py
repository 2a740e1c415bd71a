"""Reads a study's config and the registries, checks them, and fills in defaults: before any job.

Plain Python and jsonschema only: the Snakefile is parsed again in every job.
"""

import posixpath
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from lexigraft.cells import NAME
from lexigraft.errors import UserError, suggestion
from lexigraft.report.items import check_items, read_items
from workflow.checks import check_local_files, check_study

ROOT = Path(__file__).resolve().parent.parent
REGISTRIES = (
    "packages",
    "sources",
    "tokenizers",
    "languages",
    "vocabularies",
    "auxiliary",
    "initializers",
    "strategies",
    "tasks",
    "metrics",
)


def load_registries(folder: Path = ROOT / "config") -> dict[str, dict[str, Any]]:
    """Read `config/<registry>.yaml` for every registry: name -> settings, not yet validated."""
    registries = {}
    for kind in REGISTRIES:
        content = read_yaml(folder / f"{kind}.yaml")
        registries[kind] = content.get(kind, {}) if isinstance(content, dict) else {}
    return registries


def resolve(
    config: dict[str, Any], registries: dict[str, dict[str, Any]], require_files: bool = True
) -> dict[str, Any]:
    """Validate a study's config against the schemas and the registries, and fill in defaults.

    Parameters
    ----------
    config
        The study: cells, tasks, report items, and registry entries of its own. An entry with a
        name that the registry holds changes the keys it gives and keeps the others.
    registries
        What `load_registries` read.
    require_files
        Whether local files that the study reads must be there already. A plan (`snakemake -n`)
        needs none; what is run calls `check_local_files` before its first job.

    Returns
    -------
    dict
        The study with all its defaults, and under each registry's name every entry, complete.

    Raises
    ------
    UserError
        Naming the first key that is wrong, what is wrong with it, and what would be right.
    """
    study = _checked(deepcopy(config), "study", "config")
    for key in ("results", "packages_folder"):
        study[key] = posixpath.join(study["prefix"] or "", study[key])
    for kind in REGISTRIES:
        entries = deepcopy(registries[kind])
        for name, settings in study.get(kind, {}).items():
            entries[name] = {**entries.get(name, {}), **settings}
        for name in entries:
            _check_name(name, kind)
        study[kind] = {
            name: _checked(settings, kind, f"{kind}.{name}") for name, settings in entries.items()
        }
    for entry in study["initializers"].values():
        entry["auxiliary"] = _by_role(entry["auxiliary"])
    check_study(study)
    check_items(
        read_items(study["report"]["items"]),
        study["cells"],
        study["run_tasks"],
        study["fragmentation"],
    )
    if require_files:
        check_local_files(study)
    return study


def read_yaml(path: Path) -> Any:
    """Read one YAML file; a `UserError` names the file and line where it does not parse."""
    try:
        # The loader in C: the one in Python takes a quarter of the time of a plan.
        return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader) or {}
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: not valid YAML ({reason})") from None


def _by_role(auxiliary: str | dict[str, str] | None) -> dict[str, str]:
    """The auxiliaries of an initializer as role -> entry; one without a role is the target's."""
    if auxiliary is None:
        return {}
    return {"target": auxiliary} if isinstance(auxiliary, str) else auxiliary


def _check_name(name: Any, where: str) -> None:
    """Names become folders and wildcards, whether a cell uses the entry or not."""
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        raise UserError(
            f"{where}: {name!r} is no name; use letters, digits, '.', '_' and '-', the first of "
            "them a letter or a digit"
        )


def _whole(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    """A pattern fits all of a text. Python's `$` would let a line feed follow."""
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator = extend(Draft202012Validator, {"pattern": _whole})


def _checked(value: Any, schema_name: str, where: str) -> Any:
    schema = _schema(schema_name)
    errors = sorted(_Validator(schema).iter_errors(value), key=_depth)
    if errors:
        error = errors[0]
        key = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
        )
        raise UserError(f"{where}{key}: {_reason(error, schema)}")
    return _with_defaults(value, schema)


@cache
def _schema(name: str) -> dict[str, Any]:
    # Once, not for every entry of a registry: that took a fifth of the time of a plan.
    return read_yaml(ROOT / "workflow" / "schemas" / f"{name}.schema.yaml")


def _depth(error: Any) -> tuple[int, str]:
    # The shallowest error is the one that the reader can act on.
    return len(error.absolute_path), str(list(error.absolute_path))


def _reason(error: Any, schema: dict) -> str:
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        extra = [key for key in error.instance if key not in known]
        return f"unknown key '{extra[0]}'{suggestion(str(extra[0]), known)}"
    if error.validator in ("oneOf", "anyOf"):
        # Say what is wrong with the one alternative that the value claims to be.
        branches: dict[int, list] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        meant = [
            errors for errors in branches.values() if all(e.validator != "const" for e in errors)
        ]
        if len(meant) == 1 and len(branches) > 1:
            return _reason(min(meant[0], key=_depth), schema)
        return error.schema.get("description", "has none of the forms that are allowed")
    hint = error.schema.get("description", "")
    return error.message + (f" ({hint})" if hint and error.validator != "required" else "")


def _with_defaults(value: Any, schema: dict) -> Any:
    if isinstance(value, dict):
        for key, inner in schema.get("properties", {}).items():
            if key not in value and "default" in inner:
                value[key] = deepcopy(inner["default"])
            if key in value:
                value[key] = _with_defaults(value[key], inner)
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            for key in value.keys() - schema.get("properties", {}).keys():
                value[key] = _with_defaults(value[key], others)
        for branch in schema.get("oneOf", ()):
            if _claims(value, branch):
                value = _with_defaults(value, branch)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        value = [_with_defaults(item, schema["items"]) for item in value]
    return value


def _claims(value: dict, branch: dict) -> bool:
    """Whether a value is of this alternative: it has the keys and the constants that make it."""
    constants = {
        key: inner["const"]
        for key, inner in branch.get("properties", {}).items()
        if "const" in inner
    }
    return all(value.get(key) == constant for key, constant in constants.items()) and all(
        key in value for key in branch.get("required", ())
    )
