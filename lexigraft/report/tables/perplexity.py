"""Perplexity and bits per byte (Yamaguchi et al., Tables 2 and 11)."""

from typing import TYPE_CHECKING, Literal

from lexigraft.report.before_after import before_after
from lexigraft.report.items import Kind, Options
from lexigraft.report.metrics import metric
from lexigraft.report.models import Model, find, models, stub, stub_names
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, select
from lexigraft.report.table import Row, Table, TableCell, is_compact, number, ranked, score_cell
from lexigraft.report.table_notes import lapt_note, missing_note, seed_notes
from lexigraft.report.table_tests import changes_over_source

if TYPE_CHECKING:
    import pandas

_Column = Literal["perplexity", "bits_per_byte_before", "bits_per_byte"]


class PerplexityOptions(Options):
    """The options of a table of perplexities."""

    metrics: tuple[_Column, ...] = ()


KIND = Kind(
    title="Perplexity and bits per byte",
    caption="Perplexity and bits per byte of held-out text. Perplexity does not compare across "
    "vocabularies (†); bits per byte, before and after training, do.",
    empty="no perplexity was measured",
    options=PerplexityOptions,
)
COLUMNS = {
    "perplexity": "perplexity ↓",
    "bits_per_byte_before": "bits per byte before",
    "bits_per_byte": "bits per byte after ↓",
}
_TITLES = {
    "perplexity": "Perplexity",
    "bits_per_byte_before": "Bits per byte before training",
    "bits_per_byte": "Bits per byte",
}
_PER_TOKEN = (
    "† Perplexity is per token: it does not compare across vocabularies, only among the rows "
    "without †. Bits per byte are over the same text for every row and compare throughout."
)


def build(study: StudyResults, summary: "pandas.DataFrame") -> Table | None:
    """Per language: perplexity, and bits per byte before and after training, or what is asked.

    A group of languages is followed by its members, whose held-out texts are scored apart.
    """
    perplexities = summary[summary["metric"] == "perplexity"]
    chosen = models(study)
    if perplexities.empty or not chosen:
        return None
    tasks = dict(zip(perplexities["language"], perplexities["task"], strict=True))
    named = study.item.where.get("language", ())
    languages = [name for name in study.order("language") if name in tasks or name in named]
    shown = study.item.metrics or tuple(COLUMNS)
    columns = [
        (language, member, column)
        for language in languages
        for member in ("", *_members(summary, language))
        for column in shown
        if not (member and column == "bits_per_byte_before")
    ]
    compact = is_compact(len(columns), len(stub_names(study)))
    starts = before_after(study, summary)
    places = {
        (language, member): (language, tasks.get(language, ""), _named(column, member))
        for language, member, column in columns
        if column == "bits_per_byte"
    }
    changes = changes_over_source(study, summary, chosen, list(places.values()))
    rows = []
    for model in chosen:
        cells: list[TableCell] = []
        for language, member, column in columns:
            if column == "bits_per_byte_before":
                cells.append(_before(starts, model, language))
                continue
            keys = {"language": language, "task": tasks.get(language, "")}
            found = find(summary, model, **keys, metric=_named(column, member))
            if column == "bits_per_byte":
                cell = score_cell(found, metric(column), compact=compact)
                cells.append(changes.starred(cell, model, places[language, member]))
                continue
            cell = score_cell(found, metric(column), change=False)
            # A dagger marks rows over the source vocabulary, whose perplexities are another scale.
            dagger = model.baseline and found is not None
            cells.append(TableCell(cell.text + "†", cell.deviation) if dagger else cell)
        rows.append(Row(stub(model, stub_names(study)), tuple(cells), model.baseline, model.source))
    rows = ranked(rows, [None if name == "bits_per_byte_before" else True for *_, name in columns])
    heads = tuple(
        (study.language(member or language), COLUMNS[column])
        if len(shown) > 1
        else ("", study.language(member or language))
        for language, member, column in columns
    )
    data = changes.beside(_data(summary, starts))
    notes = [
        *seed_notes(study, chosen, perplexities),
        *lapt_note(study, chosen),
        *([_PER_TOKEN] if "perplexity" in shown else []),
        *changes.notes,
        *missing_note(rows, heads),
    ]
    if "bits_per_byte_before" in shown and (starts["measured_on"] == "log").any():
        notes.insert(1, "Before: on the held-out sentences watched during training, a part of the "
                     "text of the other columns.")  # fmt: skip
    title = _TITLES[shown[0]] if len(shown) == 1 else ""
    return Table(stub_names(study), heads, rows, data, notes, title)


def _named(column: str, member: str) -> str:
    """What a record calls a column of a group, or of one of its members."""
    return f"{column}_{member}" if member else column


def _members(summary: "pandas.DataFrame", language: str) -> list[str]:
    """The languages of a group, which have perplexities of their own."""
    own = summary[summary["language"] == language]["metric"]
    names = own[own.str.startswith("perplexity_")].str.removeprefix("perplexity_")
    return list(dict.fromkeys(names))


def _data(summary: "pandas.DataFrame", changes: "pandas.DataFrame") -> "pandas.DataFrame":
    import pandas

    grouped = changes.groupby(CELL, sort=False)
    before = grouped["before"].agg(["mean", "std"])
    before["n_seeds"] = grouped.size()
    before["over"] = ["seeds" if n > 1 else "" for n in before["n_seeds"]]
    before = before.reset_index().assign(metric="bits_per_byte_before")
    after = summary[summary["metric"].str.match("(perplexity|bits_per_byte)(_|$)")]
    return pandas.concat([after, before], ignore_index=True) if len(before) else after


def _before(changes: "pandas.DataFrame", model: Model, language: str) -> TableCell:
    values = select(changes, language=language, **model.keys())["before"].dropna()
    if model.strategy == "none":
        return TableCell("")
    if values.empty:
        return TableCell()
    deviation = number(values.std(ddof=1), 3) if values.nunique() > 1 else ""
    return TableCell(number(values.mean(), 3), deviation, value=float(values.mean()))
