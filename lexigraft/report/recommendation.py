"""What a study recommends for a language and a source model, and how sure it is of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lexigraft.report.metrics import metric
from lexigraft.report.models import Model, find
from lexigraft.report.significance import LEVEL, Column, Compared, differences
from lexigraft.report.study import StudyResults as Study
from lexigraft.report.tables.results import quality_columns

if TYPE_CHECKING:
    import pandas

# In the order in which they are asked; each is answered under the answers before it.
AXES = ("initializer", "vocabulary", "strategy")


@dataclass(frozen=True)
class Measure:
    """How the rivals for one choice do on one language, task and metric.

    Attributes
    ----------
    means
        The score of each rival, the best first.
    leaders
        The best one, and those that are not shown to be worse.
    against_best
        Each other rival compared with the best one; one that kept no outputs is not here.
    """

    column: Column
    means: dict[Model, float]
    leaders: tuple[Model, ...]
    against_best: dict[Model, Compared]


@dataclass(frozen=True)
class Choice:
    """One axis of the grid: what was compared, and what it comes to.

    Attributes
    ----------
    chosen
        The rival that leads on most measures; among such the one with the best mean rank.
    tied
        Others that lead on as many: the evidence does not decide between them and the chosen one.
    rivals
        All that were compared, which differ in this axis alone; one where there was no choice.
    """

    axis: str
    chosen: Model
    tied: tuple[Model, ...] = ()
    rivals: tuple[Model, ...] = ()
    measures: tuple[Measure, ...] = ()

    @property
    def compared(self) -> bool:
        """Whether there was a choice at all, and a score to choose by."""
        return bool(self.measures)

    @property
    def value(self) -> str:
        """What is chosen on this axis."""
        return self.name(self.chosen)

    def name(self, model: Model) -> str:
        """What a rival has on this axis."""
        return getattr(model, self.axis)


@dataclass(frozen=True)
class Recommendation:
    """What to do with one source model for one language.

    Attributes
    ----------
    model
        The configuration that the choices add up to.
    measured
        The cell whose scores say what it is worth: `model` itself where the study has it, else the
        one of the last choice that was compared.
    columns
        The measures that choices were made by.
    noise
        Columns on which every model is so low that the score says nothing.
    """

    source: str
    language: str
    model: Model
    measured: Model
    choices: tuple[Choice, ...]
    columns: tuple[Column, ...]
    noise: tuple[Column, ...]

    def numbers(self) -> dict[str, Any]:
        """What `summary.json` has of it."""
        return {
            "language": self.language,
            **self.model.keys(),
            "measured": self.measured.keys(),
            "choices": {
                choice.axis: {
                    "chosen": choice.value,
                    "compared": [choice.name(rival) for rival in choice.rivals],
                    "not_told_apart": [choice.name(rival) for rival in choice.tied],
                }
                for choice in self.choices
            },
        }


def recommend(study: Study, summary: "pandas.DataFrame") -> list[Recommendation]:
    """For each source model and language with new tokens: the configuration that its scores favour.

    One axis is chosen after the other, for a grid is seldom full. Rivals differ in that axis alone.
    On every measure that all of them have, the best one and those that are not shown to be worse
    (paired bootstrap, corrected within the choice) lead. Who leads on most measures is chosen. So a
    measure that cannot tell rivals apart has no say, and where none can, nothing is decided.
    """
    found = []
    columns = quality_columns(study, summary)
    for source in study.order("source"):
        for language in study.order("language"):
            own = [column for column in columns if column[0] == language]
            if one := _recommend(study, summary, source, language, own):
                found.append(one)
    return found


def _recommend(
    study: Study, summary: "pandas.DataFrame", source: str, language: str, columns: list[Column]
) -> Recommendation | None:
    scores = study.scores
    own = scores[(scores["source"] == source) & (scores["language"] == language)]
    axes = ["source", "vocabulary", "initializer", "strategy"]
    cells = [Model(*map(str, row)) for row in own[axes].drop_duplicates().itertuples(index=False)]
    new = [cell for cell in cells if not cell.baseline]
    candidates = [cell for cell in new if cell.strategy != "none"] or new
    noise = tuple(column for column in columns if _is_noise(summary, cells, column))
    informative = tuple(column for column in columns if column not in noise)
    if not candidates or not columns:
        return None
    choices: list[Choice] = []
    model = candidates[0]
    for axis in AXES:
        rivals = _rivals(candidates, axis, model, study.reference_strategy, bool(choices))
        choice = _choose(study, summary, axis, rivals, informative, model)
        # The first choice says where the others start from.
        model = choice.chosen if not choices else replace(model, **{axis: choice.value})
        choices.append(choice)
    compared = [choice.chosen for choice in choices if choice.compared]
    fallback = compared[-1] if compared else choices[0].chosen
    measured = model if model in candidates else fallback
    return Recommendation(source, language, model, measured, tuple(choices), informative, noise)


def _is_noise(summary: "pandas.DataFrame", models: list[Model], column: Column) -> bool:
    """Whether no model reaches a score that says anything."""
    language, task, name = column
    low = metric(name).noise
    rows = (find(summary, model, language=language, task=task, metric=name) for model in models)
    means = [float(row["mean"]) for row in rows if row is not None]
    return low is not None and bool(means) and max(means) < low


def _rivals(
    candidates: list[Model], axis: str, model: Model, reference: str | None, chosen: bool
) -> list[Model]:
    """The largest set of candidates that differ in one axis alone.

    Of several the one that agrees with what was chosen so far; before anything was chosen, with
    the reference strategy.
    """
    groups: dict[tuple[str, ...], list[Model]] = {}
    for candidate in candidates:
        rest = tuple(getattr(candidate, other) for other in AXES if other != axis)
        groups.setdefault(rest, []).append(candidate)

    def worth(group: list[Model]) -> tuple[bool, int, int, bool]:
        agrees = sum(getattr(group[0], other) == getattr(model, other) for other in AXES
                     if other != axis)  # fmt: skip
        return (
            len(group) > 1,
            agrees if chosen else 0,
            len(group),
            group[0].strategy == reference,
        )

    return max(groups.values(), key=worth)


def _choose(
    study: Study,
    summary: "pandas.DataFrame",
    axis: str,
    rivals: list[Model],
    columns: tuple[Column, ...],
    before: Model,
) -> Choice:
    """Who leads on most measures; where nothing was measured it stays at what was before."""
    scores = {column: _means(summary, rivals, column) for column in columns}
    # What was not measured at all does not stand in the way of the others.
    rivals = [one for one in rivals if any(one in means for means in scores.values())] or rivals
    shared = {column: means for column, means in scores.items() if len(means) == len(rivals) > 1}
    if not shared:
        same = (one for one in rivals if getattr(one, axis) == getattr(before, axis))
        return Choice(axis, next(same, rivals[0]), rivals=tuple(rivals))
    best = {column: next(iter(means)) for column, means in shared.items()}
    compared = differences(
        study,
        [(model, best[column], column) for column, means in shared.items() for model in means
         if model != best[column]],
    )  # fmt: skip
    measures = []
    for column, means in shared.items():
        against = {one.model: one for one in compared if one.column == column}
        leaders = tuple(
            model
            for model in means
            if model not in against or against[model].corrected >= LEVEL or model == best[column]
        )
        measures.append(Measure(column, means, leaders, against))
    votes = {model: sum(model in one.leaders for one in measures) for model in rivals}
    leading = [model for model in rivals if votes[model] == max(votes.values())]
    leading.sort(key=_mean_rank(measures))
    return Choice(axis, leading[0], tuple(leading[1:]), tuple(rivals), tuple(measures))


def _means(summary: "pandas.DataFrame", models: list[Model], column: Column) -> dict[Model, float]:
    """The score of each model that has one, the best first."""
    language, task, name = column
    found = {}
    for model in models:
        row = find(summary, model, language=language, task=task, metric=name)
        if row is not None:
            found[model] = float(row["mean"])
    better_first = not metric(name).lower_is_better
    return dict(sorted(found.items(), key=lambda pair: pair[1], reverse=better_first))


def _mean_rank(measures: list[Measure]) -> Callable[[Model], float]:
    places = [list(one.means) for one in measures]
    return lambda model: sum(place.index(model) for place in places) / len(places)
