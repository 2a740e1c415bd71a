"""Differences to Source and to LAPT, tested by a paired bootstrap."""

from typing import TYPE_CHECKING

from lexigraft.report.items import Kind, ScoreOptions
from lexigraft.report.metrics import Metric, metric
from lexigraft.report.models import COLUMN, models, stub, stub_names
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

KIND = Kind(
    title="Differences from Source and from LAPT",
    caption="Differences from Source and from LAPT with 95 % intervals, p and effect sizes. Stars: "
    "p < 0.05 and p < 0.01 by a paired bootstrap over test examples and seeds, corrected for many "
    "comparisons (Benjamini-Hochberg).",
    empty="no model and baseline have outputs on the same examples",
    options=ScoreOptions,
)
_BASELINES = ("Source", "LAPT")


def build(study: StudyResults) -> Table | None:
    """Rows: all models against Source, then against LAPT.

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
    # Each model (including LAPT) against Source, then against LAPT.
    pairs = [
        (name, model, other)
        for name in _BASELINES
        for model in chosen
        if not model.baseline or (name == "Source" and not model.is_source)
        for other in chosen
        if other.baseline and other.source == model.source and other.is_source == (name == "Source")
    ]
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
