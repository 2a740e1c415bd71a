"""Differences between models, by default from Source and LAPT, tested by a paired bootstrap."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lexigraft.report.items import LISTS, Item, Kind, Names, Options, Refers, ScoreOptions
from lexigraft.report.metrics import Metric, metric
from lexigraft.report.models import COLUMN, Model, models, stub, stub_names
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.table import (
    FULL_SHADE,
    FULL_SHADE_NOTE,
    Row,
    Table,
    TableCell,
    is_compact,
    number,
    shade_of,
)
from lexigraft.report.table_notes import missing_note, noise_notes, not_scored_notes
from lexigraft.report.tables.results import column_heads, quality_columns

if TYPE_CHECKING:
    from lexigraft.report.score_differences import ScoreDifference


class Baselines(Options):
    """Names on an axis. A model is compared with the one that differs from it only in its name."""

    vocabularies: Annotated[Names, Refers("vocabularies")] = ()
    initializers: Annotated[Names, Refers("initializers")] = ()
    strategies: Annotated[Names, Refers("strategies")] = ()


class SignificanceOptions(ScoreOptions):
    """The options of a table of differences."""

    baselines: Annotated[
        Baselines | None,
        Field(
            description="`vocabularies`, `initializers` or `strategies` to compare with, instead "
            "of with Source and LAPT: a model's baseline has one of these names and is otherwise "
            "the same"
        ),
    ] = None


def _caption(item: Item) -> str:
    others = "models that are otherwise the same" if item.option("baselines") else "Source and LAPT"
    return (
        f"Differences from {others}, with 95 % intervals, p and effect sizes. Stars: p < 0.05 and "
        "p < 0.01 by a paired bootstrap over test examples and seeds, corrected for many "
        "comparisons (Benjamini-Hochberg)."
    )


KIND = Kind(
    title="Differences between models",
    caption=_caption,
    empty="no model and baseline have outputs on the same examples",
    options=SignificanceOptions,
)


def build(study: StudyResults) -> Table | None:
    """Rows: all models against Source, then against LAPT; or against each of the `baselines`.

    Cells have the difference with its stars, its 95 % interval, p and effect size.
    """
    import pandas

    from lexigraft.report.score_differences import score_differences
    from lexigraft.report.table_tests import bootstrap_notes

    chosen = models(study)
    with_outputs = {kept.task for kept in study.predictions}
    sources = {model.source for model in chosen}
    columns = [
        column
        for column in quality_columns(study)
        if column[1] in with_outputs
        and not all(study.is_noise(source, column) for source in sources)
    ]
    pairs = [*_pairs(study)]
    compared = score_differences(
        study,
        [
            (model, baseline, column)
            for column in columns
            for _, model, baseline in pairs
            if not study.is_noise(model.source, column)
        ],
    )
    if not compared:
        return None
    headers = ("From", *stub_names(study))
    compact = is_compact(len(columns), len(headers))
    found = {(one.model, one.baseline, one.column): one for one in compared}
    rows = []
    for name, model, baseline in pairs:
        cells = tuple(
            TableCell("noise", noise=True)
            if study.is_noise(model.source, column)
            else _cell(found.get((model, baseline, column)), metric(column[2]), compact)
            for column in columns
        )
        rows.append(Row((name, *stub(model, headers[1:])), cells, model.baseline))
    heads, explained = column_heads(study, columns, compact)
    below = "In the CSV file: 95 % intervals, p and effect sizes d"
    if not compact:
        below = "Below a difference: its 95 % interval, corrected p, and effect size d"
    notes = [
        *bootstrap_notes(compared, "differences"),
        f"Only significant differences are coloured. Blue: better; red: worse; {FULL_SHADE_NOTE}. "
        f"{below} (Cohen's, over examples: 0.2 is small, 0.8 large).",
        "Runs and seeds are averaged; an example is resampled with all of its outputs.",
        *noise_notes(study, chosen, quality_columns(study)),
        *explained,
        *not_scored_notes(study, columns),
        *missing_note(rows, heads),
    ]
    return Table(headers, heads, rows, pandas.DataFrame(map(_numbers, compared)), notes)


def _pairs(study: StudyResults) -> Iterator[tuple[str, Model, Model]]:
    """Each comparison: the name of the baseline, a model, and its baseline."""
    chosen = models(study)
    if baselines := study.item.option("baselines"):
        for axis, key in LISTS.items():
            for name in getattr(baselines, key, ()):
                shown = initializer_name(name) if axis == "initializer" else name
                for model in chosen:
                    other = replace(model, **{axis: name})
                    if other in chosen and other != model:
                        yield shown, model, other
        return
    for name, is_source in (("Source", True), ("LAPT", False)):
        others = [other for other in chosen if other.baseline and other.is_source == is_source]
        for model in chosen:
            if model.is_source or (model.baseline and not is_source):
                continue
            yield from ((name, model, other) for other in others if other.source == model.source)


def _cell(one: "ScoreDifference | None", shown: Metric, compact: bool) -> TableCell:
    from lexigraft.report.paired_tests import effect_text, p_text

    if one is None:
        return TableCell()
    share = one.value / abs(one.baseline_score) if one.baseline_score else one.value
    low, high = (number(end, shown.decimals, sign=True) for end in (one.low, one.high))
    return TableCell(
        number(one.value, shown.decimals, sign=True),
        change="" if compact else f"{low} to {high}; {p_text(one.corrected)}; {effect_text(one)}",
        shade=shade_of(share / FULL_SHADE, shown.lower_is_better) if one.stars else 0.0,
        value=one.value,
        stars=one.stars,
    )


def _numbers(one: "ScoreDifference") -> dict[str, str | float]:
    """A row of the CSV file, in full precision."""
    from lexigraft.report.paired_tests import RESAMPLES

    return {
        **one.model.keys(),
        **dict(zip(COLUMN, one.column, strict=True)),
        **{f"baseline_{axis}": name for axis, name in one.baseline.keys().items()},
        "baseline_score": one.baseline_score,
        "difference": one.value,
        "low": one.low,
        "high": one.high,
        "p": one.p,
        "p_corrected": one.corrected,
        "effect_size": one.effect,
        "examples": one.examples,
        "outputs": one.outputs,
        "seed_freedom": one.freedom,
        "resamples": RESAMPLES,
    }
