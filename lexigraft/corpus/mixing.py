"""How many training sentences each language of a group contributes."""

import math
from collections.abc import Mapping

from lexigraft.errors import UserError

# Tolerance for sums of shares with few digits.
_ROUNDING = 1e-6


def check_shares(members: list[str], shares: Mapping[str, float]) -> None:
    """Check that shares belong to members and leave a positive share for the other members.

    Raises
    ------
    UserError
        A share of an unknown member; shares that do not add up to 1, or leave nothing for the
        others.
    """
    for name in shares:
        if name not in members:
            raise UserError(f"shares: '{name}' is no member; known are {', '.join(members)}")
    total, missing = sum(shares.values()), [name for name in members if name not in shares]
    if not missing and abs(total - 1) > _ROUNDING:
        raise UserError(f"shares: they add up to {total:g}, not 1; change them or leave one out")
    if missing and total > 1 - _ROUNDING:
        raise UserError(
            f"shares: they add up to {total:g}, which leaves nothing for {', '.join(missing)}; "
            "lower them or give these a share"
        )


def shares_of(
    sizes: Mapping[str, int], shares: Mapping[str, float], temperature: float
) -> dict[str, float]:
    """The share of each language in the training text; they add up to one.

    Parameters
    ----------
    sizes
        Sentences that each language has.
    shares
        Fixed shares of some languages or of all, for example 1/n for English (VocADT, Appendix C).
    temperature
        The other languages share the rest in proportion to size ** (1 / temperature): 1 is
        proportional, larger values favour small languages, infinity gives equal shares (Aharoni et
        al. 2019, §4).
    """
    check_shares(list(sizes), shares)
    weights = {
        name: size ** (1 / temperature) for name, size in sizes.items() if name not in shares
    }
    rest = 1 - sum(shares.values())
    return {
        name: shares[name] if name in shares else rest * weights[name] / sum(weights.values())
        for name in sizes
    }


def counts_of(
    sizes: Mapping[str, int], shares: Mapping[str, float], total: int | None
) -> dict[str, int]:
    """Number of sentences of each language according to its share, rounded to an integer.

    Parameters
    ----------
    total
        Sentences of all languages; None: as many as possible without repeating a sentence.
    """
    if total is None:
        # An integer quotient must not lose a sentence to floating-point rounding.
        total = min(math.floor(sizes[name] / shares[name] + _ROUNDING) for name in sizes)
    counts = {name: math.floor(total * shares[name]) for name in sizes}
    # The remaining sentences go to the largest remainders.
    by_remainder = sorted(sizes, key=lambda name: counts[name] - total * shares[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    for name, count in counts.items():
        if count > sizes[name]:
            raise UserError(
                f"train_sentences: asks for {total}, of which {count} of '{name}' "
                f"({shares[name]:.0%}), which has only {sizes[name]}; lower it, or set it to null "
                "for as many as possible"
            )
    return counts
