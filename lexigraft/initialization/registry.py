"""Initializers by name: the files in `methods/`, and those of other files that `register` adds.

What must be known of a method before it runs is read from the text of its file.
"""

from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.declarations import DeclaredClass, declared_classes, load
from lexigraft.errors import UserError, unknown

if TYPE_CHECKING:
    from lexigraft.initialization.interface import Initializer

_FOLDER = Path(__file__).parent / "methods"


@dataclass(frozen=True)
class Declaration:
    """What a method declares: attributes of its class, see `Initializer`, and its file."""

    name: str
    title: str
    version: int
    needs: tuple[str, ...]
    reads: tuple[str, ...]
    file: Path
    module: str | None
    class_name: str

    @property
    def learns(self) -> bool:
        """Whether the method reads the weights of the source model, as training does."""
        return not {"matrices", "model"}.isdisjoint(self.reads)

    @property
    def pairs_role(self) -> str | None:
        """The role in which the method reads pairs of texts, parallel text first; None if it reads
        none.
        """
        roles = (*self.needs, *self.reads)
        return next((role for role in ("parallel", "dictionary") if role in roles), None)


def initializer(name: str, **options: Any) -> "Initializer":
    """Create an unfitted initializer: one of `methods()`, with the options of its class.

    Raises a `UserError` if the method or an option does not exist, a required option is missing, or
    an option has an invalid value.

    Examples
    --------
    >>> import lexigraft
    >>> lexigraft.initializer("multivariate", covariance_scale=1e-5).name
    'multivariate'
    """
    method = initializer_class(name)
    parameters = signature(method).parameters
    for option in options:
        if option not in parameters:
            raise unknown(f"initializer '{name}'", option, list(parameters), "one of its options")
    for option, parameter in parameters.items():
        if parameter.default is parameter.empty and option not in options:
            raise UserError(f"initializer '{name}': option '{option}' is missing; specify it")
    return method(**options)


def initializer_class(name: str) -> "type[Initializer]":
    """The class of a method; raises a `UserError` if there is no such method."""
    declared = declaration(name)
    method: type[Initializer] = getattr(load(declared.file, declared.module), declared.class_name)
    for attribute in ("version", "needs", "reads"):
        if getattr(method, attribute) != getattr(declared, attribute):
            raise UserError(
                f"{declared.file}: '{attribute}' of {declared.class_name} is inherited or computed;"
                " write its value in the class"
            )
    return method


def methods() -> list[str]:
    """Names of all methods, in alphabetical order.

    Examples
    --------
    >>> [name for name in methods() if name.startswith("align")]
    ['align', 'align-as-published']
    """
    return sorted(_declarations())


def declaration(name: str) -> Declaration:
    """What a method declares, without importing it; raises a `UserError` for an unknown method.

    Examples
    --------
    >>> wechsel = declaration("wechsel")
    >>> wechsel.title, wechsel.version, wechsel.needs
    ('WECHSEL', 1, ('target', 'source'))
    """
    if name not in _declarations():
        raise unknown("initializer", name, methods())
    return _declarations()[name]


def register(file: str | Path, module: str | None = None) -> list[str]:
    """Add the methods that a Python file declares; returns their names.

    A method is a class with a literal `name` that derives from a class whose name ends in
    `Initializer`. The file is imported when one of its methods is used: as `module` if it belongs
    to a package. Raises a `UserError` if a name is taken by another file.
    """
    names = []
    for declared in declared_classes(Path(file)):
        if _is_initializer(declared) and "name" in declared.attributes:
            added = _declaration(declared, declared.attributes["name"], Path(file), module)
            earlier = _declarations().setdefault(added.name, added)
            if earlier.file != added.file:
                raise UserError(
                    f"{file}: initializer '{added.name}' exists already, in {earlier.file}; rename"
                )
            names.append(added.name)
    return names


@cache
def _declarations() -> dict[str, Declaration]:
    """The methods by name: those of the folder, to which `register` adds others."""
    declarations = {}
    for file in sorted(_FOLDER.glob("*.py")):
        if declared := next(filter(_is_initializer, declared_classes(file)), None):
            name, module = file.stem.replace("_", "-"), f"{__package__}.methods.{file.stem}"
            declarations[name] = _declaration(declared, name, file, module)
    return declarations


def _is_initializer(declared: DeclaredClass) -> bool:
    return any(base.endswith("Initializer") for base in declared.bases)


def _declaration(declared: DeclaredClass, name: str, file: Path, module: str | None) -> Declaration:
    title = name.replace("-", " ").capitalize()
    values: dict[str, Any] = {"title": title, "version": 1, "needs": (), "reads": ()}
    values |= {key: declared.attributes[key] for key in values if key in declared.attributes}
    return Declaration(name=name, file=file, module=module, class_name=declared.name, **values)


def method_file(name: str) -> str:
    """Path of a method's file, relative to the repository."""
    return declaration(name).file.relative_to(_FOLDER.parents[2]).as_posix()
