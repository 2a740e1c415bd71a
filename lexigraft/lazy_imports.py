"""Public names of packages, whose modules are imported when a name is first used."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any


def lazy_imports(
    package: str, modules: dict[str, str], defined: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package that imports nothing until it is used.

    `modules` are the public names with the modules that define them, `defined` those that the
    package defines itself.
    """
    names = [*modules, *defined]

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(modules[name]), name)

    return names, attribute, lambda: sorted(names)
