"""Quality and speed-up over the number of new tokens (Yamaguchi et al., Figure 2)."""

from collections.abc import Callable
from functools import partial

from lexigraft.report.items import Kind, ScoreOptions, SpeedUpBatch
from lexigraft.report.metrics import metric
from lexigraft.report.models import Model, find, models
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.size_panels import PanelRow, Series, Value, draw_rows, sources_of
from lexigraft.report.study import StudyResults
from lexigraft.report.style import INK, MUTED, Figure, Look
from lexigraft.report.tables.results import quality_columns
from lexigraft.report.tables.speed import speed_ups, speeds


class SizeOptions(ScoreOptions):
    """The options of a figure over vocabulary sizes."""

    batch_size: SpeedUpBatch = None


KIND = Kind(
    title="Quality and speed-up by vocabulary size",
    caption="Quality and speed-up by the number of new tokens, which are evenly spaced and not to "
    "scale. The speed-up is for the same text (characters per second over Source, smallest "
    "batch measured). Training: {strategy}. Bars: one standard deviation. Dotted: Source; dashed "
    "and dotted: LAPT. Points that were not measured are named below the panels.",
    empty="no vocabulary's size and quality were both measured",
    options=SizeOptions,
)


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row of quality and one of speed-up per task and source model; a column per language."""
    columns = quality_columns(study)
    sources = sources_of(study)
    if not columns or not sources:
        return None
    fast = speeds(study)

    def quality(task: str, name: str, model: Model, language: str) -> Value:
        found = find(study, model, language=language, task=task, metric=name)
        return None if found is None else (float(found["mean"]), float(found["std"]))

    def speed(kind: str, model: Model, language: str) -> Value:
        found = speed_ups(study, fast, model).get((language, kind))
        if found is None or not found["source_mean"] > 0:
            return None
        return float(found["speed_up"]), float(found["std"] / found["source_mean"])

    rows: list[PanelRow] = []
    for task, name in dict.fromkeys((task, name) for _, task, name in columns):
        kind = study.kind(task)
        for source, label in sources:
            label += task_name(task, kind)
            value: Callable[[Model, str], Value] = partial(quality, task, name)
            own = [column for column in columns if column[1:] == (task, name)]
            noise = all(study.is_noise(source, column) for column in own)
            shown = metric(name).title + (" (noise)" if noise else "")
            rows.append(_row(study, look, source, f"{label}, {shown}", value))
            if kind in study.prompts_from.values():
                value = partial(speed, kind)
                rows.append(_row(study, look, source, f"{label}, speed-up (×)", value))
    languages = list(dict.fromkeys(language for language, *_ in columns))
    return draw_rows(study, rows, languages)


def _row(
    study: StudyResults, look: Look, source: str, name: str, value: Callable[[Model, str], Value]
) -> PanelRow:
    """Lines of all initializers, and horizontal lines of Source and LAPT."""

    def adapted(initializer: str, vocabulary: str, language: str) -> Value:
        strategy = study.reference_strategy or "none"
        return value(Model(source, vocabulary, initializer, strategy), language)

    series = []
    for key in study.initializers:
        style = dict(zip(("color", "marker", "ls"), look.of(key), strict=True))
        series.append(Series(initializer_name(key), style, partial(adapted, key)))
    baselines = {one.is_source: one for one in reversed(models(study))
                 if one.baseline and one.source == source}  # fmt: skip
    levels = []
    for label, is_source, style in (
        ("Source", True, {"color": INK, "ls": (0, (1, 1.4))}),
        ("LAPT", False, {"color": MUTED, "ls": (0, (5, 1.5, 1, 1.5))}),
    ):
        model = baselines.get(is_source)
        of_model = partial(value, model) if model else lambda language: None
        levels.append(Series(label, style, of_model))
    return PanelRow(name, source, series, levels)
