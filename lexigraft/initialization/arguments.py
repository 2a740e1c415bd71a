"""Checks of what an initializer is given: its options, its corpus, and auxiliaries by role."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lexigraft.auxiliary.token_vectors import TokenVectors
from lexigraft.errors import UserError
from lexigraft.initialization.pairing import VocabularyPair

Corpus = Iterable[str] | None
# By role: `target` holds vectors of the target's tokens, `source` vectors of the source's; a method
# may name further roles.
Auxiliaries = Mapping[str, Any]


def required_corpus(method: str, corpus: Corpus) -> Iterable[str]:
    """The corpus of a method that needs one; a `UserError` where there is none."""
    if corpus is None:
        raise UserError(f"initializer '{method}': it needs a corpus; call fit(…, corpus=sentences)")
    return corpus


def required_vectors(
    method: str, auxiliary: Auxiliaries, pair: VocabularyPair, role: str = "target"
) -> TokenVectors:
    """Vectors that a method requires: of source tokens in the role `source`, else of target tokens.

    Raises a `UserError` if there are none in this role, or they belong to another tokenizer.
    """
    side = "source" if role == "source" else "target"
    size = len(pair.source_bytes if role == "source" else pair.target_bytes)
    vectors = auxiliary.get(role)
    if not isinstance(vectors, TokenVectors):
        raise UserError(
            f"initializer '{method}': it needs vectors of the {side}'s tokens as auxiliary "
            f"'{role}'; name one in its config entry, or call fit(…, auxiliary={{'{role}': …}}) "
            "with what lexigraft.auxiliary makes of that tokenizer"
        )
    if len(vectors.tokens) and vectors.tokens[-1] >= size:
        raise UserError(
            f"auxiliary '{role}': it has a vector of token {vectors.tokens[-1]}, but the {side} "
            f"tokenizer has {size} tokens; give vectors made with this tokenizer"
        )
    return vectors


def check_integer(method: str, option: str, value: Any, minimum: int = 1) -> int:
    """Return an option that must be an integer of at least `minimum`, or raise a `UserError`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise _option_error(method, option, value, f"an integer of at least {minimum}")
    return value


def check_number(
    method: str,
    option: str,
    value: Any,
    minimum: float = 0.0,
    maximum: float = math.inf,
    exclusive: bool = False,
) -> float:
    """Return an option that must be a finite number in an interval, or raise a `UserError`.

    `exclusive`: whether `minimum` itself is too small.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (
        not number
        or not minimum <= value <= maximum
        or math.isinf(value)
        or (exclusive and value == minimum)
    ):
        bound = f"above {minimum:g}" if exclusive else f"of at least {minimum:g}"
        if maximum < math.inf:
            bound = f"from {minimum:g} to {maximum:g}"
        raise _option_error(method, option, value, f"a number {bound}")
    return float(value)


def check_boolean(method: str, option: str, value: Any) -> bool:
    """Return an option that must be true or false, or raise a `UserError`."""
    if not isinstance(value, bool):
        raise _option_error(method, option, value, "true or false")
    return value


def check_choice(method: str, option: str, value: Any, choices: Sequence[str]) -> str:
    """Return an option that must be one of some names, or raise a `UserError`."""
    if value not in choices:
        raise _option_error(method, option, value, f"one of {', '.join(choices)}")
    return value


def _option_error(method: str, option: str, value: Any, expected: str) -> UserError:
    return UserError(f"option '{option}' of initializer '{method}': {value!r} is not {expected}")
