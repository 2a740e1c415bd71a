"""Tokens per sentence before and after adding new tokens, with English for comparison."""

from typing import TYPE_CHECKING, Any

from lexigraft.report.drawing import COLOURS, INK, MUTED, WIDTH, Look, new_figure, plain_axis
from lexigraft.report.frame import CELL, StudyResults
from lexigraft.report.items import figure
from lexigraft.report.models import vocabulary_stub
from lexigraft.report.rendering import number
from lexigraft.report.tables.fragmentation import NOTHING, vocabulary_sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure(
    title="Tokens per sentence before and after the new tokens",
    caption="Tokens per held-out sentence with the source tokenizer (pale) and with the new tokens "
    "(dark). Each token takes one generation step and one context position. Black line: tokens of "
    "the same text in English, estimated from parallel sentences.",
    empty=NOTHING,
)
def fertility(study: StudyResults, look: Look) -> "Figure | None":
    """One row per language and vocabulary, from before to after."""
    frame = vocabulary_sizes(study)
    if frame.empty:
        return None
    drawn = new_figure(WIDTH, 0.75 + 0.36 * len(frame))
    axis = drawn.subplots()
    names, marked = [], ""
    bar: dict[str, Any] = {"color": COLOURS[0], "lw": 8, "solid_capstyle": "butt"}
    for y, row in enumerate(frame.to_dict("records")):
        before, after = row["tokens_per_sentence_before"], row["tokens_per_sentence"]
        axis.plot([0, before], [y, y], alpha=0.18, **bar)
        axis.plot([0, after], [y, y], **bar)
        text = f"{number(before, 0)} → {number(after, 0)}"
        text += f"   ({number(before / after, 1)}× fewer)" if 0 < after < before else ""
        axis.annotate(text, (max(before, after), y), (5, 0), textcoords="offset points",
                      va="center")  # fmt: skip
        parity = row.get("english_parity_before")
        if parity is not None and parity == parity:
            if not marked:
                axis.annotate("English", (before / parity, y - 0.38), ha="center", va="bottom",
                              fontsize=7)  # fmt: skip
            marked = "; black: the same text in English"
            axis.plot([before / parity] * 2, [y - 0.32, y + 0.32], color=INK, lw=1.4)
        names.append(" · ".join(vocabulary_stub(study, *(row[key] for key in CELL[:3]))))
    axis.set_yticks(range(len(frame)), names)
    axis.set_ylim(len(frame) - 0.5, -0.85)
    longest = frame[["tokens_per_sentence", "tokens_per_sentence_before"]].max(axis=None)
    axis.set_xlim(0, longest * 1.32)
    plain_axis(axis)
    axis.set_xlabel(f"tokens per sentence: pale before, dark after{marked}")
    axis.spines["left"].set_color(MUTED)
    return drawn
