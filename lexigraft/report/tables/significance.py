"""Differences between models, by default from Source and LAPT, tested by a paired bootstrap."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Annotated

from pandas import DataFrame
from pydantic import Field

from lexigraft.report import model_table
from lexigraft.report.frame import COLUMN, Column, Model, StudyResults
from lexigraft.report.items import LISTS, CellNames, ScoreOptions, table
from lexigraft.report.models import models, quality_columns, stub, stub_names
from lexigraft.report.names import initializer_name, metric
from lexigraft.report.significance import RESAMPLES, score_differences
from lexigraft.report.table import (
    FULL_SHADE,
    FULL_SHADE_NOTE,
    MISSING,
    Row,
    Table,
    TableCell,
    is_compact,
    missing_note,
    number,
    shade_of,
)

# Columns of the CSV file -> the fields of a test.
_NUMBERS = {
    "baseline_score": "baseline_score",
    "difference": "value",
    "low": "low",
    "high": "high",
    "p": "p",
    "p_corrected": "corrected",
    "effect_size": "effect",
    "examples": "examples",
    "outputs": "outputs",
    "seed_freedom": "freedom",
}


class SignificanceOptions(ScoreOptions):
    """The options of a table of differences."""

    baselines: Annotated[
        CellNames | None,
        Field(
            description="`vocabularies`, `initializers` or `strategies` to compare with, instead "
            "of with Source and LAPT: a model's baseline has one of these names and is otherwise "
            "the same"
        ),
    ] = None


@table(
    title="Differences between models",
    caption="Differences from Source and LAPT, or from models that are otherwise the same, with "
    "95 % intervals, p and effect sizes. Stars: p < 0.05 and p < 0.01 by a paired bootstrap over "
    "test examples and seeds, corrected for many comparisons (Benjamini-Hochberg).",
    empty="no model and baseline have outputs on the same examples",
    options=SignificanceOptions,
)
def significance(study: StudyResults) -> Table | None:
    """Rows: all models against Source, then against LAPT; or against each of the `baselines`.

    Cells have the difference with its stars, its 95 % interval, p and effect size.
    """
    rows, every_column = models(study), quality_columns(study)
    with_outputs = {run.task for run in study.predictions}
    sources = {model.source for model in rows}
    columns = [
        column
        for column in every_column
        if column[1] in with_outputs
        and not all(study.is_noise(source, column) for source in sources)
    ]
    pairs = [*_pairs(study)]
    compared = (
        (model, baseline, column)
        for column, (_, model, baseline) in product(columns, pairs)
        if not study.is_noise(model.source, column)
    )
    differences = score_differences(study, compared)
    if not differences:
        return None
    headers = ("From", *stub_names(study))
    compact = is_compact(len(columns), len(headers))
    tests = {(test.model, test.baseline, test.column): test for test in differences}

    def cell(model: Model, baseline: Model, column: Column) -> TableCell:
        test, shown = tests.get((model, baseline, column)), metric(column[2])
        if test is None:
            noise = study.is_noise(model.source, column)
            return TableCell("noise", noise=True) if noise else TableCell()
        share = test.value / abs(test.baseline_score) if test.baseline_score else test.value
        low, high = (number(end, shown.decimals, sign=True) for end in (test.low, test.high))
        p = test.corrected
        p_text = "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
        effect = number(test.effect, 2, sign=True) if math.isfinite(test.effect) else MISSING
        return TableCell(
            number(test.value, shown.decimals, sign=True),
            change="" if compact else f"{low} to {high}; {p_text}; d = {effect}",
            shade=shade_of(share / FULL_SHADE, shown.higher_is_better) if test.stars else 0.0,
            value=test.value,
            stars=test.stars,
        )

    table_rows = [
        Row(
            (name, *stub(model, headers[1:])),
            tuple(cell(model, baseline, column) for column in columns),
            model.baseline,
        )
        for name, model, baseline in pairs
    ]
    data = [
        {
            **test.model.axes(),
            **dict(zip(COLUMN, test.column, strict=True)),
            **{f"baseline_{axis}": name for axis, name in test.baseline.axes().items()},
            **{name: getattr(test, of_test) for name, of_test in _NUMBERS.items()},
            "resamples": RESAMPLES,
        }
        for test in differences
    ]
    heads, explained = model_table.column_heads(study, columns, compact)
    where = "In the CSV file" if compact else "Below a difference"
    notes = [
        *model_table.bootstrap_notes(differences),
        f"Only significant differences are coloured. Blue: better; red: worse; {FULL_SHADE_NOTE}. "
        f"{where}: its 95 % interval, corrected p, and effect size d (Cohen's, over examples: 0.2 "
        "is small, 0.8 large). Runs and seeds are averaged; an example is resampled with all of "
        "its outputs.",
        *model_table.noise_notes(study, rows, every_column),
        *explained,
        *model_table.not_scored_notes(study, columns),
        *missing_note(table_rows, heads),
    ]
    return Table(headers, heads, table_rows, DataFrame(data), notes)


def _pairs(study: StudyResults) -> Iterator[tuple[str, Model, Model]]:
    """Each comparison: the name of the baseline, a model, and its baseline."""
    rows = models(study)
    if baselines := study.item.option("baselines"):
        for axis, key in LISTS.items():
            for name in getattr(baselines, key, ()):
                title = initializer_name(name) if axis == "initializer" else name
                for model in rows:
                    baseline = replace(model, **{axis: name})
                    if baseline in rows and baseline != model:
                        yield title, model, baseline
        return
    for title, is_source in (("Source", True), ("LAPT", False)):
        for model, baseline in product(rows, rows):
            if (
                baseline.baseline
                and baseline.is_source == is_source
                and baseline.source == model.source
                and not model.is_source
                and (is_source or not model.baseline)
            ):
                yield title, model, baseline
