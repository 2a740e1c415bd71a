"""Kinds by name: one module each in a package, and those that plug-ins register."""

from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from lexigraft.errors import UserError, unknown

Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """The kinds of a package, whose modules are imported when they are asked for.

    A kind is the `constant` of its module or, without one, the module; `what` names it in messages.
    """

    def __init__(self, package: str, constant: str | None, what: str):
        self._package, self._constant, self._what = package, constant, what
        self._folder = package.replace(".", "/")
        files = (Path(__file__).resolve().parents[1] / self._folder).glob("[!_]*.py")
        self._bundled = frozenset(file.stem for file in files)
        self.registered: dict[str, tuple[Kind, str]] = {}  # and the path of its file

    def names(self) -> list[str]:
        """Every kind, sorted."""
        return sorted({*self._bundled, *self.registered})

    def get(self, name: str) -> Kind:
        """A kind; raises `UserError` if there is none of this name."""
        if name in self.registered:
            return self.registered[name][0]
        if name not in self._bundled:
            raise unknown(self._what, name, self.names())
        module = import_module(f"{self._package}.{name}")
        kind: Any = getattr(module, self._constant) if self._constant else module
        return kind

    def register(self, name: str, kind: Kind, file: str) -> None:
        """Add a kind that is defined in another file; a UserError if another one has its name."""
        if name in self.names() and self.registered.get(name) != (kind, file):
            raise UserError(f"{self._what} '{name}' exists already; give the new one another name")
        self.registered[name] = kind, file

    def file(self, name: str) -> str:
        """Path of the file of a kind, relative to the repository; of a registered one, absolute."""
        return self.registered[name][1] if name in self.registered else f"{self._folder}/{name}.py"
