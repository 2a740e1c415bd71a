"""Quality and speed-up over the number of new tokens (Yamaguchi et al., Figure 2)."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lexigraft.report.items import BatchSize, Kind, ScoreOptions
from lexigraft.report.metrics import metric
from lexigraft.report.models import Column, Model, find, models
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.size_panels import Level, PanelRow, Series, Value, draw_rows, sizes
from lexigraft.report.study import StudyResults
from lexigraft.report.style import INK, MUTED, Look
from lexigraft.report.tables.results import quality_columns
from lexigraft.report.tables.speed import speed_ups, speeds

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class SizeOptions(ScoreOptions):
    """The options of a figure over the size of the vocabulary."""

    batch_size: Annotated[
        BatchSize | None, Field(description="of the speed-up; default: the smallest measured")
    ] = None


KIND = Kind(
    title="Quality and speed-up by vocabulary size",
    caption="Quality and speed-up by the number of new tokens, which are evenly spaced and not to "
    "scale. The speed-up is of writing the same text (characters per second over Source, smallest "
    "batch measured). Training: {strategy}. Bars: one standard deviation. Dotted: Source; dashed "
    "and dotted: LAPT. Points that were not measured are named below the panels.",
    empty="no vocabulary's size and quality were both measured",
    options=SizeOptions,
)
_BASELINES: dict[str, dict[str, Any]] = {
    "Source": {"color": INK, "ls": (0, (1, 1.4))},
    "LAPT": {"color": MUTED, "ls": (0, (5, 1.5, 1, 1.5))},
}


def draw(study: StudyResults, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """For each task and source model a row of quality and one of speed-up; a column a language."""
    columns = quality_columns(study, summary)
    known = sizes(study)
    sources = [name for name in study.order("source") if any(key[0] == name for key in known)]
    if not columns or not sources:
        return None
    fast = speeds(summary)
    rows: list[PanelRow] = []
    for task, name in dict.fromkeys((task, name) for _, task, name in columns):
        for source in sources:
            kind = study.kind(task)
            label = (f"{source}\n" if len(sources) > 1 else "") + task_name(task, kind)
            rows.append(_quality(study, summary, look, source, ("", task, name), label))
            if kind in study.prompts_from.values():
                rows.append(_speed(study, fast, look, source, kind, label))
    languages = list(dict.fromkeys(language for language, *_ in columns))
    return draw_rows(study, rows, languages)


def _quality(
    study: StudyResults,
    summary: "pandas.DataFrame",
    look: Look,
    source: str,
    column: Column,
    label: str,
) -> PanelRow:
    """The row of one source model and metric."""
    _, task, name = column

    def value(model: Model | None, language: str) -> Value:
        keys = {"language": language, "task": task, "metric": name}
        found = find(summary, model, **keys) if model else None
        return None if found is None else (float(found["mean"]), float(found["std"]))

    return _row(study, look, source, f"{label}, {metric(name).title}", value)


def _speed(
    study: StudyResults, fast: "pandas.DataFrame", look: Look, source: str, kind: str, label: str
) -> PanelRow:
    """The row of one source model's speed-up on the prompts of one kind of task."""

    def value(model: Model | None, language: str) -> Value:
        found = speed_ups(study, fast, model).get((language, kind)) if model else None
        if found is None or not found["source_mean"] > 0:
            return None
        return float(found["speed_up"]), float(found["std"] / found["source_mean"])

    return _row(study, look, source, f"{label}, speed-up (×)", value)


def _row(
    study: StudyResults,
    look: Look,
    source: str,
    name: str,
    value: Callable[[Model | None, str], Value],
) -> PanelRow:
    """Lines of all initializers, and Source and LAPT across."""
    own = [model for model in models(study) if model.baseline and model.source == source]

    def adapted(initializer: str, vocabulary: str, language: str) -> Value:
        strategy = study.reference_strategy or "none"
        return value(Model(source, vocabulary, initializer, strategy), language)

    def baseline(which: str, language: str) -> Value:
        fitting = [model for model in own if (model.strategy == "none") == (which == "Source")]
        return value(fitting[0] if fitting else None, language)

    series = []
    for key in study.initializers:
        look_of = {"color": look.colour(key), "marker": look.marker(key), "ls": look.dashes(key)}
        series.append(Series(initializer_name(key), look_of, partial(adapted, key)))
    levels = [Level(which, style, partial(baseline, which)) for which, style in _BASELINES.items()]
    return PanelRow(name, source, series, levels)
