"""Perplexity and bits per byte (Yamaguchi et al., Tables 2 and 11)."""

from typing import Literal

from lexigraft.report.before_after import before_after, text_name, text_scores, text_tasks
from lexigraft.report.items import Kind, Options
from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model, find, models, stub, stub_names
from lexigraft.report.study import StudyResults
from lexigraft.report.summarize import CELL, Frame, select
from lexigraft.report.table import Row, Table, TableCell, is_compact, number, ranked, score_cell
from lexigraft.report.table_notes import lapt_note, missing_note, seed_notes

_Column = Literal["perplexity", "bits_per_byte_before", "bits_per_byte"]


class PerplexityOptions(Options):
    """The options of a table of perplexities."""

    metrics: tuple[_Column, ...] = ()


KIND = Kind(
    title="Perplexity and bits per byte",
    caption="Perplexity and bits per byte of held-out text. Perplexity is not comparable "
    "across vocabularies (†); bits per byte, before and after training, are.",
    empty="no perplexity was measured",
    options=PerplexityOptions,
)
COLUMNS = {
    "perplexity": "perplexity ↓",
    "bits_per_byte_before": "bits per byte before",
    "bits_per_byte": "bits per byte after ↓",
}
_BEFORE = "bits_per_byte_before"
_PER_TOKEN = (
    "† Perplexity is per token: it is not comparable across vocabularies, only among the rows "
    "without †. Bits per byte are over the same text for every row and always comparable."
)


def build(study: StudyResults) -> Table | None:
    """Per language: perplexity, and bits per byte before and after training, or the item's metrics.

    A group of languages is followed by its members, whose held-out texts are scored separately.
    """
    from lexigraft.report.table_tests import changes_over_source

    chosen, tasks = models(study), text_tasks(study, "perplexity")
    perplexities = text_scores(study.summary, tasks, "perplexity")
    if perplexities.empty or not chosen:
        return None
    named = study.item.where.get("language", ())
    starts = before_after(study)
    starts = starts[starts["measured_on"] == "records"]
    untrained = starts.loc[starts["initializer"] != "none", "before"].notna().any()
    known = [what for what in COLUMNS if what != _BEFORE or untrained]
    shown = study.item.metrics or tuple(known)
    # The language of a column, its metric, and the column of the summary.
    columns = [
        (
            member or language,
            what,
            (language, tasks.get(language, ""), f"{what}_{member}" if member else what),
        )
        for language in study.order("language")
        if language in tasks or language in named
        for member in ("", *_members(study.summary, language))
        for what in shown
        if not (member and what == _BEFORE)
    ]
    headers = stub_names(study)
    compact = is_compact(len(columns), len(headers))
    after = [column for _, what, column in columns if what == "bits_per_byte"]
    changes = changes_over_source(study, chosen, after)

    def cell(model: Model, what: str, column: Column) -> TableCell:
        if what == _BEFORE:
            return _before(starts, model, column[0])
        found = find(study, model, *column)
        if what == "bits_per_byte":
            return changes.starred(score_cell(found, metric(what), compact=compact), model, column)
        score = score_cell(found, metric(what), change=False)
        # A dagger marks rows with the source vocabulary, whose perplexities have another scale.
        dagger = model.baseline and found is not None
        return TableCell(f"{score.text}†", score.deviation) if dagger else score

    rows = [
        Row(stub(model, headers), tuple(cell(model, what, column) for _, what, column in columns),
            model.baseline, model.source)
        for model in chosen
    ]  # fmt: skip
    rows = ranked(rows, [None if what == _BEFORE else True for _, what, _ in columns])
    heads = tuple(
        (study.language(name), COLUMNS[what]) if len(shown) > 1 else ("", study.language(name))
        for name, what, _ in columns
    )
    notes = [
        *seed_notes(study, chosen, perplexities),
        *lapt_note(study, chosen),
        *([_PER_TOKEN] if "perplexity" in shown else []),
        *changes.notes,
        *missing_note(rows, heads),
    ]
    if _BEFORE in shown:
        notes.insert(1, "Before: the same cell without training, on the same text.")
    if named_text := text_name(study, "perplexity"):
        notes.append(f"Text of {named_text}; the CSV file also has that of the other tasks.")
    title = metric(shown[0]).title.capitalize() if len(shown) == 1 else ""
    return Table(headers, heads, rows, changes.beside(_data(study.summary, starts)), notes, title)


def _members(summary: Frame, language: str) -> list[str]:
    """The languages of a group, which have separate perplexities."""
    own = select(summary, language=language)["metric"].drop_duplicates()
    return [name.removeprefix("perplexity_") for name in own if name.startswith("perplexity_")]


def _data(summary: Frame, starts: Frame) -> Frame:
    """The summary of perplexities and bits per byte, and of those before training."""
    import pandas

    grouped = starts[starts["before"].notna()].groupby(CELL, sort=False)
    before = grouped["before"].agg(["mean", "std"])
    before["n_seeds"] = grouped.size()
    before["over"] = ["seeds" if n > 1 else "" for n in before["n_seeds"]]
    before = before.reset_index().assign(metric=_BEFORE)
    after = summary[summary["metric"].str.match("(perplexity|bits_per_byte)(_|$)")]
    return pandas.concat([after, before], ignore_index=True) if len(before) else after


def _before(starts: Frame, model: Model, language: str) -> TableCell:
    if model.strategy == "none":
        return TableCell("")
    values = select(starts, language=language, **model.keys())["before"].dropna()
    if values.empty:
        return TableCell()
    deviation = number(values.std(ddof=1), 3) if values.nunique() > 1 else ""
    return TableCell(number(values.mean(), 3), deviation, value=float(values.mean()))
