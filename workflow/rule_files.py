"""What the rule files say of each rule: the path of its card, its script and its version.

The text of a rule is the only place where these are written. Input functions, the command and the
check of versions read them there, since not all of them run in Snakemake.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("rules")
# A rule, or a variant of another one.
_RULE = re.compile(r"^(?:use rule (?P<original>\w+) as|rule) (?P<name>\w+)(?: with)?:", re.M)
_CARD = re.compile(r'\bcard="(.+)"')
_SCRIPT = re.compile(r"/(scripts/\w+\.py)")
_VERSION = re.compile(r"\bversion=(\d+)")


@dataclass(frozen=True)
class Rule:
    """A rule, as it is written.

    `card` has wildcards in braces and variables of paths in angle brackets. `version` is None if
    the output is pinned by a checksum.
    """

    card: str
    script: str
    version: int | None


@cache
def rules() -> dict[str, Rule]:
    """Name -> rule, for all rules that write a card."""
    found: dict[str, Rule] = {}
    for file in sorted(FOLDER.glob("*.smk")):
        text = file.read_text("utf-8")
        starts = [*_RULE.finditer(text)]
        ends = [*(start.start() for start in starts[1:]), len(text)]
        for start, end in zip(starts, ends, strict=True):
            body, original = text[start.end() : end], found.get(start["original"] or "")
            card, script, version = (pattern.search(body) for pattern in (_CARD, _SCRIPT, _VERSION))
            if original:  # a variant has what it does not change
                found[start["name"]] = Rule(
                    card[1] if card else original.card,
                    script[1] if script else original.script,
                    int(version[1]) if version else original.version,
                )
            elif card and script:
                found[start["name"]] = Rule(
                    card[1], script[1], int(version[1]) if version else None
                )
    return found
