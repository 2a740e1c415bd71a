"""Initializers by how far they bring a graft before any training, and what they take."""

import math
from collections.abc import Mapping
from dataclasses import replace

from lexigraft.report.items import Kind
from lexigraft.report.metrics import metric
from lexigraft.report.models import AXES, Model, find, stub, stub_names
from lexigraft.report.names import initializer_name, listed, task_name
from lexigraft.report.starting_points import (
    METRIC,
    UNTRAINED,
    GapShare,
    Standing,
    StartingPointOptions,
    gap_shares,
    grafts,
    standings,
    tasks_shown,
    with_gap,
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
    "languages with 95 % intervals; mean ranks; seconds and memory of making the rows; and where "
    "the rows lie.",
    empty="no untrained graft was scored beside one with random rows and the source model",
    options=StartingPointOptions,
)
# Statistics of a fit: column of the CSV file, heading, what of the languages' numbers is shown.
_FIT = {
    "seconds": ("fit", "seconds", "mean"),
    "peak_memory_bytes": ("fit", "memory, MB", "max"),
    "relative_norm": ("new rows", "norm", "mean"),
    "share_in_hull": ("new rows", "in hull", "mean"),
}
_OF_TASK = (f"{metric(METRIC).title} ↓", "gap closed ↑", "mean rank ↓")
Shares = Mapping[Model, Mapping[str, GapShare]]


def build(study: StudyResults) -> Table | None:
    """Rows: the source model, then its initializers from the best on, by vocabulary.

    Columns of each task are means over languages; a row that lacks a language has none.
    """
    groups, tasks = grafts(study), tasks_shown(study)
    if not groups or not tasks:
        return None
    shares = {
        (group, task): gap_shares(study, models, task)
        for group, models in groups.items()
        for task in tasks
    }
    means = {key: standings(own, *key[0], key[1]) for key, own in shares.items()}
    if not any(means.values()):
        return None
    fits = _fits(study)
    headers, rows = stub_names(study), []
    for source in dict.fromkeys(source for source, _ in groups):
        rows.append(_source_row(study, source, shares, tasks, headers))
        for group, models in groups.items():
            if group[0] == source:
                own = [means[group, task] for task in tasks]
                rows += [
                    Row(stub(model, headers), _cells(model, own, fits), group=" ".join(group))
                    for model in sorted(models, key=lambda model: _order(model, own[0]))
                ]
    rows = ranked(rows, [*(True, False, True) * len(tasks), *(None,) * len(_FIT)])
    titles = [task_name(task, study.kind(task)) if len(tasks) > 1 else "" for task in tasks]
    heads = [(title, name) for title in titles for name in _OF_TASK]
    heads += [(over, name) for over, name, _ in _FIT.values()]
    scored = len(_OF_TASK) * len(tasks)
    lacking = [replace(row, cells=row.cells[:scored]) for row in rows]
    notes = [*_notes(study, shares), *missing_note(lacking, heads[:scored])]
    return Table(headers, heads, rows, _data(shares, means, fits), notes)


def _order(model: Model, means: Mapping[Model, Standing]) -> float:
    return -means[model].share if model in means else math.inf


def _cells(
    model: Model, means: list[dict[Model, Standing]], fits: Mapping[Model, Mapping[str, float]]
) -> tuple[TableCell, ...]:
    cells: list[TableCell] = []
    for own in means:
        found = own.get(model)
        if found is None:
            cells += [TableCell()] * len(_OF_TASK)
            continue
        ends = [number(100 * end, 1) for end in (found.low, found.high) if math.isfinite(end)]
        share = percent_cell(found.share)
        cells += [
            number_cell(found.bits, metric(METRIC).decimals),
            TableCell(share.text, change=" to ".join(ends), value=share.value),
            number_cell(found.rank, 1),
        ]
    fit = fits.get(model, {})
    memory = fit.get("peak_memory_bytes")
    return (
        *cells,
        number_cell(fit.get("seconds"), 1),
        number_cell(memory and memory / 1e6, 0),
        number_cell(fit.get("relative_norm"), 2),
        percent_cell(fit.get("share_in_hull")),
    )


