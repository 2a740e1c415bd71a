"""Seeds derived from names: the same names give the same numbers on every machine."""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy


def seed_from(*parts: str | int) -> int:
    """A seed in [0, 2**31) derived from the study's seed, the stage and the cell, in that order."""
    name = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1


def generator(*parts: str | int) -> "numpy.random.Generator":
    """A numpy generator for the random draw identified by `parts`."""
    import numpy

    return numpy.random.default_rng(seed_from(*parts))
