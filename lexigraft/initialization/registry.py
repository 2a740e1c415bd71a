"""From the name of a method to its initializer: the files of the folder `methods/` are the list.

No table of methods and no import of one here: adding or editing a method touches its own file only.
"""

import ast
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError, unknown

if TYPE_CHECKING:
    from lexigraft.initialization.interface import Initializer

_FOLDER = Path(__file__).parent / "methods"


def initializer(name: str, **options: Any) -> "Initializer":
    """An initializer that is not fitted yet.

    Parameters
    ----------
    name
        One of `methods()`, e.g. `"align"`.
    options
        The keywords of the method's class.

    Raises
    ------
    UserError
        There is no such method, it has no such option, it lacks one that it cannot do without, or
        the option has no such value.

    Examples
    --------
    >>> initializer("multivariate", covariance_scale=1e-5).name
    'multivariate'
    """
    module = method_file(name).removesuffix(".py").replace("/", ".")
    method = getattr(import_module(module), name.title().replace("-", ""))
    parameters = signature(method).parameters
    valid = list(parameters)
    for option in options:
        if option not in valid:
            if not valid:
                raise UserError(f"initializer '{name}' has no options; take out '{option}'")
            raise unknown(f"initializer '{name}'", option, valid, "one of its options")
    for option, parameter in parameters.items():
        if parameter.default is parameter.empty and option not in options:
            raise UserError(f"initializer '{name}': option '{option}' is missing; name it")
    return method(**options)


def methods() -> list[str]:
    """Names of all methods, in alphabetical order."""
    return sorted(
        file.stem.replace("_", "-") for file in _FOLDER.glob("*.py") if file.stem != "__init__"
    )


def needed_roles(name: str) -> tuple[str, ...]:
    """Roles of the auxiliaries that a method cannot do without: `needs` of its class.

    Read off the text of its file, since importing it brings numpy and the Snakefile is to stay
    light: `needs = (…)` must be written out as a tuple of strings.

    Raises
    ------
    UserError
        There is no such method.
    """
    return _declared(name, "needs")


def read_roles(name: str) -> tuple[str, ...]:
    """What else a method reads: `reads` of its class, found as `needed_roles` finds `needs`."""
    return _declared(name, "reads")


@cache
def _declared(name: str, attribute: str) -> tuple[str, ...]:
    file = _FOLDER / Path(method_file(name)).name
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == attribute:
            return ast.literal_eval(node.value)
    return ()


def method_file(name: str) -> str:
    """The file of a method, relative to the repository: an entry point of its staleness digest.

    Raises
    ------
    UserError
        There is no such method.
    """
    valid = methods()
    if name not in valid:
        raise unknown("initializer", name, valid)
    return f"lexigraft/initialization/methods/{name.replace('-', '_')}.py"
