"""Reads a task's entry of config/tasks.yaml into the settings class of its kind."""

from dataclasses import fields
from typing import Any, TypeVar

from lexigraft.errors import UserError

Settings = TypeVar("Settings")


def read_settings(kind: type[Settings], job: dict[str, Any]) -> Settings:
    """An instance of the dataclass `kind` from the job's settings; what is absent gets its default.

    The `engine` is no setting of a kind: see `opening`.

    Raises
    ------
    UserError
        A setting has a name that this kind of task does not know.
    """
    given = {
        name: value for name, value in job["settings"].items() if name not in ("kind", "engine")
    }
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': no setting '{unknown[0]}' "
            f"(kind {job['settings']['kind']} has {', '.join(known)})"
        )
    return kind(**given)
