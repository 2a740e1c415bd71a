"""Look up initializers by name: each file in `methods/` registers one, so there is no table."""

import ast
from functools import cache
from importlib import import_module
from inspect import isclass, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError, unknown

if TYPE_CHECKING:
    from lexigraft.initialization.interface import Initializer

_FOLDER = Path(__file__).parent / "methods"


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
        if not parameters:
            raise UserError(f"initializer '{name}' has no options; remove '{option}'")
        if option not in parameters:
            raise unknown(f"initializer '{name}'", option, list(parameters), "one of its options")
    for option, parameter in parameters.items():
        if parameter.default is parameter.empty and option not in options:
            raise UserError(f"initializer '{name}': option '{option}' is missing; specify it")
    return method(**options)


def initializer_class(name: str) -> "type[Initializer]":
    """The class of a method; raises a `UserError` if there is no such method."""
    from lexigraft.initialization.interface import Initializer

    module = import_module(method_file(name).removesuffix(".py").replace("/", "."))
    classes = [member for member in vars(module).values() if isclass(member)]
    own = [member for member in classes if member.__module__ == module.__name__]
    return next(member for member in own if issubclass(member, Initializer))


def methods() -> list[str]:
    """Names of all methods, in alphabetical order.

    Examples
    --------
    >>> methods()[:3]
    ['align', 'clp', 'cw2v']
    """
    return sorted(
        file.stem.replace("_", "-") for file in _FOLDER.glob("*.py") if file.stem != "__init__"
    )


def needed_roles(name: str) -> tuple[str, ...]:
    """Roles of the auxiliaries that a method requires: `needs` of its class.

    Parsed from the text of its file, since an import would load numpy into the Snakefile: `needs`
    must be a literal tuple of strings. Raises a `UserError` if there is no such method.

    Examples
    --------
    >>> needed_roles("wechsel")
    ('target', 'source')
    """
    roles: tuple[str, ...] = _declared(name, "needs")
    return roles


def read_roles(name: str) -> tuple[str, ...]:
    """Further auxiliaries of a method: `reads` of its class, see `needed_roles`."""
    roles: tuple[str, ...] = _declared(name, "reads")
    return roles


def samples_role(name: str) -> str | None:
    """The role in which a method reads pairs of a language's samples; None if it reads no pairs.

    The pairs are parallel text or, for a method that reads no such text, entries of its dictionary.

    Examples
    --------
    >>> samples_role("transtokenizers"), samples_role("dictionary-alignment"), samples_role("mean")
    ('parallel', 'dictionary', None)
    """
    roles = (*needed_roles(name), *read_roles(name))
    return next((role for role in ("parallel", "dictionary") if role in roles), None)


def method_version(name: str) -> int:
    """The version of a method's results: `version` of its class, see `needed_roles`."""
    version: int = _declared(name, "version", 1)
    return version


@cache
def _declared(name: str, attribute: str, default: Any = ()) -> Any:
    file = _FOLDER / Path(method_file(name)).name
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == attribute:
            return ast.literal_eval(node.value)
    return default


@cache
def method_file(name: str) -> str:
    """Path of a method's file, relative to the repository.

    Raises a `UserError` if there is no such method.
    """
    valid = methods()
    if name not in valid:
        raise unknown("initializer", name, valid)
    return f"lexigraft/initialization/methods/{name.replace('-', '_')}.py"
