"""Initializers ranked by the gap that they close before any training, with their costs."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pandas import DataFrame

from lexigraft.report.frame import AXES, Model, StudyResults
from lexigraft.report.gaps import NOTHING, Gap, GapOptions, gaps
from lexigraft.report.heldout import BITS_PER_BYTE
from lexigraft.report.items import table
from lexigraft.report.models import stub, stub_names
from lexigraft.report.names import initializer_name, listed, metric, task_name
from lexigraft.report.rendering import number
from lexigraft.report.significance import RESAMPLES
from lexigraft.report.table import (
    Row,
    Table,
    TableCell,
    missing_note,
    number_cell,
    percent_cell,
    ranked,
)

# Statistics of a fit: column of the CSV file -> heading, and aggregation over languages.
_FIT = {
    "seconds": (("fit", "seconds"), "mean"),
    "peak_memory_bytes": (("fit", "memory, MB"), "max"),
    "relative_norm": (("new rows", "norm"), "mean"),
    "share_in_hull": (("new rows", "in hull"), "mean"),
}
_OF_TASK = (f"{metric(BITS_PER_BYTE).title} ↓", "gap closed ↑", "mean rank ↓")
Gaps = Mapping[tuple[str, str, str], Gap]  # by source model, vocabulary and task
Fits = Mapping[Model, Mapping[str, float]]


@table(
    title="Starting points before any training",
    caption="Initializers by the share of the gap that they close before any training: from the "
    "graft with random rows to the source model, in bits per byte of the same text. Means over "
    "languages with 95 % intervals; mean ranks; time and memory to compute the rows; and "
    "properties of the rows.",
    empty=NOTHING,
    options=GapOptions,
)
def leaderboard(study: StudyResults) -> Table | None:
    """Rows: the source model, then its initializers, best first, by vocabulary.

    Columns of each task are means over languages; a row that lacks a language has none.
    """
    by_panel = gaps(study)
    if not by_panel:
        return None
    tasks = list(dict.fromkeys(task for *_, task in by_panel))
    fits, headers = _fits(study), stub_names(study)
    rows: list[Row] = []
    for source, vocabulary in dict.fromkeys(key[:2] for key in by_panel):
        of_tasks = [by_panel[source, vocabulary, task] for task in tasks]
        shares = {model: mean.share for model, mean in of_tasks[0].means.items()}

        def order(model: Model, shares: dict[Model, float] = shares) -> tuple[bool, float]:
            return not model.baseline, -shares.get(model, -math.inf)

        for model in sorted(of_tasks[0].shares, key=order):
            group = source if model.baseline else f"{source} {vocabulary}"
            cells = _cells(model, of_tasks, fits)
            row = Row(stub(model, headers), cells, model.baseline, group)
            if row not in rows:  # the source model is repeated for each vocabulary
                rows.append(row)
    rows = ranked(rows, [*(False, True, False) * len(tasks), *(None,) * len(_FIT)])
    titles = [task_name(task, study.task_kind(task)) if len(tasks) > 1 else "" for task in tasks]
    heads = [(title, name) for title in titles for name in _OF_TASK]
    scored = len(heads)
    heads += [head for head, _ in _FIT.values()]
    without_fits = [replace(row, cells=row.cells[:scored]) for row in rows]
    notes = [*_notes(study, by_panel), *missing_note(without_fits, heads[:scored])]
    return Table(headers, heads, rows, _data(by_panel, fits), notes)


def _cells(model: Model, of_tasks: list[Gap], fits: Fits) -> tuple[TableCell, ...]:
    cells: list[TableCell] = []
    for gap in of_tasks:
        mean = gap.means.get(model)
        if mean is None:
            cells += [TableCell()] * len(_OF_TASK)
            continue
        interval = [number(100 * end, 1) for end in (mean.low, mean.high) if math.isfinite(end)]
        bits = number_cell(mean.bits, metric(BITS_PER_BYTE).decimals)
        share = percent_cell(mean.share)
        if model.baseline:
            cells += [bits, share, TableCell("")]
        else:
            share = replace(share, change=" to ".join(interval))
            cells += [bits, share, number_cell(mean.rank, 1)]
    if model.baseline:
        return (*cells, *(TableCell(""),) * len(_FIT))
    fit = fits.get(model, {})
    memory = fit.get("peak_memory_bytes")
    return (
        *cells,
        number_cell(fit.get("seconds"), 1),
        number_cell(memory and memory / 1e6, 0),
        number_cell(fit.get("relative_norm"), 2),
        percent_cell(fit.get("share_in_hull")),
    )


def _fits(study: StudyResults) -> Fits:
    """Cost of computing the rows, and their norm and hull, aggregated over languages and seeds."""
    frame = study.initialization
    frame = frame[frame["statistic"].isin(_FIT)]
    fits: dict[Model, dict[str, float]] = {}
    for key, values in frame.groupby([*AXES[:3], "statistic"], sort=False)["value"]:
        source, vocabulary, initializer, statistic = map(str, key)
        of_model = fits.setdefault(Model(source, vocabulary, initializer, "none"), {})
        of_model[statistic] = float(values.agg(_FIT[statistic][1]))
    return fits


def _data(by_panel: Gaps, fits: Fits) -> DataFrame:
    """A row per model, task and language, and one without a language for their means."""
    rows: list[dict[str, Any]] = []
    for (*_, task), gap in by_panel.items():
        for model, shares in gap.shares.items():
            names = {axis: getattr(model, axis) for axis in AXES[:3]} | {"task": task}
            for language, result in shares.items():
                numbers = {"rank": result.rank, "gap_closed": result.share}
                rows.append({**names, "language": language, BITS_PER_BYTE: result.bits, **numbers})
            if mean := gap.means.get(model):
                interval = {"gap_closed_low": mean.low, "gap_closed_high": mean.high}
                numbers = {"rank": mean.rank, "gap_closed": mean.share, **interval}
                numbers |= fits.get(model, {})
                rows.append({**names, "language": "", BITS_PER_BYTE: mean.bits, **numbers})
    return DataFrame(rows).drop_duplicates()  # the source model is repeated for each vocabulary


def _notes(study: StudyResults, by_panel: Gaps) -> list[str]:
    floor = initializer_name(study.item.option("floor"))
    scored: dict[str, dict[str, None]] = {}  # task -> languages with a gap
    for (*_, task), gap in by_panel.items():
        scored.setdefault(task, {}).update(dict.fromkeys(gap.languages))
    by_languages: dict[str, list[str]] = {}  # names of languages -> tasks
    for task, languages in scored.items():
        names = listed(map(study.language, languages)) or "no language"
        by_languages.setdefault(names, []).append(task_name(task, study.task_kind(task)))
    scope = "; ".join(f"{listed(tasks)}: {names}" for names, tasks in by_languages.items())
    if len(by_languages) == 1:
        scope = next(iter(by_languages))
    known = {language for languages in scored.values() for language in languages}
    over = "languages and over the sentences of each" if len(known) > 1 else "sentences"
    notes = [
        f"Before any training, over {scope}. Gap closed: 0 % is {floor}, 100 % the source model, "
        "in bits per byte of the same text; "
        f"next to it the bounds of the 95 % interval, by a bootstrap over {over} ({RESAMPLES:,} "
        "resamples).",
        "Mean rank: 1 is the lowest bits per byte of a language; ties get the mean of their ranks.",
        "Fit: seconds to compute the rows, including the training of any vectors for them; "
        "peak memory of the computation, without imports and inputs. Norm: mean norm of the new "
        "rows over that of the source rows. In hull: no weight of the recipe is "
        "negative and they sum to one; – where rows have no recipe, or are projected or scaled.",
    ]
    measured = {name for gap in by_panel.values() for by in gap.shares.values() for name in by}
    if closed := [name for name in study.order("language") if name in measured - known]:
        names = listed(map(study.language, closed))
        notes.append(f"Left out, because {floor} is no worse than the source model: {names}.")
    return notes
