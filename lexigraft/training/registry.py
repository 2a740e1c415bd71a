"""The training objectives by name: those of this package, and those registered from outside.

Each file of the folder `objectives/` defines one subclass of `Objective`; its file name, with
hyphens, is the name in `config/strategies.yaml`. To add an objective, add a file.

The Snakefile reads what objectives declare, to check a study. Neither this module nor the files of
objectives therefore import torch when they are loaded: their functions that compute import it.
"""

import inspect
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError, unknown

_FOLDER = Path(__file__).parent / "objectives"
_registered: dict[str, Any] = {}  # name -> class of an objective from outside this package


def objective(name: str) -> Any:
    """The class of an objective, a subclass of `lexigraft.training.objective.Objective`.

    Raises a UserError if there is no objective of this name.

    Examples
    --------
    >>> objective("distill").title
    'DISTILL'
    """
    if name not in objectives():
        raise unknown("objective", name, objectives())
    return _registered.get(name) or _packaged(name)


def objectives() -> list[str]:
    """Names of all objectives, in alphabetical order."""
    return sorted([*_packaged_names(), *_registered])


def register(objective_class: Any) -> Any:
    """Add a class of an objective that has a new name, and return it."""
    name = objective_class.name
    if name in _packaged_names() or _registered.get(name, objective_class) is not objective_class:
        raise UserError(f"objective '{name}' exists already; give the new one another name")
    _registered[name] = objective_class
    return objective_class


def objective_file(name: str) -> str:
    """The file of an objective, relative to the repository."""
    file = Path(inspect.getfile(objective(name)))
    root = _FOLDER.parents[2]
    return str(file.relative_to(root) if file.is_relative_to(root) else file)


@cache
def _packaged_names() -> tuple[str, ...]:
    names = (file.stem.replace("_", "-") for file in _FOLDER.glob("[!_]*.py"))
    return tuple(names)


@cache
def _packaged(name: str) -> Any:
    module = import_module(f"lexigraft.training.objectives.{name.replace('-', '_')}")
    # `Objective` itself is not imported here: its module refers to settings, which read this one.
    return next(
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
        if hasattr(value, "losses")
    )
