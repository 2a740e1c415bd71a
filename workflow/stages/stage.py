"""The definition of a rule, independent of a study: its outputs and its job descriptions."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from lexigraft.cells import NAME

# The packages of the library, in the order in which data passes through them.
PACKAGES = (
    "source",
    "corpus",
    "vocabulary",
    "auxiliary",
    "initialization",
    "training",
    "evaluation",
    "report",
)
CARD = "card.json"
# `names(study)`: a `Study` -> wildcard -> its names.
Names = Callable[[Any], Mapping[str, Iterable[str]]]
Describe = Callable[..., dict[str, Any]]
_PATTERNS = {"seed": r"\d+", "checkpoint": r"\d+", "fit": r"all-seeds|seed-\d+"}


class Output(str):
    """A folder or a file that a job writes; as text, its path.

    `rule` and `wildcards` identify the job that writes it. `card` is the file that marks it as
    complete, the only one that Snakemake knows.
    """

    rule: str
    wildcards: dict[str, str]
    card: str

    def __new__(cls, path: str, rule: str, wildcards: dict[str, str], card: str) -> Self:
        """An output at `path`."""
        output = super().__new__(cls, path)
        output.rule, output.wildcards, output.card = rule, wildcards, card
        return output

    def file(self, name: str) -> "Output":
        """A file or folder inside, complete when the whole output is."""
        return Output(f"{self}/{name}", self.rule, self.wildcards, self.card)


@dataclass(frozen=True)
class Resources:
    """The resources that a job requests from a cluster at its first attempt."""

    memory_mb: int = 0
    minutes: int = 0
    gpus: int = 0


@dataclass(frozen=True)
class Stage:
    """One rule.

    Attributes
    ----------
    rule
        Its name; also that of the script, unless rules share one.
    package
        The library's package that it belongs to.
    folder
        Template of its output folder, below `results/`; `{study}` is not a wildcard but the name of
        the study.
    describe
        `describe(study, **wildcards)` returns `settings`, `inputs` and optionally `seed`,
        `versions` (of the kinds that compute the output) and keys that name the job.
    version
        The version of its results, raised when code changes them (`workflow/versions.py`); part of
        each job's fingerprint. None if its output is pinned by a checksum.
    resources
        `resources(study, **wildcards)`; without it the rule runs where Snakemake runs.
    names
        Wildcards that select this rule among others with the same folder -> their names in a study.
    patterns
        Patterns of wildcards that differ from the default in this rule.
    requires
        `requires(study, **wildcards)` returns outputs that must be complete before a job starts and
        that its `inputs` do not list individually.
    """

    rule: str
    package: str
    folder: str
    describe: Describe
    script: str
    log: str
    version: int | None = 1
    card: str = CARD
    resources: Callable[..., Resources] | None = None
    names: Names | None = None
    patterns: Mapping[str, str] | None = None
    requires: Callable[..., Iterable[Output]] | None = None

    @property
    def is_local(self) -> bool:
        """Whether it runs where Snakemake runs, since it is short or needs the network."""
        return self.resources is None

    @property
    def what(self) -> str:
        """The output of its jobs, in one sentence."""
        return (self.describe.__doc__ or "").split("\n")[0]

    def pattern(self, wildcard: str) -> str:
        """The pattern of a wildcard of this rule, in any study."""
        return {**_PATTERNS, **(self.patterns or {})}.get(wildcard, NAME)

    @cached_property
    def _folders(self) -> re.Pattern[str]:
        """The pattern of this rule's folders below `results/`, with a group per wildcard."""
        parts = re.split(r"\{(\w+)\}", self.folder)
        texts = (
            f"(?P<{part}>{self.pattern(part)})" if number % 2 else re.escape(part)
            for number, part in enumerate(parts)
        )
        return re.compile("".join(texts))

    def wildcards(self, folder: str) -> dict[str, str] | None:
        """The wildcards of a folder below `results/`; None if it does not belong to this rule."""
        found = self._folders.fullmatch(folder)
        return found and {name: text for name, text in found.groupdict().items() if name != "study"}


STAGES: dict[str, Stage] = {}


def stage(
    package: str, folder: str, *, script: str | None = None, log: str | None = None, **options: Any
) -> Callable[[Describe], Describe]:
    """Declare a stage with the decorated function as `describe`, under the function's name.

    The options are attributes of `Stage`.
    """

    def declare(describe: Describe) -> Describe:
        rule = describe.__name__
        STAGES[rule] = Stage(
            rule,
            package,
            folder,
            describe,
            f"scripts/{script or rule}.py",
            log or folder,
            **options,
        )
        return describe

    return declare


def named(wildcard: str, registry: str, fits: Callable[[dict[str, Any]], bool]) -> Names:
    """`names` of a stage: the registry entries that fit."""
    return lambda study: {
        wildcard: [name for name, entry in study.config[registry].items() if fits(entry)]
    }


def fixed(memory_mb: int, minutes: int) -> Callable[..., Resources]:
    """`resources` of a stage whose jobs all request the same."""
    return lambda study, **wildcards: Resources(memory_mb, minutes)


def of_source(memory: str, minutes: int, gpus: int = 0) -> Callable[..., Resources]:
    """`resources` of a stage whose jobs request the memory given in the entry of their source."""

    def resources(study: Any, **wildcards: str) -> Resources:
        own = study.config["sources"][wildcards["source"]]["resources"]
        return Resources(own[memory], minutes, gpus)

    return resources
