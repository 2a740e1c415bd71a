"""Share of new tokens in prompts and outputs (Yamaguchi et al., Figure 4)."""

from dataclasses import replace

from lexigraft.report.drawing import DASHES, INK, Figure, Look
from lexigraft.report.figures.vocabulary_size import (
    PanelRow,
    Score,
    draw_over_sizes,
    line_of,
    sources_with_sizes,
)
from lexigraft.report.frame import Model, StudyResults
from lexigraft.report.items import TaskOptions, figure
from lexigraft.report.names import task_name

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
    rows = []
    for task in study.item.tasks or measured["task"].unique():

        def share(model: Model, language: str, task: str = task) -> Score:
            return study.find(model, language, task, _OUTPUT)

        def prompts(model: Model, language: str, task: str = task) -> Score:
            models = (replace(model, initializer=name) for name in study.initializers)
            scores = (study.find(model, language, task, _INPUT) for model in models)
            return next((score for score in scores if score is not None), None)

        for source, prefix in sources_with_sizes(study):
            style = {"label": "prompts", "color": INK, "marker": "x", "ls": ":"}
            lines = [(style, line_of(study, source, "", prompts))]
            for at, name in enumerate(study.initializers):
                # All outputs have the same marker, so in grey, dashes distinguish the lines.
                style = look.style(name) | {"marker": "o", "ls": DASHES[at % len(DASHES)]}
                lines.append((style, line_of(study, source, name, share)))
            label = f"{prefix}{task_name(task, study.task_kind(task))}, %"
            rows.append(PanelRow(label, source, lines, [], 100))
    if measured.empty or not rows:
        return None
    known = {*measured["language"], *study.item.where.get("language", ())}
    return draw_over_sizes(study, rows, [key for key in study.order("language") if key in known])
