"""Share of new tokens in prompts and outputs (Yamaguchi et al., Figure 4)."""

from functools import partial

from lexigraft.report import size_panels
from lexigraft.report.drawing import DASHES, INK, Figure, Look
from lexigraft.report.frame import Model, StudyResults
from lexigraft.report.items import TaskOptions, figure
from lexigraft.report.names import initializer_name, task_name
from lexigraft.report.size_panels import PanelRow, Series, Value

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
def target_token_share(study: StudyResults, look: Look) -> Figure | None:
    """A row per task and source model, a column per language; × prompts, ● outputs."""
    measured = study.summary[study.summary["metric"].isin([_INPUT, _OUTPUT])]
    sources = size_panels.sources_with_sizes(study)
    if measured.empty or not sources:
        return None
    strategy = study.reference_strategy or "none"

    def value(
        source: str, task: str, name: str, initializers: list[str], vocabulary: str, language: str
    ) -> Value:
        models = (Model(source, vocabulary, name, strategy) for name in initializers)
        scores = (study.find(model, language, task, name) for model in models)
        row = next((score for score in scores if score is not None), None)
        return None if row is None else (100 * row["mean"], 100 * row["std"])

    rows = []
    for task in study.item.tasks or measured["task"].drop_duplicates():
        for source, prefix in sources:
            prompts = partial(value, source, task, _INPUT, study.initializers)
            series = [Series("prompts", {"color": INK, "marker": "x", "ls": ":"}, prompts)]
            for at, initializer in enumerate(study.initializers):
                # All outputs have the same marker, so in grey, dashes distinguish the lines.
                style = look.style(initializer) | {"marker": "o", "ls": DASHES[at % len(DASHES)]}
                outputs = partial(value, source, task, _OUTPUT, [initializer])
                series.append(Series(initializer_name(initializer), style, outputs))
            label = f"{prefix}{task_name(task, study.task_kind(task))}, %"
            rows.append(PanelRow(label, source, series))
    known = set(measured["language"]) | set(study.item.where.get("language", ()))
    return size_panels.draw_over_sizes(
        study, rows, [name for name in study.order("language") if name in known]
    )
