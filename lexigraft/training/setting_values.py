"""What the keys of a strategy may hold."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from lexigraft.errors import UserError

# Each number's range as (lowest, is the lowest allowed, highest).
_RANGES: dict[str, tuple[float, bool, float]] = {
    "length": (2, True, float("inf")),
    "masking": (0, False, 0.999),
    "share": (0, False, 1),
    "learning_rate": (0, False, float("inf")),
    "r": (1, True, float("inf")),
    "alpha": (0, False, float("inf")),
    "adapter.alpha": (0, True, float("inf")),  # where two mappings have a key of one name
    "entries": (1, True, float("inf")),
    "dropout": (0, True, 0.999),
    "temperature": (0, False, float("inf")),
    "weight": (0, False, 1),
    "epochs": (0, False, float("inf")),
    "batch_sequences": (1, True, float("inf")),
    "weight_decay": (0, True, float("inf")),
    "warmup": (0, True, 1),
    "sentences": (1, True, float("inf")),
    "checkpoints": (1, True, float("inf")),
    "points": (0, True, float("inf")),
}
_CHOICES = {
    "objective": ("clm", "distill", "mlm", "mtp"),
    "extra_head": ("copied", "random"),
    "extra_logits": ("as-head", "raw"),
    "schedule": ("cosine", "linear", "constant"),
    "schedule_over": ("phase", "strategy"),
    "packing": ("joined", "apart"),
    "form": ("dense", "sparse"),
}
_WHOLE = {"length", "r", "entries", "batch_sequences", "sentences", "checkpoints", "points"}


def read_values(kind: type, given: Mapping[str, Any], place: str, known: dict[str, Any]) -> Any:
    """An instance of a dataclass: `known` values as they are, `given` ones checked.

    Raises
    ------
    UserError
        A key is unknown, or a value is out of its range; `place` says where.
    """
    given = mapping(given, place)
    own = {entry.name: entry for entry in fields(kind) if entry.name not in known}
    unknown = sorted(set(given) - set(own))
    if unknown:
        raise UserError(f"{place}: no key '{unknown[0]}'; it takes {', '.join(own)}")
    for name, value in given.items():
        if value is not None or own[name].default is not None:
            check_value(name, value, place)
    return kind(**known, **given)


def check_value(name: str, value: Any, place: str) -> None:
    """Check one value by the name of its key.

    Raises
    ------
    UserError
        It is not what such a key holds.
    """
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            allowed = ", ".join(_CHOICES[name])
            raise UserError(f"{place}: {name} is '{value}'; it must be one of {allowed}")
    elif name in _RANGES:
        own = f"{place.rpartition('.')[2]}.{name}"
        lowest, inclusive, highest = _RANGES.get(own, _RANGES[name])
        kinds = (int,) if name in _WHOLE else (int, float)
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        fits = fits and (value > lowest or (inclusive and value == lowest)) and value <= highest
        if not fits:
            number = "a whole number" if name in _WHOLE else "a number"
            low = f"at least {lowest:g}" if inclusive else f"above {lowest:g}"
            high = "" if highest == float("inf") else f" and at most {highest:g}"
            raise UserError(f"{place}: {name} is {value!r}; it must be {number} {low}{high}")
    elif not isinstance(value, bool):
        raise UserError(f"{place}: {name} is {value!r}; it must be true or false")


def mapping(value: Any, place: str) -> Mapping[str, Any]:
    """The value, which must be a mapping.

    Raises
    ------
    UserError
        It is not.
    """
    if not isinstance(value, Mapping):
        raise UserError(f"{place}: must be a mapping of keys to values, not {value!r}")
    return value
