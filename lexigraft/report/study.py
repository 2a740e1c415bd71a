"""All data that a report is computed from, as tidy frames, and the part that an item shows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lexigraft.cells import is_aliased
from lexigraft.errors import UserError
from lexigraft.report.items import Item
from lexigraft.report.metrics import metric
from lexigraft.report.names import (
    StrategyName,
    initializer_name,
    language_name,
    listed,
    parse_strategy,
)
from lexigraft.report.published import Published
from lexigraft.report.summarize import CELL, Frame, summarize

SEEDED = [*CELL, "seed"]
MONOLINGUAL = "monolingual"  # the name of the corpus in the settings of a phase
# The frames of a study with rows of cells.
_FRAMES = ("scores", "fragmentation", "training", "curves", "initialization", "alignment",
           "checkpoints")  # fmt: skip


@dataclass(frozen=True)
class Predictions:
    """The outputs of a cell in one run of a task, on disk: those of a large study exceed memory."""

    cell: dict[str, Any]
    task: str
    run: int
    path: Path
    metrics: dict[str, float]  # from the run's record, like the details
    details: dict[str, Any]
    learned: tuple[Path, ...] = ()  # records of learned metrics

    def rows(self) -> list[dict[str, Any]]:
        """One row per example, with its score by each learned metric that scored it."""
        rows = read_lines(self.path)
        for record in map(read_json, self.learned):
            for name in record["metrics"]:
                scores = dict(zip(record["ids"], record["scores"], strict=True))
                rows = [row | {name: scores[row["id"]]} for row in rows]
        return rows


@dataclass(frozen=True)
class NotScored:
    """A run of a task on a cell that could not be scored, and why."""

    cell: dict[str, Any]
    task: str
    run: int
    # A learned metric's name in config/metrics.yaml; for a task with missing data, its own name.
    metric: str
    score: str  # the metric of the missing score in the report
    why: str


@dataclass(frozen=True)
class Contaminated:
    """Counts of one set of tests in the training text of a language."""

    language: str
    tests: str  # the display name of the set
    counts: dict[str, int]  # from `Contamination.facts`


@dataclass(frozen=True)
class TokenCounts:
    """Numbers of tokens of a tokenizer, for each of `texts`, or for groups of them."""

    texts: int
    tokens: list[int]


@dataclass(frozen=True)
class StudyResults:
    """All data that a report is computed from.

    Frames are tidy: one row per number, `value`, with the names that identify it. A study may be
    the part of another that an item shows.
    """

    name: str
    title: str
    reference: dict[str, str]
    languages: dict[str, dict]  # name -> its entry in the registry
    scores: Frame  # per cell, seed, task, run and metric
    fragmentation: Frame  # per source, language, vocabulary and metric
    training: Frame  # one row per trained cell: the numbers and texts of its card
    curves: Frame  # one row per line of the training logs, with the cell
    initialization: Frame  # per fitted initializer and statistic
    alignment: Frame  # per fitted initializer and metric of its alignment
    checkpoints: Frame  # like `scores`, with `checkpoint`, for all checkpoints but the last
    tokenizers: Frame  # per tokenizer that was compared without a model, language and metric
    corpora: dict[str, dict[str, Any]] = field(default_factory=dict)  # language -> card
    counted: list[Contaminated] = field(default_factory=list)
    # `(tokenizer, language)`, if compared without a model; the texts are the same for all.
    token_counts: dict[tuple[str, str], TokenCounts] = field(default_factory=dict)
    # For every task with recorded outputs.
    predictions: list[Predictions] = field(default_factory=list)
    # `(source, language, vocabulary, initializer, seed)` -> new tokens and their recipes.
    examples: dict[tuple, list[dict]] = field(default_factory=dict)
    phases: dict[str, list[dict]] = field(default_factory=dict)  # strategy -> settings
    versions: dict[str, list[str]] = field(default_factory=dict)  # packages, from records and cards
    not_scored: list[NotScored] = field(default_factory=list)
    # `SEEDED` names of a cell -> the command that exports it.
    exports: dict[tuple, str] = field(default_factory=dict)
    # Languages of cells and the tasks that the study runs on them; empty if unknown.
    planned: frozenset[tuple[str, str]] = frozenset()
    published: list[Published] = field(default_factory=list)  # numbers of papers to compare with
    # Aliases of the config: initializers that equal another one in some vocabularies.
    aliases: list[dict[str, Any]] = field(default_factory=list)
    # Speed task -> the kind of task whose prompts it generates from.
    prompts_from: dict[str, str] = field(default_factory=dict)
    budget: float | None = None  # the share of all amounts of text that is used for training
    # Notes for the reader on files that were missing or could not be read.
    notes: list[str] = field(default_factory=list)
    item: Item = field(default_factory=lambda: Item("", ""))  # the item that shows this part
    whole: "StudyResults | None" = None  # the study that this is a part of
    # Cache of results from predictions, which several tables use.
    read: dict[tuple, Any] = field(default_factory=dict)

    @cached_property
    def summary(self) -> Frame:
        """The scores over seeds, see `summarize`; changes are relative to Source in every part."""
        whole = self.whole
        return whole.summary if whole and whole.scores is self.scores else summarize(self.scores)

    @cached_property
    def places(self) -> dict[tuple[str, ...], int]:
        """The axes of a model, then a language, task and metric -> row of the summary.

        The report of 1,000 cells reads 2,000 rows; masks over the columns took 3.7 ms for each.
        """
        names = ("source", "vocabulary", "initializer", "strategy", "language", "task", "metric")
        keys = zip(*(self.summary[name] for name in names), strict=True)
        return {key: at for at, key in enumerate(keys)}

    @cached_property
    def _noise(self) -> frozenset[tuple[str, ...]]:
        """`(source, language, task, metric)` for which even the best model's score is noise."""
        if self.whole is not None:
            return self.whole._noise
        axes = ["source", "language", "task", "metric"]
        best = self.summary.groupby(axes, sort=False)["mean"].max()
        lows = {key: metric(key[-1]).noise for key in best.index}
        return frozenset(key for key, low in lows.items() if low is not None and best[key] < low)

    def is_noise(self, source: str, column: tuple[str, ...]) -> bool:
        """Whether the scores of a source model's cells on a language, task and metric are noise."""
        return (source, *column) in self._noise

    def order(self, axis: str) -> list[str]:
        """Names on one axis of the grid: those in the item, otherwise in the study's order."""
        if axis in self.item.where:
            return list(self.item.where[axis])
        return [str(value) for value in self.scores[axis].drop_duplicates()]

    @cached_property
    def drawn_initializers(self) -> frozenset[str]:
        """Initializers of the whole study that draw at random, and so are fitted once per seed."""
        fits = (self.whole or self).examples
        return frozenset(name for *_, name, seed in fits if seed is not None)

    @property
    def initializers(self) -> list[str]:
        """Initializers in the study's order, without the two baselines."""
        return [name for name in self.order("initializer") if name != "none"]

    @property
    def reference_strategy(self) -> str | None:
        """The strategy to compare initializers under: the study's, else the most common one.

        If an item names strategies without the study's, it is the first of them.
        """
        wanted = self.reference.get("strategy")
        if named := self.item.where.get("strategy"):
            return wanted if wanted in named else named[0]
        trained = self.scores[self.scores["strategy"] != "none"]
        if trained.empty:
            return None
        if wanted in set(trained["strategy"]):
            return wanted
        adapted = trained[trained["initializer"] != "none"]
        return str((trained if adapted.empty else adapted)["strategy"].mode().iloc[0])

    @property
    def seeds(self) -> list[int]:
        """Seeds of the trained cells, or of all cells if none was trained."""
        trained = self.scores[self.scores["strategy"] != "none"]
        used = self.scores if trained.empty else trained
        return sorted(map(int, used["seed"].unique()))

    @property
    def new_vocabularies(self) -> list[str]:
        """Vocabularies in the study's order, without the source models' own."""
        return [name for name in self.order("vocabulary") if name != "source"]

    @property
    def has_several_sources(self) -> bool:
        """Whether there are several source models, which must be named."""
        return len(self.order("source")) > 1

    def place(self, source: str, language: str, *more: str) -> str:
        """The title of a panel: its language, and its source model if there are several."""
        names = [self.language(language), *more]
        return ", ".join([*names, source] if self.has_several_sources else names)

    def language(self, key: str) -> str:
        """The display name of a language."""
        return language_name(key, self.languages)

    def strategy(self, key: str) -> StrategyName:
        """Procedure, objective and length of a strategy."""
        return parse_strategy(key, self.phases.get(key))

    def is_of_text_alone(self, strategy: str) -> bool:
        """Whether a strategy trains only on the corpus, not on samples of tasks or pairs."""
        phases = self.phases.get(strategy, [])
        return all(phase.get("data", MONOLINGUAL) == MONOLINGUAL for phase in phases)

    def kind(self, task: str) -> str:
        """The kind of a task; empty if no record has it."""
        kinds = self.scores.loc[self.scores["task"] == task, "kind"]
        return str(kinds.iloc[0]) if len(kinds) else ""

    def part(self, item: Item) -> "StudyResults":
        """The part of the study that an item shows; it always includes baselines.

        An alias is included under its own name if the item names it.
        """
        if not item.where:
            return replace(self, item=item, whole=self.whole or self)
        named = item.where.get("initializer", ())
        aliases = [alias for alias in self.aliases if alias["initializer"] in named]
        study = self
        for alias in aliases:
            study = study._with_alias(alias)
        frames = {name: getattr(study, name) for name in _FRAMES}
        return replace(
            study,
            item=item,
            whole=self.whole or self,
            aliases=aliases,
            **{name: frame[_within(frame, item)] for name, frame in frames.items()},
            predictions=[one for one in study.predictions if _is_in(one.cell, item)],
            not_scored=[one for one in study.not_scored if _is_in(one.cell, item)],
            examples={key: rows for key, rows in study.examples.items()
                      if _is_in(dict(zip(SEEDED[:4], key, strict=False)), item)},
        )  # fmt: skip

    def alias_note(self) -> str:
        """A note on the aliases that this part shows; empty if there are none."""
        shown, vocabularies = {*self.order("source")}, {*self.order("vocabulary")}
        return " ".join(
            f"{initializer_name(alias['initializer'])} is {initializer_name(alias['same_as'])}"
            + (f" of {listed(alias['sources'])}" if alias["sources"] else "")
            + " under another name: both compute the same rows."
            for alias in (self.aliases if self.item.where else ())
            if shown & {*(alias["sources"] or shown)} and vocabularies & {*alias["vocabularies"]}
        )

    def _with_alias(self, alias: Mapping[str, Any]) -> "StudyResults":
        """The study with a copy of the results of the other initializer under the alias's name."""
        import pandas

        own = {"initializer": alias["initializer"]}

        def is_shared(cell: Mapping[str, Any]) -> bool:
            return is_aliased(cell, alias["same_as"], alias)

        def doubled(frame: Frame) -> Frame:
            if "initializer" not in frame:
                return frame
            shared = frame["initializer"] == alias["same_as"]
            shared &= frame["vocabulary"].isin(alias["vocabularies"])
            if alias["sources"] is not None:
                shared &= frame["source"].isin(alias["sources"])
            copies = frame[shared].assign(**own)
            return pandas.concat([frame, copies], ignore_index=True) if len(copies) else frame

        return replace(
            self,
            **{name: doubled(getattr(self, name)) for name in _FRAMES},
            predictions=[*self.predictions, *(
                replace(one, cell=one.cell | own) for one in self.predictions if is_shared(one.cell)
            )],
            not_scored=[*self.not_scored, *(
                replace(one, cell=one.cell | own) for one in self.not_scored if is_shared(one.cell)
            )],
            examples=self.examples | {
                (*key[:3], alias["initializer"], *key[4:]): rows
                for key, rows in self.examples.items()
                if is_shared(dict(zip(SEEDED[:4], key, strict=False)))
            },
        )  # fmt: skip


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises a UserError if the file is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: does not exist; run the stage that writes it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path}: cannot be read as JSON ({error}); run the stage that writes it again"
        ) from None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read one JSON object per line; empty without a file, a UserError if it is damaged."""
    if not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as JSON lines ({error})") from None


def _within(frame: Frame, item: Item) -> Any:  # a boolean per row
    """Which rows an item shows; rows with the source vocabulary are baselines."""
    import pandas

    inside = pandas.Series(True, index=frame.index)
    own = frame["vocabulary"] == "source" if "vocabulary" in frame else ~inside
    for axis, names in item.where.items():
        if axis in frame:
            fits = frame[axis].isin(names)
            inside &= fits if axis in ("source", "language") else fits | own
    return inside


def _is_in(cell: dict[str, Any], item: Item) -> bool:
    return all(
        cell[axis] in names
        or (axis not in ("source", "language") and cell["vocabulary"] == "source")
        for axis, names in item.where.items()
        if axis in cell
    )
