"""Quality and speed-up over the number of new tokens (Yamaguchi et al., Figure 2)."""

from collections.abc import Callable
from functools import partial

from lexigraft.report import size_panels
from lexigraft.report.drawing import INK, MUTED, Figure, Look
from lexigraft.report.frame import Model, StudyResults
from lexigraft.report.items import ScoreOptions, SpeedUpBatch, figure
from lexigraft.report.models import models, quality_columns
from lexigraft.report.names import initializer_name, metric, task_name
from lexigraft.report.size_panels import PanelRow, Series, Value
from lexigraft.report.speed import measured_speeds, speed_by_task_kind


class SizeOptions(ScoreOptions):
    """The options of a figure over vocabulary sizes."""

    batch_size: SpeedUpBatch = None


@figure(
    title="Quality and speed-up by vocabulary size",
    caption="Quality and speed-up by the number of new tokens, which are evenly spaced and not to "
    "scale. The speed-up is for the same text (characters per second over Source, smallest "
    "batch measured). Training: {strategy}. Bars: one standard deviation. Dotted: Source; dashed "
    "and dotted: LAPT.",
    empty="no vocabulary's size and quality were both measured",
    options=SizeOptions,
)
def vocabulary_size(study: StudyResults, look: Look) -> Figure | None:
    """A row of quality and one of speed-up per task and source model; a column per language."""
    columns, sources = quality_columns(study), size_panels.sources_with_sizes(study)
    if not columns or not sources:
        return None
    speeds = measured_speeds(study)

    def quality(task: str, name: str, model: Model, language: str) -> Value:
        row = study.find(model, language, task, name)
        return None if row is None else (float(row["mean"]), float(row["std"]))

    def speed(kind: str, model: Model, language: str) -> Value:
        row = speed_by_task_kind(study, speeds, model).get((language, kind))
        if row is None or not row["source_mean"] > 0:
            return None
        return float(row["speed_up"]), float(row["std"] / row["source_mean"])

    rows: list[PanelRow] = []
    for task, name in dict.fromkeys((task, name) for _, task, name in columns):
        kind = study.task_kind(task)
        of_task = [column for column in columns if column[1:] == (task, name)]
        for source, prefix in sources:
            label = prefix + task_name(task, kind)
            noise = all(study.is_noise(source, column) for column in of_task)
            title = metric(name).title + (" (noise)" if noise else "")
            series = _series(study, look, source, partial(quality, task, name))
            rows.append(PanelRow(f"{label}, {title}", source, series))
            if kind in study.prompts_from.values():
                series = _series(study, look, source, partial(speed, kind))
                rows.append(PanelRow(f"{label}, speed-up (×)", source, series))
    languages = list(dict.fromkeys(language for language, *_ in columns))
    return size_panels.draw_over_sizes(study, rows, languages)


def _series(
    study: StudyResults, look: Look, source: str, value: Callable[[Model, str], Value]
) -> list[Series]:
    """Lines of all initializers, and horizontal lines of Source and LAPT."""

    def of_initializer(initializer: str, vocabulary: str, language: str) -> Value:
        strategy = study.reference_strategy or "none"
        return value(Model(source, vocabulary, initializer, strategy), language)

    series = [
        Series(initializer_name(key), look.style(key), partial(of_initializer, key))
        for key in study.initializers
    ]
    baselines = [model for model in models(study) if model.baseline and model.source == source]
    for label, is_source, style in (
        ("Source", True, {"color": INK, "ls": (0, (1, 1.4))}),
        ("LAPT", False, {"color": MUTED, "ls": (0, (5, 1.5, 1, 1.5))}),
    ):
        model = next((model for model in baselines if model.is_source == is_source), None)
        if model is not None:
            level = lambda _, language, model=model: value(model, language)  # noqa: E731
            series.append(Series(label, style, level, level=True))
    return series
