"""Options of initializers: fields of a dataclass, declared with their allowed values."""

import math
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from typing import Any

from lexigraft.errors import UserError


def integer(default: int | None, minimum: int = 1) -> Any:
    """An integer of at least `minimum`."""
    return _option(
        default,
        lambda value: type(value) is int and value >= minimum,
        f"an integer of at least {minimum}",
    )


def number(default: float, maximum: float = math.inf) -> Any:
    """A finite number from 0 to `maximum`."""
    bound = "of at least 0" if maximum == math.inf else f"from 0 to {maximum:g}"
    return _option(
        default, lambda value: _is_finite(value) and 0 <= value <= maximum, f"a number {bound}"
    )


def positive(default: float | None) -> Any:
    """A finite number above 0."""
    return _option(default, lambda value: _is_finite(value) and value > 0, "a number above 0")


def boolean(default: bool) -> Any:
    """True or false."""
    return _option(default, lambda value: isinstance(value, bool), "true or false")


def choice(default: str, *others: str) -> Any:
    """One of several names."""
    names = [*dict.fromkeys((default, *others))]
    return _option(default, lambda value: value in names, f"one of {', '.join(names)}")


def text(default: Any = MISSING) -> Any:
    """A text. Without a default, the option is required."""
    return _option(default, lambda value: isinstance(value, str) and value != "", "a text")


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
    """A field whose values are `allowed`, or None if that is the default."""

    def is_allowed(value: Any) -> bool:
        return default is None if value is None else allowed(value)

    return field(default=default, metadata={"allowed": is_allowed, "expected": expected})


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < math.inf
