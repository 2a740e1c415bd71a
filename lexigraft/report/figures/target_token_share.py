"""Share of new tokens in prompts and outputs (Yamaguchi et al., Figure 4)."""

from functools import partial

from lexigraft.report.items import Kind, TaskOptions
from lexigraft.report.models import Model, find
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.size_panels import PanelRow, Series, Value, draw_rows, sources_of
from lexigraft.report.study import StudyResults
from lexigraft.report.style import INK, Figure, Look

_DASHES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1)), (0, (8, 2, 2, 2)))


KIND = Kind(
    title="Share of new tokens",
    caption="Share of new tokens among all tokens read and written, in percent, by the number of "
    "new tokens. ×: prompts, the same for every initializer; ●: generated text. "
    "Sizes are evenly spaced, not to scale. Training: {strategy}. A model that writes far "
    "fewer new tokens than it reads has not learned to use them.",
    empty="no share of new tokens was measured",
    options=TaskOptions,
)
INPUT, OUTPUT = "new_token_share_input", "new_token_share_output"


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A row per task and source model, a column per language; × prompts, ● outputs."""
    measured = study.summary[study.summary["metric"].isin([INPUT, OUTPUT])]
    sources = sources_of(study)
    if measured.empty or not sources:
        return None
    rows = []
    for task in study.item.tasks or measured["task"].drop_duplicates():
        for source, label in sources:
            label += f"{task_name(task, study.kind(task))}, %"
            rows.append(PanelRow(label, source, _series(study, look, source, task), []))
    spoken = set(measured["language"]) | set(study.item.where.get("language", ()))
    return draw_rows(study, rows, [name for name in study.order("language") if name in spoken])


def _series(study: StudyResults, look: Look, source: str, task: str) -> list[Series]:
    strategy = study.reference_strategy or "none"

    def value(name: str, initializer: str, vocabulary: str, language: str) -> Value:
        model = Model(source, vocabulary, initializer, strategy)
        found = find(study, model, language=language, task=task, metric=name)
        return None if found is None else (100 * found["mean"], 100 * found["std"])

    def of_prompts(vocabulary: str, language: str) -> Value:
        values = (value(INPUT, name, vocabulary, language) for name in study.initializers)
        return next((found for found in values if found is not None), None)

    series = [Series("prompts", {"color": INK, "marker": "x", "ls": ":"}, of_prompts)]
    for place, name in enumerate(study.initializers):
        # All outputs have the same marker, so in grey, dashes distinguish the lines.
        style = {"color": look.of(name)[0], "marker": "o", "ls": _DASHES[place % len(_DASHES)]}
        series.append(Series(initializer_name(name), style, partial(value, OUTPUT, name)))
    return series
