"""Options of initializers that are numbers, checked where they come in."""

from typing import Any

from lexigraft.errors import UserError


def whole(method: str, option: str, value: Any, lowest: int = 1) -> int:
    """A whole number from `lowest` up.

    Raises
    ------
    UserError
        It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise UserError(
            f"option '{option}' of initializer '{method}': {value!r} is no whole number from "
            f"{lowest} up"
        )
    return value


def above_zero(method: str, option: str, value: Any) -> float:
    """A finite number above zero.

    Raises
    ------
    UserError
        It is none.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < float("inf"):
        raise UserError(
            f"option '{option}' of initializer '{method}': {value!r} is no number above 0"
        )
    return float(value)
