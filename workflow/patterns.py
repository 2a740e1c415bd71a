"""Patterns of wildcards."""

import re
from collections.abc import Iterable


def any_of(names: Iterable[str]) -> str:
    """A pattern of these names; of none at all it fits nothing.

    An empty pattern would be no constraint to Snakemake, and the rule would take every job.
    """
    return "|".join(map(re.escape, names)) or "(?!)"
