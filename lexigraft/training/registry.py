"""The training objectives by name.

Each file of the folder `objectives/` defines one subclass of `Objective`, whose name in
`config/strategies.yaml` is that of the file. To add an objective, add a file.

The Snakefile reads what objectives declare, to check a study. Neither this module nor the files of
objectives therefore import torch when they are loaded: their functions that compute import it.
"""

import inspect
from functools import cache
from typing import Any

from lexigraft.registry import Registry

# Modules, and the classes of registered objectives.
OBJECTIVES: Registry[Any] = Registry("lexigraft.training.objectives", None, "objective")
objectives = OBJECTIVES.names
objective_file = OBJECTIVES.file


def objective(name: str) -> Any:
    """The class of an objective, a subclass of `lexigraft.training.objective.Objective`.

    Raises a UserError if there is no objective of this name.

    Examples
    --------
    >>> objective("distill").title
    'DISTILL'
    """
    kind = OBJECTIVES.get(name)
    return kind if inspect.isclass(kind) else _defined_in(kind)


def register(objective_class: Any) -> Any:
    """Add a class of an objective that has a new name, and return it."""
    OBJECTIVES.register(objective_class.name, objective_class, inspect.getfile(objective_class))
    return objective_class


@cache
def _defined_in(module: Any) -> Any:
    # `Objective` itself is not imported here: its module refers to settings, which read this one.
    return next(
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
        if hasattr(value, "losses")
    )
