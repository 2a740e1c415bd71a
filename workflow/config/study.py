"""A study: which cells, which tasks on them, which report."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, Tag, model_validator

from lexigraft.machine import Machine
from lexigraft.report.items import DEFAULT
from lexigraft.settings import Settings, by_shape, optional
from workflow.config.sources import Encoder
from workflow.config.texts import Name, Unique, Whole, Words

Names = Annotated[list[Name], Field(min_length=1), Unique]
Seed = Annotated[int, Field(ge=0)]
Seeds = Annotated[list[Seed], Field(min_length=1), Unique]
Share = Annotated[float, Field(gt=0, lt=1)]
Path = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9/._-]+$")]
_PATH = "a path of letters, digits, '/', '.', '_' and '-'"


class Cells(Settings):
    """A block of cells: every combination of its names."""

    sources: Names = Field(description="names of sources.yaml, each once")
    languages: Names = Field(description="names of languages.yaml, each once")
    vocabularies: Names = Field(description="names of vocabularies.yaml, each once, or `source`")
    initializers: Names = Field(description="names of initializers.yaml, each once, or `none`")
    strategies: Names = Field(description="names of strategies.yaml, each once, or `none`")
    seeds: Seeds = Field(default_factory=lambda: [0], description="whole numbers from 0, each once")


class Alias(Settings):
    """An initializer that is another one in some vocabularies: its cells are those of the other."""

    initializer: Name = Field(description="a name of initializers.yaml")
    same_as: Name = Field(
        description="another one, which makes the same rows. Its cells are made, once"
    )
    vocabularies: Names = Field(description="the vocabularies in which the two coincide")
    sources: Names | None = Field(
        None, description="the source models of which they do. `null` is all"
    )


def _only(names: str) -> Any:
    return Field(None, description=f"only cells of these {names}. `null` is all")


class Run(Settings):
    """How a task is run, and on which cells."""

    runs: int = Field(1, ge=1, description="how often, each time with another seed")
    seeds: Seeds | None = _only("seeds")
    languages: Names | None = _only("languages")
    sources: Names | None = _only("source models")
    initializers: Names | None = _only("initializers")
    strategies: Names | None = _only("strategies")
    checkpoints: bool = Field(
        False, description="run the task on every checkpoint that a strategy keeps, too"
    )
    learned_metrics: Annotated[list[Name], Unique] = Field(
        default_factory=list,
        description="names of metrics.yaml that score the task's predictions, each once",
    )


class ReportItem(Settings):
    """A page, table or figure of a part of the study.

    `lexigraft.report.items` checks what it shows and the options of its kind.
    """

    model_config = ConfigDict(extra="allow")

    item: str = Field(description="the kind")
    name: Name = optional("what its files are called. By default the kind")
    title: str = optional("its heading. By default the kind's own")
    where: dict[str, Any] = optional(
        "axis -> the names to show, in this order. Other axes show all"
    )


class FontsConfig(Settings):
    """Fonts in a package."""

    package: str = Field(description="a name of packages.yaml")
    folder: str = Field(description="a folder in the package")


class Report(Settings):
    """What the report shows."""

    items: list[
        Annotated[
            Annotated[str, Tag("@text")] | Annotated[ReportItem, Tag("@mapping")],
            by_shape("needs a kind of table or figure, or {item: <kind>, name, title, where, …}"),
        ]
    ] = Field(
        default_factory=lambda: list[str | ReportItem](DEFAULT),
        description="pages, tables and figures: [what a report shows](#what-a-report-shows). By "
        "default the first twelve",
    )
    reference_strategy: str | None = Field(
        None,
        description="the strategy by which initializers are compared. `null` is the one that most "
        "cells share",
    )
    fonts: FontsConfig | None = Field(
        default_factory=lambda: FontsConfig(
            package="kolibri", folder="kolibri/core/static/assets/fonts"
        ),
        description="where figures find fonts for the scripts shown: `{package, folder}`. `null` "
        "uses the system's",
    )


class Alignment(Settings):
    """The report items `alignment` and `alignment_loss`."""

    sentences: Whole | None = Field(
        1000, description="held-out sentences whose tokens are renamed. `null` is all"
    )
    encoder: Encoder | None = Field(
        None,
        description="the sentence encoder that compares meanings: `{hub, revision}`, `{folder}`, "
        "or `{package, folder}`. `null` leaves that measure out",
    )


class Fragmentation(Settings):
    """Tokenizers that are compared without any model."""

    tokenizers: Names = Field(description="names of tokenizers.yaml, each once")
    languages: Names = Field(description="languages in whose text they are compared, each once")


Entries = dict[Any, Any]
_OWN = "entries of this study's own ([names](#a-name-means-one-thing))"


class StudyConfig(Settings):
    """A study."""

    study: Name = Field(description="its name: the report lies in `results/report/<study>/`")
    title: str = Field("", description="a heading for the report")
    seed: Seed = Field(
        0,
        description="a whole number from 0. Every random draw derives from it and the cell's name",
    )
    budget: Share = optional(
        "trains on this part of every amount of text, such as 0.01, to try a large study: of "
        "training text, tokens, samples, and what vocabularies, vectors and initializers read. "
        "What has no amount, such as `train_sentences: null` alone, stays whole. "
        "Results lie in `<results>/budget-<budget>`, and the report says so"
    )
    prefix: str | None = Field(
        None,
        description="folder below which `results` and `packages_folder` lie "
        f"([results elsewhere](../docs/sharing.md)): {_PATH}",
        pattern="^[A-Za-z0-9/._-]*[A-Za-z0-9._-]$",
    )
    hub_cache: Words | None = Field(
        None,
        description="cache of the Hugging Face hub. By default as `HF_HUB_CACHE` and `HF_HOME` say",
    )
    results: Path = Field("results", description=f"folder of all outputs: {_PATH}")
    metrics_python: Words = Field(
        ".venv-metrics/bin/python",
        description="the Python of the environment of [learned metrics]"
        "(../docs/learned-metrics.md)",
    )
    packages_folder: Path = Field(
        ".cache/packages", description=f"folder where packages are unpacked: {_PATH}"
    )
    cells: list[Cells] = Field(
        default_factory=list,
        min_length=1,
        description="a list of blocks. Each stands for every combination of its names",
    )
    aliases: list[Alias] = Field(
        default_factory=list,
        description="initializers whose cells are those of others: one training, two names. Items "
        "whose `where` names both show both",
    )
    run_tasks: dict[str, Run] = Field(
        default_factory=dict, min_length=1, description="task -> how and on which cells it is run"
    )
    report: Report = Field(default_factory=Report, description="what the report shows")
    alignment: Alignment = Field(
        default_factory=Alignment, description="of the items `alignment` and `alignment_loss`"
    )
    fragmentation: Fragmentation = Field(
        default_factory=lambda: Fragmentation.model_construct(tokenizers=[], languages=[]),
        description="of the items `tokenizers` and `tokens_per_sentence`. A study with it needs no "
        "`cells`",
    )
    machine: Machine = Field(
        default_factory=Machine,
        description="how jobs compute here ([settings](../docs/running.md#settings-of-a-machine)). "
        "It makes no job run again",
    )
    entries_of: Names = optional(
        "studies of `config/studies` whose own entries this one has too, as cells, tasks and items "
        "name them"
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
