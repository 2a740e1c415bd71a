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
from lexigraft.report.table import Row, Table, TableCell, missing_note, number_cell, ranked

# Statistics of a fit -> heading, aggregation over languages, unit and decimals; None: percent.
_FIT = {
    "seconds": (("fit", "seconds"), "mean", 1, 1),
    "peak_memory_bytes": (("fit", "memory, MB"), "max", 1e6, 0),
    "relative_norm": (("new rows", "norm"), "mean", 1, 2),
    "share_in_hull": (("new rows", "in hull"), "mean", 1, None),
}
_OF_TASK = (f"{metric(BITS_PER_BYTE).title} ↓", "gap closed ↑", "mean rank ↓")


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
    fits, headers, decimals = _fits(study), stub_names(study), metric(BITS_PER_BYTE).decimals
    rows: list[Row] = []
    for source, vocabulary in dict.fromkeys(key[:2] for key in by_panel):
        of_tasks = [by_panel[source, vocabulary, task] for task in tasks]
        shares = {model: -mean.share for model, mean in of_tasks[0].means.items()}
        for model in sorted(
            of_tasks[0].shares, key=lambda model: (not model.baseline, shares.get(model, math.inf))
        ):
            fit = fits.get(model, {})
            cells: list[TableCell] = []
            for gap in of_tasks:
                mean = gap.means.get(model)
                if mean is None:
                    cells += [TableCell()] * len(_OF_TASK)
                    continue
                ends = [number(100 * end, 1) for end in (mean.low, mean.high) if math.isfinite(end)]
                interval = "" if model.baseline else " to ".join(ends)
                cells += [
                    number_cell(mean.bits, decimals),
                    replace(number_cell(mean.share, None), change=interval),
                    TableCell("") if model.baseline else number_cell(mean.rank, 1),
                ]
            for name, (_, _, scale, places) in _FIT.items():
                value = number_cell(fit.get(name, math.nan) / scale, places)
                cells.append(TableCell("") if model.baseline else value)
            group = source if model.baseline else f"{source} {vocabulary}"
            row = Row(stub(model, headers), tuple(cells), model.baseline, group)
            if row not in rows:  # the source model is repeated for each vocabulary
                rows.append(row)
    rows = ranked(rows, [*(False, True, False) * len(tasks), *(None,) * len(_FIT)])
    titles = [task_name(task, study.task_kind(task)) if len(tasks) > 1 else "" for task in tasks]
    heads = [(title, name) for title in titles for name in _OF_TASK]
    scores = [replace(row, cells=row.cells[: len(heads)]) for row in rows]
    notes = [*_notes(study, by_panel), *missing_note(scores, heads)]
    heads += [head for head, *_ in _FIT.values()]
    data: list[dict[str, Any]] = []  # per model, task and language; without one for the means
    for (*_, task), gap in by_panel.items():
        for model, by_language in gap.shares.items():
            names = {axis: getattr(model, axis) for axis in AXES[:3]} | {"task": task}
            for language, result in by_language.items():
                numbers = {"rank": result.rank, "gap_closed": result.share}
                data.append({**names, "language": language, BITS_PER_BYTE: result.bits, **numbers})
            if mean := gap.means.get(model):
                numbers = {"rank": mean.rank, "gap_closed": mean.share}
                numbers |= {"gap_closed_low": mean.low, "gap_closed_high": mean.high}
                numbers |= fits.get(model, {})
                data.append({**names, "language": "", BITS_PER_BYTE: mean.bits, **numbers})
    return Table(headers, heads, rows, DataFrame(data).drop_duplicates(), notes)


def _fits(study: StudyResults) -> dict[Model, dict[str, float]]:
    """Cost of computing the rows, and their norm and hull, aggregated over languages and seeds."""
    frame = study.initialization
    frame = frame[frame["statistic"].isin(_FIT)]
    fits: dict[Model, dict[str, float]] = {}
    for key, values in frame.groupby([*AXES[:3], "statistic"], sort=False)["value"]:
        source, vocabulary, initializer, statistic = map(str, key)
        of_model = fits.setdefault(Model(source, vocabulary, initializer, "none"), {})
        of_model[statistic] = float(values.agg(_FIT[statistic][1]))
    return fits


def _notes(study: StudyResults, by_panel: Mapping[tuple[str, str, str], Gap]) -> list[str]:
    floor = initializer_name(study.item.option("floor"))
    scored: dict[str, dict[str, None]] = {}  # task -> languages with a gap
    for (*_, task), gap in by_panel.items():
        scored.setdefault(task, {}).update(dict.fromkeys(gap.languages))
    scopes = {task: listed(map(study.language, by_task)) for task, by_task in scored.items()}
    scope = "; ".join(
        f"{task_name(task, study.task_kind(task))}: {names or 'no language'}"
        for task, names in scopes.items()
    )
    if len({*scopes.values()}) == 1:
        scope = next(iter(scopes.values()))
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
