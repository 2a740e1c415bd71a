"""Digests of the code that jobs run, each computed once."""

from functools import cache

from lexigraft.staleness import code_digest

digest = cache(code_digest)
