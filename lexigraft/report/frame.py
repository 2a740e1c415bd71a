"""The numbers of a study as tidy tables, their summary over seeds, and the part of an item."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas
from pandas import DataFrame

from lexigraft.artifacts.records import read_json, read_jsonl
from lexigraft.report.card_scores import card_scores
from lexigraft.report.items import CARD_TASKS, Item
from lexigraft.report.names import (
    initializer_name,
    language_name,
    listed,
    metric,
)
from lexigraft.report.published import Published

CELL = ["source", "language", "vocabulary", "initializer", "strategy"]
SEEDED = [*CELL, "seed"]
AXES = ["source", "vocabulary", "initializer", "strategy"]  # of a model
COLUMN = ["language", "task", "metric"]
Column = tuple[str, str, str]
MONOLINGUAL = "monolingual"  # the name of the corpus in the settings of a phase
SCORE = [*SEEDED, "task", "kind", "run", "metric", "value"]


@dataclass(frozen=True)
class Model:
    """A row of the result tables: a configuration without its language and seed."""

    source: str
    vocabulary: str
    initializer: str
    strategy: str

    @property
    def baseline(self) -> bool:
        """Whether its vocabulary is the source model's."""
        return self.initializer == "none"

    @property
    def is_source(self) -> bool:
        """Whether it is the unchanged source model."""
        return self.baseline and self.strategy == "none"

    def axes(self) -> dict[str, str]:
        """The names by axis."""
        return dict(vars(self))


class Predictions(NamedTuple):
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
        rows = read_jsonl(self.path)
        for record in map(read_json, self.learned):
            for name in record["metrics"]:
                scores = dict(zip(record["ids"], record["scores"], strict=True))
                rows = [row | {name: scores[row["id"]]} for row in rows]
        return rows


class NotScored(NamedTuple):
    """A run of a task on a cell that could not be scored, and why."""

    cell: dict[str, Any]
    task: str
    run: int
    # A learned metric's name in config/metrics.yaml; for a task with missing data, its own name.
    metric: str
    score: str  # the metric of the missing score in the report
    why: str


class ContaminatedTests(NamedTuple):
    """Counts of one set of tests in the training text of a language."""

    language: str
    tests: str  # the display name of the set
    counts: dict[str, int]


