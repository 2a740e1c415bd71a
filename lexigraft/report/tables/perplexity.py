"""Perplexity and bits per byte (Yamaguchi et al., Tables 2 and 11)."""

import math
from typing import Literal

import pandas
from pandas import DataFrame

from lexigraft.report import model_table
from lexigraft.report.frame import CELL, Column, Model, StudyResults, select
from lexigraft.report.heldout import before_after, text_name, text_scores, text_tasks
from lexigraft.report.items import Options, table
from lexigraft.report.models import models, stub, stub_names
from lexigraft.report.names import metric
from lexigraft.report.table import Table, TableCell, missing_note

_BEFORE = "bits_per_byte_before"
_HEADS = {
    "perplexity": "perplexity ↓",
    _BEFORE: "bits per byte before",
    "bits_per_byte": "bits per byte after ↓",
}


class PerplexityOptions(Options):
    """The options of a table of perplexities."""

    metrics: tuple[Literal["perplexity", "bits_per_byte_before", "bits_per_byte"], ...] = ()


@table(
    title="Perplexity and bits per byte",
    caption="Perplexity and bits per byte of held-out text. Perplexity is not comparable "
    "across vocabularies (†); bits per byte, before and after training, are.",
    empty="no perplexity was measured",
    options=PerplexityOptions,
)
def perplexity(study: StudyResults) -> Table | None:
    """Per language: perplexity, and bits per byte before and after training, or the item's metrics.

    A group of languages is followed by its members, whose held-out texts are scored separately.
    """
    rows, tasks = models(study), text_tasks(study, "perplexity")
    perplexities = text_scores(study.summary, tasks, "perplexity")
    if perplexities.empty or not rows:
        return None
    before = _before(study)
    contents = study.item.metrics or tuple(
        name for name in _HEADS if name != _BEFORE or (before["initializer"] != "none").any()
    )
    # The language of a column, its content, and the column of the summary.
    columns: list[tuple[str, str, Column]] = []
    for language in study.order("language"):
        if language not in tasks and language not in study.item.where.get("language", ()):
            continue
        scored = select(study.summary, language=language)["metric"].drop_duplicates()
        members = [name for name in scored if name.startswith("perplexity_")]
        for member in ("", *(name.removeprefix("perplexity_") for name in members)):
            for content in contents:
                if not (member and content == _BEFORE):
                    name = f"{content}_{member}" if member else content
                    column = (language, tasks.get(language, ""), name)
                    columns.append((member or language, content, column))
    headers = stub_names(study)
    after = [column for _, content, column in columns if content == "bits_per_byte"]
    changes = model_table.changes_over_source(study, rows, after)

    def cell(model: Model, key: tuple[str, str, Column]) -> TableCell:
        _, content, column = key
        if content == _BEFORE:
            if model.strategy == "none":
                return TableCell("")
            scores = select(before, language=column[0], **model.axes()).to_dict("records")
            # The mean over other seeds is the same for each seed.
            score = scores[0] | {"std": scores[0]["std"] or math.nan} if scores else None
            return model_table.score_cell(score, metric(_BEFORE), change=False)
        score = study.find(model, *column)
        if content == "bits_per_byte":
            return changes.starred(model_table.score_cell(score, metric(content)), model, column)
        shown = model_table.score_cell(score, metric(content), change=False)
        # A dagger marks rows with the source vocabulary, whose perplexities have another scale.
        dagger = model.baseline and score is not None
        return TableCell(f"{shown.text}†", shown.deviation) if dagger else shown

    table_rows = model_table.model_rows(
        {model: stub(model, headers) for model in rows},
        columns,
        cell,
        [None if content == _BEFORE else False for _, content, _ in columns],
    )
    heads = [
        (study.language(name), _HEADS[content]) if len(contents) > 1 else ("", study.language(name))
        for name, content, _ in columns
    ]
    seeds, *missing_seeds = model_table.seed_notes(study, rows, perplexities)
    notes = [seeds]
    if _BEFORE in contents:
        notes.append("Before: the same cell without training, on the same text.")
    notes += [*missing_seeds, *model_table.lapt_note(study, rows)]
    if "perplexity" in contents:
        notes.append(
            "† Perplexity is per token: it is not comparable across vocabularies, only among the "
            "rows without †. Bits per byte are over the same text for every row and always "
            "comparable."
        )
    notes += [*changes.notes, *missing_note(table_rows, heads)]
    if named_text := text_name(study, "perplexity"):
        notes.append(f"Text of {named_text}; the CSV file also has that of the other tasks.")
    title = metric(contents[0]).title.capitalize() if len(contents) == 1 else ""
    measured = study.summary["metric"].str.match("(perplexity|bits_per_byte)(_|$)")
    data = study.summary[measured]
    data = pandas.concat([data, before], ignore_index=True) if len(before) else data
    return Table(headers, heads, table_rows, changes.join(data), notes, title)


def _before(study: StudyResults) -> DataFrame:
    """Bits per byte of each trained cell before training: mean and deviation over seeds."""
    starts = before_after(study)
    starts = starts[(starts["measured_on"] == "records") & starts["before"].notna()]
    before = starts.groupby(CELL, sort=False)["before"].agg(["mean", "std", "size"])
    before["n_seeds"] = before.pop("size")
    before["over"] = ["seeds" if n > 1 else "" for n in before["n_seeds"]]
    return before.reset_index().assign(metric=_BEFORE)
