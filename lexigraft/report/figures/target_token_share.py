"""Share of new tokens in prompts and outputs (Yamaguchi et al., Figure 4)."""

from functools import partial
from typing import TYPE_CHECKING

from lexigraft.report.drawing import DASHES, INK, Look
from lexigraft.report.frame import Model, StudyResults
from lexigraft.report.items import TaskOptions, figure
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.size_panels import (
    PanelRow,
    Series,
    Value,
    draw_over_sizes,
    sources_with_sizes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INPUT, _OUTPUT = "new_token_share_input", "new_token_share_output"


@figure(
    title="Share of new tokens",
    caption="Share of new tokens among all tokens read and written, in percent, by the number of "
    "new tokens. ×: prompts, the same for every initializer; ●: generated text. "
    "Sizes are evenly spaced, not to scale. Training: {strategy}. A model that writes far "
    "fewer new tokens than it reads has not learned to use them.",
    empty="no share of new tokens was measured",
    options=TaskOptions,
)
def target_token_share(study: StudyResults, look: Look) -> "Figure | None":
    """A row per task and source model, a column per language; × prompts, ● outputs."""
    measured = study.summary[study.summary["metric"].isin([_INPUT, _OUTPUT])]
    sources = sources_with_sizes(study)
    if measured.empty or not sources:
        return None
    rows = []
    for task in study.item.tasks or measured["task"].drop_duplicates():
        for source, prefix in sources:
            label = f"{prefix}{task_name(task, study.task_kind(task))}, %"
            rows.append(PanelRow(label, source, _series(study, look, source, task), []))
    known = set(measured["language"]) | set(study.item.where.get("language", ()))
    languages = [name for name in study.order("language") if name in known]
    return draw_over_sizes(study, rows, languages)


def _series(study: StudyResults, look: Look, source: str, task: str) -> list[Series]:
    strategy = study.reference_strategy or "none"

    def value(name: str, initializer: str, vocabulary: str, language: str) -> Value:
        model = Model(source, vocabulary, initializer, strategy)
        row = study.find(model, language, task, name)
        return None if row is None else (100 * row["mean"], 100 * row["std"])

    def of_prompts(vocabulary: str, language: str) -> Value:
        values = (value(_INPUT, name, vocabulary, language) for name in study.initializers)
        return next((known for known in values if known is not None), None)

    series = [Series("prompts", {"color": INK, "marker": "x", "ls": ":"}, of_prompts)]
    for place, name in enumerate(study.initializers):
        # All outputs have the same marker, so in grey, dashes distinguish the lines.
        dashes = DASHES[place % len(DASHES)]
        style = look.style(name) | {"marker": "o", "ls": dashes}
        series.append(Series(initializer_name(name), style, partial(value, _OUTPUT, name)))
    return series
