"""Tokens per sentence before and after adding new tokens, with English for comparison."""

from typing import Any

from lexigraft.report.drawing import COLOURS, INK, Figure, Look, name_rows, row_panels
from lexigraft.report.frame import CELL, StudyResults
from lexigraft.report.items import figure
from lexigraft.report.models import vocabulary_stub
from lexigraft.report.rendering import number
from lexigraft.report.tables.fragmentation import NOTHING, vocabulary_sizes


@figure(
    title="Tokens per sentence before and after the new tokens",
    caption="Tokens per held-out sentence with the source tokenizer (pale) and with the new tokens "
    "(dark). Each token takes one generation step and one context position. Black line: tokens of "
    "the same text in English, estimated from parallel sentences.",
    empty=NOTHING,
)
def fertility(study: StudyResults, look: Look) -> Figure | None:
    """One row per language and vocabulary, from before to after."""
    frame = vocabulary_sizes(study)
    if frame.empty:
        return None
    drawn, (axis,) = row_panels([0.75 + 0.36 * len(frame)], 0)
    label = "tokens per sentence: pale before, dark after"
    bar: dict[str, Any] = {"color": COLOURS[0], "height": 0.4}
    for y, row in enumerate(frame.to_dict("records")):
        before, after = row["tokens_per_sentence_before"], row["tokens_per_sentence"]
        axis.barh(y, before, alpha=0.18, label="before", **bar)
        axis.barh(y, after, label="after", **bar)
        text = f"{number(before, 0)} → {number(after, 0)}"
        text += f"   ({number(before / after, 1)}× fewer)" if 0 < after < before else ""
        axis.annotate(text, (max(before, after), y), (5, 0), textcoords="offset points",
                      va="center")  # fmt: skip
        parity = row.get("english_parity_before")
        if parity is not None and parity == parity:
            axis.plot([before / parity] * 2, [y - 0.32, y + 0.32], color=INK, lw=1.4,
                      label="English")  # fmt: skip
            label = "tokens per sentence: pale before, dark after; black: the same text in English"
    stubs = frame[CELL[:3]].itertuples(index=False, name=None)
    name_rows(axis, [" · ".join(vocabulary_stub(study, *key)) for key in stubs])
    longest = frame[["tokens_per_sentence", "tokens_per_sentence_before"]].max(axis=None)
    axis.set_xlim(0, longest * 1.32)
    axis.set_xlabel(label)
    return drawn
