"""Options of initializers: fields of a dataclass, declared with their allowed values."""

import math
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from typing import Any

from lexigraft.errors import UserError


def integer(default: int | None, minimum: int = 1) -> Any:
    """An integer of at least `minimum`; None is allowed if it is the default."""

    def allowed(value: Any) -> bool:
        if value is None:
            return default is None
        return isinstance(value, int) and not isinstance(value, bool) and value >= minimum

    return _option(default, allowed, f"an integer of at least {minimum}")


def number(default: float, maximum: float = math.inf) -> Any:
    """A finite number from 0 to `maximum`."""
    bound = "of at least 0" if maximum == math.inf else f"from 0 to {maximum:g}"
    return _option(
        default, lambda value: _is_finite(value) and 0 <= value <= maximum, f"a number {bound}"
    )


def positive(default: float | None) -> Any:
    """A finite number above 0; None is allowed if it is the default."""

    def allowed(value: Any) -> bool:
        return default is None if value is None else _is_finite(value) and value > 0

    return _option(default, allowed, "a number above 0")


def boolean(default: bool) -> Any:
    """True or false."""
    return _option(default, lambda value: isinstance(value, bool), "true or false")


def choice(default: str, *others: str) -> Any:
    """One of several names."""
    names = [*dict.fromkeys((default, *others))]
    return _option(default, lambda value: value in names, f"one of {', '.join(names)}")


def text(default: Any = MISSING) -> Any:
    """A text; None is allowed if it is the default. Without a default, the option is required."""

    def allowed(value: Any) -> bool:
        return default is None if value is None else isinstance(value, str) and value != ""

    return _option(default, allowed, "a text")


def check_options(initializer: Any, name: str) -> None:
    """Raise a `UserError` if an option of an initializer has a value that is not allowed."""
    for option in fields(initializer):
        value = getattr(initializer, option.name)
        if option.metadata and not option.metadata["allowed"](value):
            raise UserError(
                f"option '{option.name}' of initializer '{name}': {value!r} is not "
                f"{option.metadata['expected']}"
            )


def _option(default: Any, allowed: Callable[[Any], bool], expected: str) -> Any:
    return field(default=default, metadata={"allowed": allowed, "expected": expected})


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