@dataclass(frozen=True)
class StudyResults:
    """All data that a report is computed from, or the part of it that an item shows."""

    name: str
    title: str
    reference: dict[str, str]  # `{"strategy": …}` under which initializers are compared
    languages: dict[str, dict]  # name -> its entry in the registry
    # Tidy tables: axes of the grid, the name of a number, and its value.
    scores: DataFrame  # columns: `SCORE`
    checkpoints: DataFrame  # like the scores, with `checkpoint`, for all checkpoints but the last
    fragmentation: DataFrame  # numbers of tokens per vocabulary and `metric`
    initialization: DataFrame  # numbers of fitted initializers, per `statistic`
    alignment: DataFrame  # per `fit` of an initializer and `metric`
    tokenizers: DataFrame  # compared without a model: per `tokenizer`, `language` and `metric`
    training: DataFrame  # one row per trained cell: the numbers and texts of its card
    curves: DataFrame  # one row per line of the training logs, with the cell
    corpora: dict[str, dict[str, Any]] = field(default_factory=dict)  # language -> card
    contamination: list[ContaminatedTests] = field(default_factory=list)
    predictions: list[Predictions] = field(default_factory=list)
    # `(source, language, vocabulary, initializer, seed)` -> new tokens and their recipes.
    examples: dict[tuple, list[dict]] = field(default_factory=dict)
    phases: dict[str, list[dict]] = field(default_factory=dict)  # strategy -> settings
    versions: dict[str, list[str]] = field(default_factory=dict)  # packages, from records and cards
    not_scored: list[NotScored] = field(default_factory=list)
    exports: dict[tuple, str] = field(default_factory=dict)  # cell -> the command that exports it
    # Languages of cells and the tasks that the study runs on them; empty if unknown.
    planned: frozenset[tuple[str, str]] = frozenset()
    published: list[Published] = field(default_factory=list)  # numbers of papers to compare with
    # Aliases of the config: initializers that equal another one in some vocabularies.
    aliases: list[dict[str, Any]] = field(default_factory=list)
    # Speed task -> the kind of task whose prompts it generates from.
    prompts_from: dict[str, str] = field(default_factory=dict)
    budget: float | None = None  # the share of all amounts of text that is used for training
    notes: list[str] = field(default_factory=list)  # on files that are missing
    reports: Path | None = None  # the folder of the reports of all studies
    item: Item = field(default_factory=lambda: Item("", ""))  # the item that shows this part
    whole: "StudyResults | None" = None  # the study that this is a part of
    cache: dict[tuple, Any] = field(default_factory=dict)  # results that several items use

    @cached_property
    def predictions_of(self) -> dict[tuple[str, str], list[Predictions]]:
        """`(language, task)` -> the predictions of all models, seeds and runs."""
        runs: dict[tuple[str, str], list[Predictions]] = {}
        for run in self.predictions:
            runs.setdefault((run.cell["language"], run.task), []).append(run)
        return runs

    @cached_property
    def summary(self) -> DataFrame:
        """The scores over seeds, see `summarize`; changes are relative to Source in every part."""
        whole = self.whole
        return whole.summary if whole and whole.scores is self.scores else summarize(self.scores)

    @cached_property
    def _rows(self) -> dict[tuple[str, ...], dict[str, Any]]:
        """The axes of a model, then a language, task and metric -> row of the summary.

        The report of 1,000 cells reads 2,000 rows; masks over the columns took 3.7 ms for each.
        """
        rows = self.summary.to_dict("records")
        return {tuple(row[name] for name in (*AXES, *COLUMN)): row for row in rows}

    def find(self, model: Model, language: str, task: str, metric: str) -> dict[str, Any] | None:
        """The summary of a model on a language, task and metric, or None without a score."""
        return self._rows.get((*vars(model).values(), language, task, metric))

    @cached_property
    def _noise(self) -> frozenset[tuple[str, ...]]:
        if self.whole is not None:
            return self.whole._noise
        best = self.summary.groupby(["source", *COLUMN], sort=False)["mean"].max()
        levels = {key: metric(key[-1]).noise for key in best.index}
        return frozenset(key for key, low in levels.items() if low is not None and best[key] < low)

    def is_noise(self, source: str, column: Column) -> bool:
        """Whether even the best model's score on a column is noise, in the whole study."""
        return (source, *column) in self._noise

    def order(self, axis: str) -> list[str]:
        """Names on one axis of the grid: those in the item, otherwise in the study's order."""
        if axis in self.item.where:
            return list(self.item.where[axis])
        return [str(value) for value in self.scores[axis].drop_duplicates()]

    @property
    def initializers(self) -> list[str]:
        """Initializers in the study's order, without the two baselines."""
        return [name for name in self.order("initializer") if name != "none"]

    @property
    def new_vocabularies(self) -> list[str]:
        """Vocabularies in the study's order, without the source models' own."""
        return [name for name in self.order("vocabulary") if name != "source"]

    @property
    def has_several_sources(self) -> bool:
        """Whether there are several source models, which must be named."""
        return len(self.order("source")) > 1

    @cached_property
    def reference_strategy(self) -> str | None:
        """The strategy to compare initializers under: the study's, else the most common one.

        If an item names strategies without the study's, it is the first of them.
        """
        reference = self.reference.get("strategy")
        if named := self.item.where.get("strategy"):
            return reference if reference in named else named[0]
        trained = self.scores[self.scores["strategy"] != "none"]
        if trained.empty:
            return None
        if reference in set(trained["strategy"]):
            return reference
        adapted = trained[trained["initializer"] != "none"]
        return str((trained if adapted.empty else adapted)["strategy"].mode().iloc[0])

    @property
    def compared_strategies(self) -> tuple[str, ...]:
        """The strategies that an item names, if there are several."""
        named = self.item.where.get("strategy", ())
        return named if len(named) > 1 else ()

    @cached_property
    def seeds(self) -> list[int]:
        """Seeds of the trained cells, or of all cells if none was trained."""
        trained = self.scores[self.scores["strategy"] != "none"]
        rows = self.scores if trained.empty else trained
        return sorted(map(int, rows["seed"].unique()))

    def language(self, key: str) -> str:
        """The display name of a language."""
        return language_name(key, self.languages)

    def panel_title(self, source: str, language: str, *more: str) -> str:
        """The title of a panel: its language, and its source model if there are several."""
        names = [self.language(language), *more]
        return ", ".join([*names, source] if self.has_several_sources else names)

    def is_of_text_alone(self, strategy: str) -> bool:
        """Whether a strategy trains only on the corpus, not on samples of tasks or pairs."""
        phases = self.phases.get(strategy, [])
        return all(phase.get("data", MONOLINGUAL) == MONOLINGUAL for phase in phases)

    @cached_property
    def _task_kinds(self) -> dict[str, str]:
        tasks = self.scores.drop_duplicates("task")
        return dict(zip(tasks["task"], tasks["kind"], strict=True))

    def task_kind(self, task: str) -> str:
        """The kind of a task; empty if no record has it."""
        return self._task_kinds.get(task, "")

    def part(self, item: Item) -> "StudyResults":
        """The part of the study that an item shows; it always includes baselines.

        An alias is included under its own name if the item names it.
        """
        study = replace(self, item=item, whole=self.whole or self)
        if {*item.tasks} & {*CARD_TASKS}:
            study = study.with_card_scores()
        if not item.where:
            return study
        named = item.where.get("initializer", ())
        aliases = [alias for alias in self.aliases if alias["initializer"] in named]
        for alias in aliases:
            study = study._changed(partial(_with_alias, alias=alias))
        study = study._changed(lambda cells: cells[_is_shown(cells, item)])
        return replace(study, aliases=aliases)

    def with_card_scores(self) -> "StudyResults":
        """The study with the numbers of its cards and logs as scores, see `card_scores`."""
        frames = self.training, self.curves, self.initialization, self.fragmentation
        more = card_scores(self.scores, *frames, self.item.metrics)
        return replace(self, scores=pandas.concat([self.scores, more], ignore_index=True))

    def _changed(self, change: Callable[[DataFrame], DataFrame]) -> "StudyResults":
        """Change the rows of all tables, and with them all runs and examples, by their cells."""
        tables = {
            part.name: change(table).reset_index(drop=True)
            for part in fields(self)
            if isinstance(table := getattr(self, part.name), DataFrame)
        }

        def changed_runs(runs: list) -> list:
            cells = change(DataFrame([run.cell for run in runs], columns=SEEDED))
            pairs = zip(cells.index, cells.to_dict("records"), strict=True)
            return [runs[row]._replace(cell=cell) for row, cell in pairs]

        examples = [*self.examples.values()]
        fits = change(DataFrame([*self.examples], columns=[*CELL[:4], "seed"], dtype=object))
        return replace(
            self,
            **tables,
            predictions=changed_runs(self.predictions),
            not_scored=changed_runs(self.not_scored),
            examples={tuple(fit): examples[row] for row, *fit in fits.itertuples()},
        )

    def alias_note(self) -> str:
        """A note on the aliases that this part shows; empty if there are none."""
        sources, vocabularies = {*self.order("source")}, {*self.order("vocabulary")}
        return " ".join(
            f"{initializer_name(alias['initializer'])} is {initializer_name(alias['same_as'])}"
            + (f" of {listed(alias['sources'])}" if alias["sources"] else "")
            + " under another name: both compute the same rows."
            for alias in (self.aliases if self.item.where else ())
            if sources & {*(alias["sources"] or sources)}
            and vocabularies & {*alias["vocabularies"]}
        )