def _source_row(
    study: StudyResults,
    source: str,
    shares: Mapping[tuple[tuple[str, str], str], Shares],
    tasks: list[str],
    headers: tuple[str, ...],
) -> Row:
    """The source model, over the languages that its grafts are averaged over."""
    model = Model(source, "source", "none", UNTRAINED)
    cells = []
    for task in tasks:
        languages = dict.fromkeys(
            language
            for ((own, _), name), found in shares.items()
            if (own, name) == (source, task)
            for language in with_gap(found)
        )
        rows = [find(study.summary, model, language, task, METRIC) for language in languages]
        bits = [float(row["mean"]) for row in rows if row is not None]
        mean = sum(bits) / len(bits) if bits else None
        cells += [number_cell(mean, metric(METRIC).decimals), percent_cell(1.0), TableCell("")]
    return Row(stub(model, headers), (*cells, *(TableCell(""),) * len(_FIT)), True, source)


def _fits(study: StudyResults) -> dict[Model, dict[str, float]]:
    """What making the rows took and where they lie, over languages and seeds."""
    frame = study.initialization
    frame = frame[frame["statistic"].isin(_FIT)]
    found: dict[Model, dict[str, float]] = {}
    for key, values in frame.groupby([*AXES[:3], "statistic"], sort=False)["value"]:
        *names, statistic = map(str, key)
        model = Model(*names, UNTRAINED)
        found.setdefault(model, {})[statistic] = float(values.agg(_FIT[statistic][2]))
    return found


def _data(
    shares: Mapping[tuple[tuple[str, str], str], Shares],
    means: Mapping[tuple[tuple[str, str], str], Mapping[Model, Standing]],
    fits: Mapping[Model, Mapping[str, float]],
) -> Frame:
    """A row for each graft, task and language, and one without a language for their means."""
    import pandas

    rows = []
    for key, own in shares.items():
        task = key[1]
        for model, found in own.items():
            names = {axis: getattr(model, axis) for axis in AXES[:3]} | {"task": task}
            rows += [
                names | {"language": language, METRIC: one.bits, "rank": one.rank,
                         "gap_closed": one.share}
                for language, one in found.items()
            ]  # fmt: skip
            if mean := means[key].get(model):
                rows.append(
                    names
                    | {"language": "", METRIC: mean.bits, "rank": mean.rank,
                       "gap_closed": mean.share, "gap_closed_low": mean.low,
                       "gap_closed_high": mean.high}
                    | fits.get(model, {})
                )  # fmt: skip
    return pandas.DataFrame(rows)


def _notes(study: StudyResults, shares: Mapping[tuple[tuple[str, str], str], Shares]) -> list[str]:
    from lexigraft.report.paired_tests import RESAMPLES

    floor = initializer_name(study.item.option("floor"))
    languages = list(dict.fromkeys(name for own in shares.values() for name in with_gap(own)))
    others = [
        name for name in study.order("language")
        if name not in languages and any(name in one for own in shares.values()
                                         for one in own.values())
    ]  # fmt: skip
    several = len(languages) > 1
    over = "languages and over the sentences of each" if several else "sentences"
    notes = [
        f"Before any training, over {listed([study.language(name) for name in languages])}. Gap "
        f"closed: 0 % is {floor}, 100 % the source model, in bits per byte of the same text; "
        f"beside it the ends of the 95 % interval, by a bootstrap over {over} ({RESAMPLES:,} "
        "resamples).",
        "Mean rank: 1 is the lowest bits per byte of a language; equal numbers share the mean of "
        "their ranks.",
        "Fit: seconds to make the rows, and the vectors that an initializer reads where these were "
        "trained for it; the most memory that the process held, with the source's matrices. Norm: "
        "mean length of new rows over that of the source's. In hull: no weight of the recipe is "
        "negative and they sum to one; – where rows have no recipe, or are projected or scaled.",
    ]
    if others:
        named = listed([study.language(name) for name in others])
        notes.append(f"Left out, because {floor} is no worse than the source model: {named}.")
    return notes
