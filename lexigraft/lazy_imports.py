"""Public names of packages that import their modules when a name is first used."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any


def lazy_imports(
    package: str, modules: dict[str, str], defined: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package that imports modules on first use.

    `modules` maps public names to the modules that define them; `defined` are names that the
    package defines itself.
    """
    names = [*modules, *defined]

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(modules[name]), name)

    return names, attribute, lambda: sorted(names)