def _with_alias(cells: DataFrame, alias: Mapping[str, Any]) -> DataFrame:
    """The cells with copies of those of the other initializer under the alias's name."""
    if "initializer" not in cells:
        return cells
    shared = cells["initializer"] == alias["same_as"]
    shared &= cells["vocabulary"].isin(alias["vocabularies"])
    if alias["sources"] is not None:
        shared &= cells["source"].isin(alias["sources"])
    copies = cells[shared].assign(initializer=alias["initializer"])
    return pandas.concat([cells, copies]) if len(copies) else cells


def _is_shown(cells: DataFrame, item: Item) -> pandas.Series:
    """Which cells an item shows; those with the source vocabulary are baselines."""
    shown = pandas.Series(True, index=cells.index)
    for axis, names in item.where.items():
        if axis in cells:
            fits = cells[axis].isin(names)
            if axis not in ("source", "language"):
                fits |= cells["vocabulary"] == "source"
            shown &= fits
    return shown


def summarize(scores: DataFrame) -> DataFrame:
    """One row per cell (without its seed), task and metric.

    `scores` has one row per cell, seed, task, run and metric. Its `value` becomes `mean`, `std`
    (sample standard deviation; missing below two repetitions), `n_seeds`, `n_runs`, `seeds`, `over`
    (what the deviation is over), `source_mean`, `change` (mean minus the source model's on the same
    language and task) and `relative_change`.

    Runs of one seed are averaged first, so that the deviation is over seeds. With one seed and
    several runs, as for the source model, the deviation and `over` refer to runs.
    """
    keys = [*CELL, "task", "kind", "metric"]
    repeats = scores.groupby(keys, sort=False)["value"]
    by_seed = scores.groupby([*keys, "seed"], sort=False)["value"].mean().reset_index()
    seeds = by_seed.groupby(keys, sort=False)
    table = seeds["value"].agg(["mean", "std"])
    table["n_seeds"] = seeds.size()
    table["n_runs"] = repeats.size()
    table["seeds"] = seeds["seed"].agg(lambda seeds: " ".join(map(str, sorted(seeds))))
    table["over"] = "seeds"
    alone = table["n_seeds"] == 1
    table.loc[alone, "std"] = repeats.std(ddof=1)[alone]
    table.loc[alone, "over"] = ["runs" if runs > 1 else "" for runs in table.loc[alone, "n_runs"]]
    table = table.reset_index()
    shared = ["source", "language", "task", "metric"]
    source = select(table, initializer="none", strategy="none").drop_duplicates(shared)
    source = source[[*shared, "mean"]].rename(columns={"mean": "source_mean"})
    table = table.merge(source, on=shared, how="left")
    table["change"] = table["mean"] - table["source_mean"]
    # Scores of learned metrics may be negative: an increase must stay positive.
    level = table["source_mean"].abs().where(table["source_mean"] != 0)
    table["relative_change"] = table["change"] / level
    return table


def select(frame: DataFrame, **values: object) -> DataFrame:
    """The rows with these values."""
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame


def models_of(frame: DataFrame) -> list[Model]:
    """The model of each row."""
    return [Model(*map(str, row)) for row in frame[AXES].itertuples(index=False)]


def source_model(name: str) -> Model:
    """An unchanged source model."""
    return Model(name, "source", "none", "none")
