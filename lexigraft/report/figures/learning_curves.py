"""Held-out bits per byte by training tokens and by time, and the cost of the same text."""

from collections.abc import Sequence
from itertools import product

from lexigraft.report import drawing
from lexigraft.report.drawing import Axes, Figure, Look
from lexigraft.report.frame import SEEDED, Model, StudyResults, models_of, select
from lexigraft.report.heldout import BITS_PER_BYTE, sentences_scored, source_level
from lexigraft.report.items import figure
from lexigraft.report.names import SAME_TEXT, listed
from lexigraft.report.table import number
from lexigraft.report.tables.fragmentation import vocabulary_sizes

_SOURCE = "source"  # the vocabulary of a source model
# Height in inches of a row of panels and of a bar; height of a cost's title in bars.
_HEIGHT, _BAR, _HEAD = 2.1, 0.17, 1.5

Costs = dict[str, dict[str, float]]  # title -> vocabulary -> cost


@figure(
    title="Bits per byte during training (lower is better)",
    caption="Bits per byte of held-out sentences over training tokens and training time: a line "
    "per initializer, or per strategy if the item names several, and one for LAPT (the source "
    "model trained with its own vocabulary). Dotted: the source model on the same sentences. Lines "
    "are means over {seeds}, faint lines single seeds. Right: the cost of the same text with each "
    "vocabulary in tokens, in seconds of training and in seconds of generation (one text at a "
    "time, or the smallest batch measured).",
    empty="no training log has bits per byte",
    rank=0,
)
def learning_curves(study: StudyResults, look: Look) -> Figure | None:
    """A row per source and language: bits per byte over tokens, over time, and the costs."""
    lines = drawing.trained_lines(study, look)
    trained = [*lines]
    logs = study.curves
    if BITS_PER_BYTE not in logs:
        return None
    if "seconds" in logs:  # of training up to each line, without evaluation and saving
        seconds = logs["seconds"].fillna(0).groupby([logs[axis] for axis in SEEDED])
        logs = logs.assign(elapsed=seconds.cumsum())
    logged = select(logs[logs[BITS_PER_BYTE].notna()], event="heldout")
    logged = logged[[model in set(trained) for model in models_of(logged)]]
    overs = [over for over in ("tokens", "elapsed") if over in logged and logged[over].max() > 0]
    panels = [
        (source, language)
        for source, language in product(study.order("source"), study.order("language"))
        if overs and len(select(logged, source=source, language=language))
    ]
    if not panels:
        return None
    costs = [text_costs(study, trained, *panel) for panel in panels]
    bars = max(sum(_HEAD + len(cost) for cost in of_panel.values()) for of_panel in costs)
    drawn = drawing.new_figure(drawing.WIDTH, 0.35 + max(_HEIGHT, _BAR * bars) * len(panels))
    ratios = [1.0] * len(overs) + [0.85] * (bars > 0)
    axes = drawn.subplots(len(panels), len(ratios), squeeze=False, width_ratios=ratios)
    scored = sentences_scored(study, trained)
    cards = study.training[[model in set(trained) for model in models_of(study.training)]]
    # Training times on different devices are not comparable.
    devices = list(dict.fromkeys(map(str, cards.get("device", ()))))
    for (source, language), of_panel, row in zip(panels, costs, axes, strict=True):
        curves = select(logged, source=source, language=language)
        level = source_level(study, trained, source, language, BITS_PER_BYTE)
        for axis, over in zip(row, overs, strict=False):
            drawing.draw_curves(axis, curves, BITS_PER_BYTE, over, lines)
            if level is not None:
                axis.axhline(level, color=drawing.MUTED, ls=":", lw=1, zorder=1, label="Source")
            if over == "elapsed" and len(devices) > 1:
                axis.set_xlabel(f"{axis.get_xlabel()}\non {listed(devices)}")
        for axis in row[1 : len(overs)]:
            axis.sharey(row[0])
        drawing.title_panel(row[0], study.panel_title(source, language))
        row[0].set_ylabel("held-out bits per byte" + (f"\n({scored})" if scored else ""))
        if bars:
            _draw_costs(row[-1], of_panel, bars)
    drawing.add_legend(drawn)
    return drawn


def text_costs(study: StudyResults, trained: Sequence[Model], source: str, language: str) -> Costs:
    """The cost of a sentence, and of 1,000, with the source's vocabulary and with each new one.

    Training: the seconds per token of the drawn models, times the tokens of the held-out sentences.
    Generation: the decoding steps of the same sentences times the measured time of a step.
    """
    frame = select(vocabulary_sizes(study), source=source, language=language)
    if frame.empty:
        return {}
    tokens = {_SOURCE: float(frame["tokens_per_sentence_before"].iloc[0])}
    tokens |= dict(zip(frame["vocabulary"], map(float, frame["tokens_per_sentence"]), strict=True))
    training = {}
    for vocabulary, length in tokens.items():
        cards = select(study.training, source=source, language=language, vocabulary=vocabulary)
        cards = cards[[model in trained for model in models_of(cards)]]
        if "seconds" in cards and cards["tokens"].sum() > 0 and cards["seconds"].sum() > 0:
            training[vocabulary] = 1000 * length * cards["seconds"].sum() / cards["tokens"].sum()
    costs = {
        "tokens per sentence": tokens,
        "training, s per 1,000 sentences": training,
        "generating 1,000 characters, s": _generation_times(study, source, language),
    }
    # A single vocabulary has nothing to be compared with.
    return {
        title: by_vocabulary for title, by_vocabulary in costs.items() if len(by_vocabulary) > 1
    }


def _generation_times(study: StudyResults, source: str, language: str) -> dict[str, float]:
    """Seconds to generate 1,000 characters by vocabulary: Source's, and means of others."""
    speeds = select(study.summary, source=source, language=language)
    speeds = speeds[(speeds["vocabulary"] != _SOURCE) | (speeds["strategy"] == "none")]
    batch = speeds["metric"].str.extract(rf"^{SAME_TEXT}_per_second_batch_(\d+)$")[0].astype(float)
    speeds = speeds[batch == batch.min()]
    speeds = speeds[speeds["task"] == next(iter(speeds["task"]), "")]
    means = (1000 / speeds["mean"]).groupby(speeds["vocabulary"], sort=False).mean()
    return {str(vocabulary): float(seconds) for vocabulary, seconds in means.items()}


def _draw_costs(axis: Axes, costs: Costs, room: float) -> None:
    """Draw bars with numbers under the title of each cost, scaled to its largest value.

    There is room for the same number of bars and titles next to every row of panels.
    """
    y, names = 0.0, {}
    for title, values in costs.items():
        axis.annotate(title, (0, y), va="center", fontsize=7.5)
        for vocabulary, value in values.items():
            y += 1
            is_source = vocabulary == _SOURCE
            length = value / max(values.values())
            axis.barh(
                y,
                length,
                0.72,
                color=drawing.MUTED if is_source else drawing.COLOURS[0],
                alpha=0.55,
                label=title,
            )
            axis.annotate(number(value, 0 if value >= 100 else 1), (length, y), (3, 0),
                          textcoords="offset points", va="center", fontsize=7.5)  # fmt: skip
            names[y] = "Source, LAPT" if is_source else vocabulary
        y += _HEAD
    axis.set_yticks([*names], [*names.values()], fontsize=7.5)
    axis.set_ylim(room - 0.6, -0.6)
    axis.set_xlim(0, 1.3)
    axis.set_xticks([])
    axis.tick_params(axis="y", length=0)
    axis.spines[["left", "bottom"]].set_visible(False)
