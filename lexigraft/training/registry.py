"""Finds training objectives by name.

Each file of the folder `objectives/` defines one subclass of `Objective`; its file name, with
hyphens, is the name in `config/strategies.yaml`. To add an objective, add a file. Neither this
module nor those files import torch when they are loaded, so that a study can be checked without it.
"""

from functools import cache
from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import Any

from lexigraft.errors import unknown

_FOLDER = Path(__file__).parent / "objectives"


def objective(name: str) -> Any:
    """The class of an objective, a subclass of `lexigraft.training.objective.Objective`.

    Raises a UserError if there is no objective of this name.

    Examples
    --------
    >>> objective("distill").needs_teacher
    True
    """
    module = objective_file(name).removesuffix(".py").replace("/", ".")
    classes = [value for value in vars(import_module(module)).values() if isclass(value)]
    # Settings are validated with what objectives declare, so the module of `Objective`, which
    # refers to settings, is not imported here.
    return next(
        value for value in classes if value.__module__ == module and hasattr(value, "for_phase")
    )


def objectives() -> list[str]:
    """Names of all objectives, in alphabetical order."""
    return sorted(
        file.stem.replace("_", "-") for file in _FOLDER.glob("*.py") if file.stem != "__init__"
    )


@cache
def objective_file(name: str) -> str:
    """The file of an objective, relative to the repository.

    Raises a UserError if there is no objective of this name.
    """
    if name not in objectives():
        raise unknown("objective", name, objectives())
    return f"lexigraft/training/objectives/{name.replace('-', '_')}.py"
