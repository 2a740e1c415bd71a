"""A study: its cells, the tasks on them, and the report."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, Tag, model_validator

from lexigraft.auxiliary.kinds.sentence_encoder import Encoder
from lexigraft.machine import Machine
from lexigraft.report.items import DEFAULT
from lexigraft.setting_types import Name, Whole, Words
from lexigraft.settings import Settings, by_shape, default, optional, required
from workflow.config.texts import Unique

Names = Annotated[list[Name], Field(min_length=1), Unique]
Seed = Annotated[int, Field(ge=0)]
Seeds = Annotated[list[Seed], Field(min_length=1), Unique]
Share = Annotated[float, Field(gt=0, lt=1)]
Path = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9/._-]+$")]
_PATH = "a path of letters, digits, '/', '.', '_' and '-'"


class Cells(Settings):
    """A block of cells: every combination of its names."""

    sources: Names = required("names of sources.yaml, each once")
    languages: Names = required("names of languages.yaml, each once")
    vocabularies: Names = required("names of vocabularies.yaml, each once, or `source`")
    initializers: Names = required("names of initializers.yaml, each once, or `none`")
    strategies: Names = required("names of strategies.yaml, each once, or `none`")
    seeds: Seeds = default(lambda: [0], "whole numbers from 0, each once")


class Alias(Settings):
    """An initializer that coincides with another one for some vocabularies and shares its cells."""

    initializer: Name = required("a name of initializers.yaml")
    same_as: Name = required("one that produces the same rows. Only its cells are computed")
    vocabularies: Names = required("vocabularies for which the two coincide")
    sources: Names | None = default(None, "source models for which they coincide. `null` means all")


def _only(names: str) -> Any:
    return default(None, f"only cells with these {names}. `null` means all")


class Run(Settings):
    """How a task is run, and on which cells."""

    runs: int = default(1, "number of runs, each with a different seed", ge=1)
    seeds: Seeds | None = _only("seeds")
    languages: Names | None = _only("languages")
    sources: Names | None = _only("source models")
    initializers: Names | None = _only("initializers")
    strategies: Names | None = _only("strategies")
    checkpoints: bool = default(
        False, "also run the task on every checkpoint that a strategy keeps"
    )
    learned_metrics: Annotated[list[Name], Unique] = default(
        list, "names of metrics.yaml that score the predictions, each once"
    )


class ReportItem(Settings):
    """A page, table or figure of a part of the study.

    `lexigraft.report.items` checks what it shows and the options of its kind.
    """

    model_config = ConfigDict(extra="allow")

    item: str = required("kind of page, table or figure")
    name: Name = optional("base name of its files. By default the kind")
    title: str = optional("its heading. By default that of the kind")
    where: dict[str, Any] = optional("axis -> names to show, in this order. By default all")


class FontsConfig(Settings):
    """Fonts in a package."""

    package: str = required("a name of packages.yaml")
    folder: str = required("a folder in the package")


class Report(Settings):
    """What the report shows."""

    items: list[
        Annotated[
            Annotated[str, Tag("@text")] | Annotated[ReportItem, Tag("@mapping")],
            by_shape("needs a kind of table or figure, or {item: <kind>, name, title, where, …}"),
        ]
    ] = default(
        lambda: list[str | ReportItem](DEFAULT),
        "pages, tables and figures to show ([kinds and default](#what-a-report-shows))",
    )
    reference_strategy: str | None = default(
        None, "the strategy under which initializers are compared. `null`: that of most cells"
    )
    fonts: FontsConfig | None = default(
        lambda: FontsConfig(package="kolibri", folder="kolibri/core/static/assets/fonts"),
        "fonts for the scripts that figures show: `{package, folder}`. `null` uses "
        "the system's fonts",
    )


class Alignment(Settings):
    """The report items `alignment` and `alignment_loss`."""

    sentences: Whole | None = default(
        1000, "held-out sentences whose tokens are renamed. `null` means all"
    )
    encoder: Encoder | None = default(
        None,
        "sentence encoder that compares meanings: `{hub, revision}`, `{folder}`, or `{package, "
        "folder}`. `null` omits this measure",
    )


class Fragmentation(Settings):
    """Tokenizers that are compared without any model."""

    tokenizers: Names = required("names of tokenizers.yaml, each once")
    languages: Names = required("languages on whose text they are compared, each once")


Entries = dict[Any, Any]
_OWN = "this study's own entries ([names](#a-name-means-one-thing))"


class StudyConfig(Settings):
    """A study."""

    study: Name = required("name of the study. Its report is in `results/report/<study>/`")
    title: str = default("", "heading of the report")
    base: Name = optional(
        "a study in `config/studies` from which this one differs in a few keys: it has the cells, "
        "tasks, report and entries of the base. Keys given here override those of the base; "
        "mappings are merged. In `report.items`, the name of an item of the base stands for it, "
        "and an item with its name overrides its keys"
    )
    replace: dict[Name, Name | Annotated[list[Name], Unique]] = optional(
        "names in the cells, tasks and report of the base -> what stands for them here: a name, "
        "several, or none (`[]`)"
    )
    seed: Seed = default(0, "from 0. Every random draw is derived from it and the name of the cell")
    plugins: Annotated[list[Words], Field(min_length=1), Unique] = optional(
        "your own files that define initializers, objectives, tasks or other kinds, or names of "
        "installed plug-ins ([how](../docs/extend.md#in-a-file-of-your-own)). They are imported"
    )
    budget: Share = optional(
        "scale every amount of text by this fraction, such as 0.01, to try out a large study: of "
        "training, samples, vocabularies, vectors and initializers. Text without an amount is not "
        "scaled. Results are written to `<results>/budget-<budget>`"
    )
    prefix: str | None = default(
        None,
        "folder that contains `results` and `packages_folder` ([more](../docs/sharing.md)): "
        f"{_PATH}",
        pattern="^[A-Za-z0-9/._-]*[A-Za-z0-9._-]$",
    )
    hub_cache: Words | None = default(
        None, "cache of the Hugging Face hub. By default that of `HF_HUB_CACHE` and `HF_HOME`"
    )
    results: Path = default("results", f"folder for all outputs: {_PATH}")
    metrics_python: Words = default(
        ".venv-metrics/bin/python", "Python for [learned metrics](../docs/learned-metrics.md)"
    )
    packages_folder: Path = default(".cache/packages", f"folder of unpacked packages: {_PATH}")
    cells: list[Cells] = default(
        list, "blocks. Each stands for every combination of its names", min_length=1
    )
    aliases: list[Alias] = default(
        list,
        "initializers that share the cells of another one, which are trained once and shown under "
        "both names. Items whose `where` lists both names show both",
    )
    run_tasks: dict[str, Run] = default(
        dict, "task -> how it is run, and on which cells", min_length=1
    )
    report: Report = default(Report, "what the report shows")
    alignment: Alignment = default(Alignment, "of the items `alignment` and `alignment_loss`")
    fragmentation: Fragmentation = default(
        lambda: Fragmentation.model_construct(tokenizers=[], languages=[]),
        "of the items `tokenizers` and `tokens_per_sentence`. A study with it needs no `cells`",
    )
    machine: Machine = default(
        Machine,
        "how jobs compute on this machine ([settings](../docs/running.md#settings-of-a-machine)). "
        "Changing it reruns no job",
    )
    entries_of: Names = optional(
        "studies in `config/studies` whose own entries this study can name"
    )
    packages: Entries = optional(_OWN)
    sources: Entries = optional(_OWN)
    tokenizers: Entries = optional(_OWN)
    corpora: Entries = optional(_OWN)
    files: Entries = optional(_OWN)
    languages: Entries = optional(_OWN)
    vocabularies: Entries = optional(_OWN)
    auxiliary: Entries = optional(_OWN)
    initializers: Entries = optional(_OWN)
    strategies: Entries = optional(_OWN)
    tasks: Entries = optional(_OWN)
    metrics: Entries = optional(_OWN)

    @model_validator(mode="after")
    def _has_something_to_do(self) -> "StudyConfig":
        given = self.model_fields_set
        for key, other in (("cells", "run_tasks"), ("run_tasks", "cells")):
            if key not in given and (other in given or "fragmentation" not in given):
                raise ValueError(f"'{key}' is missing")
        return self
