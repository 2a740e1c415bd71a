"""Initializers ranked by the gap that they close before any training, with their costs."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lexigraft.report.items import Kind
from lexigraft.report.metrics import metric
from lexigraft.report.models import AXES, Model, stub, stub_names
from lexigraft.report.names import initializer_name, listed, task_name
from lexigraft.report.starting_points import (
    METRIC,
    NOTHING,
    UNTRAINED,
    Gap,
    StartingPointOptions,
    gaps,
)
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import Frame
from lexigraft.report.table import (
    Row,
    Table,
    TableCell,
    number,
    number_cell,
    percent_cell,
    ranked,
)
from lexigraft.report.table_notes import missing_note

KIND = Kind(
    title="Starting points before any training",
    caption="Initializers by the share of the gap that they close before any training: from the "
    "graft with random rows to the source model, in bits per byte of the same text. Means over "
    "languages with 95 % intervals; mean ranks; time and memory to compute the rows; and "
    "properties of the rows.",
    empty=NOTHING,
    options=StartingPointOptions,
)
# Statistics of a fit: column of the CSV file, heading, and aggregation over languages.
_FIT = {
    "seconds": ("fit", "seconds", "mean"),
    "peak_memory_bytes": ("fit", "memory, MB", "max"),
    "relative_norm": ("new rows", "norm", "mean"),
    "share_in_hull": ("new rows", "in hull", "mean"),
}
_OF_TASK = (f"{metric(METRIC).title} ↓", "gap closed ↑", "mean rank ↓")
Gaps = Mapping[tuple[str, str, str], Gap]  # by source model, vocabulary and task


def build(study: StudyResults) -> Table | None:
    """Rows: the source model, then its initializers, best first, by vocabulary.

    Columns of each task are means over languages; a row that lacks a language has none.
    """
    found = gaps(study)
    if not found:
        return None
    tasks = list(dict.fromkeys(task for *_, task in found))
    fits, headers, rows = _fits(study), stub_names(study), []
    for source, vocabulary in dict.fromkeys(key[:2] for key in found):
        own = [found[source, vocabulary, task] for task in tasks]
        for model in sorted(own[0].shares, key=lambda model: _order(model, own[0])):
            group = source if model.baseline else f"{source} {vocabulary}"
            row = Row(stub(model, headers), _cells(model, own, fits), model.baseline, group)
            rows += [] if row in rows else [row]
    rows = ranked(rows, [*(True, False, True) * len(tasks), *(None,) * len(_FIT)])
    titles = [task_name(task, study.kind(task)) if len(tasks) > 1 else "" for task in tasks]
    heads = [(title, name) for title in titles for name in _OF_TASK]
    heads += [(over, name) for over, name, _ in _FIT.values()]
    scored = len(_OF_TASK) * len(tasks)
    lacking = [replace(row, cells=row.cells[:scored]) for row in rows]
    notes = [*_notes(study, found), *missing_note(lacking, heads[:scored])]
    return Table(headers, heads, rows, _data(found, fits), notes)


def _order(model: Model, gap: Gap) -> tuple[bool, float]:
    """Sort key: the source model first, then the best first."""
    return not model.baseline, -gap.means[model].share if model in gap.means else math.inf


def _cells(
    model: Model, own: list[Gap], fits: Mapping[Model, Mapping[str, float]]
) -> tuple[TableCell, ...]:
    cells: list[TableCell] = []
    for gap in own:
        found = gap.means.get(model)
        if found is None:
            cells += [TableCell()] * len(_OF_TASK)
            continue
        ends = [number(100 * end, 1) for end in (found.low, found.high) if math.isfinite(end)]
        share, bits = percent_cell(found.share), number_cell(found.bits, metric(METRIC).decimals)
        if model.baseline:
            cells += [bits, share, TableCell("")]
        else:
            cells += [bits, replace(share, change=" to ".join(ends)), number_cell(found.rank, 1)]
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


def _fits(study: StudyResults) -> dict[Model, dict[str, float]]:
    """Cost of computing the rows, and their norm and hull, aggregated over languages and seeds."""
    frame = study.initialization
    frame = frame[frame["statistic"].isin(_FIT)]
    found: dict[Model, dict[str, float]] = {}
    for key, values in frame.groupby([*AXES[:3], "statistic"], sort=False)["value"]:
        source, vocabulary, initializer, statistic = map(str, key)
        model = Model(source, vocabulary, initializer, UNTRAINED)
        found.setdefault(model, {})[statistic] = float(values.agg(_FIT[statistic][2]))
    return found


def _data(found: Gaps, fits: Mapping[Model, Mapping[str, float]]) -> Frame:
    """A row per model, task and language, and one without a language for their means."""
    import pandas

    rows: list[dict[str, Any]] = []
    for (*_, task), gap in found.items():
        for model, shares in gap.shares.items():
            names = {axis: getattr(model, axis) for axis in AXES[:3]} | {"task": task}
            rows += [
                names | {"language": language, METRIC: one.bits, "rank": one.rank,
                         "gap_closed": one.share}
                for language, one in shares.items()
            ]  # fmt: skip
            if mean := gap.means.get(model):
                rows.append(
                    names
                    | {"language": "", METRIC: mean.bits, "rank": mean.rank,
                       "gap_closed": mean.share, "gap_closed_low": mean.low,
                       "gap_closed_high": mean.high}
                    | dict(fits.get(model, {}))
                )  # fmt: skip
    # The source model is repeated for each vocabulary.
    return pandas.DataFrame(rows).drop_duplicates()


def _notes(study: StudyResults, found: Gaps) -> list[str]:
    from lexigraft.report.paired_tests import RESAMPLES

    floor = initializer_name(study.item.option("floor"))
    scored: dict[str, dict[str, None]] = {}  # task -> languages with a gap
    for (*_, task), gap in found.items():
        scored.setdefault(task, {}).update(dict.fromkeys(gap.languages))
    places: dict[str, list[str]] = {}  # these languages -> tasks
    for task, languages in scored.items():
        named = listed(map(study.language, languages)) or "no language"
        places.setdefault(named, []).append(task_name(task, study.kind(task)))
    of_tasks = "; ".join(f"{listed(tasks)}: {named}" for named, tasks in places.items())
    known = {language for languages in scored.values() for language in languages}
    over = "languages and over the sentences of each" if len(known) > 1 else "sentences"
    notes = [
        f"Before any training, over {of_tasks if len(places) > 1 else next(iter(places))}. Gap "
        f"closed: 0 % is {floor}, 100 % the source model, in bits per byte of the same text; "
        f"next to it the bounds of the 95 % interval, by a bootstrap over {over} ({RESAMPLES:,} "
        "resamples).",
        "Mean rank: 1 is the lowest bits per byte of a language; ties get the mean of their ranks.",
        "Fit: seconds to compute the rows, including the training of any vectors for them; "
        "peak memory of the computation, without imports and inputs. Norm: mean norm of the new "
        "rows over that of the source rows. In hull: no weight of the recipe is "
        "negative and they sum to one; – where rows have no recipe, or are projected or scaled.",
    ]
    graft = {language for gap in found.values() for own in gap.shares.values() for language in own}
    if others := [name for name in study.order("language") if name in graft - known]:
        named = listed(map(study.language, others))
        notes.append(f"Left out, because {floor} is no worse than the source model: {named}.")
    return notes
