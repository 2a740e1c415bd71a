"""The recipes of new tokens: a bar per token, its source tokens stacked by weight."""

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.report.drawing import MUTED, WIDTH, Look, new_figure
from lexigraft.report.frame import StudyResults, select
from lexigraft.report.heldout import text_scores, text_tasks
from lexigraft.report.items import figure
from lexigraft.report.names import initializer_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_FULL = 3  # maximum number of vocabularies for which a dozen tokens each are shown
# Marks text as left-to-right, so that a weight is placed to the right of an Arabic part.
_LEFT_TO_RIGHT = "\u200e"
# Tints of adjacent parts: light enough for text; in grey, their outlines separate them. Text on
# them is dark on a dark page, too.
_TINTS = ("#A9CBE8", "#F6D7A8", "#B5DDC8", "#EBC3D8", "#CFE4F5", "#FBE9CC", "#DDEFE6")
_ON_TINT = "#15181B"
_BYTE = re.compile(r"\\x([0-9a-f]{2})")


class ComposedToken(NamedTuple):
    """A new token and its heaviest parts; `others` is the weight of the `more` parts not listed."""

    text: str
    parts: list[tuple[str, float]]
    others: float
    more: int


class Composition(NamedTuple):
    """A dozen new tokens of one vocabulary, with their recipes by one initializer."""

    source: str
    language: str
    vocabulary: str
    initializer: str
    tokens: list[ComposedToken]


@figure(
    title="Recipes of new tokens",
    caption="New tokens (left, ␣ is a space) and the source tokens that their embedding is a "
    "weighted sum of. Parts such as E0 B0 are bytes in hexadecimal that are not text on their own. "
    "The tokens are sampled evenly by frequency and by length.",
    empty="no initializer of this study returns a recipe",
)
def new_tokens(study: StudyResults, look: Look) -> "Figure | None":
    """A panel per vocabulary, one above the other."""
    composed = compositions(study)
    if not composed:
        return None
    # With many vocabularies, fewer tokens of each are shown, still spread over the list.
    step = 1 if len(composed) <= _MOST_FULL else 2
    panels = [panel.tokens[::step] for panel in composed]
    heights = [len(tokens) for tokens in panels]
    drawn = new_figure(WIDTH, sum(0.31 * height + 0.45 for height in heights) + 0.25)
    axes = drawn.subplots(len(composed), 1, squeeze=False, height_ratios=heights)[:, 0]
    several = len({panel.vocabulary for panel in composed}) > 1
    for axis, panel, tokens in zip(axes, composed, panels, strict=True):
        names = [initializer_name(panel.initializer), *([panel.vocabulary] if several else [])]
        axis.set_title(study.panel_title(panel.source, panel.language, *names))
        axis.set_ylim(len(tokens) - 0.5, -0.5)
        totals = (sum(max(0, weight) for _, weight in token.parts) + token.others
                  for token in tokens)  # fmt: skip
        axis.set_xlim(0, max(1.0, *totals))
        axis.set_yticks(range(len(tokens)), [token.text for token in tokens], fontsize=10)
        axis.tick_params(axis="y", length=0, pad=6)
        axis.spines["left"].set_visible(False)
    axes[-1].set_xlabel("weight in the recipe (a new embedding row is this sum of source rows)")
    drawn.draw_without_rendering()  # the widths of bars decide which labels fit
    for axis, tokens in zip(axes, panels, strict=True):
        for y, token in enumerate(tokens):
            _draw_token(axis, y, token)
    return drawn


def compositions(study: StudyResults) -> list[Composition]:
    """For each vocabulary, the examples of its best initializer that is a recipe.

    The best has the lowest bits per byte under the reference strategy; without scores, it is the
    first of the study. Initializers that draw rows at random have no parts and are skipped.
    """
    scores = text_scores(study.summary, text_tasks(study))
    scores = select(scores, strategy=study.reference_strategy or "none")
    composed = []
    for key in dict.fromkeys(fit[:3] for fit in study.examples):
        source, language, vocabulary = key
        rows = select(scores, source=source, language=language, vocabulary=vocabulary)
        best_first = rows.sort_values("mean", kind="stable")["initializer"]
        for initializer in dict.fromkeys([*best_first, *study.initializers]):
            cell = (*key, initializer)
            examples = next((e for fit, e in study.examples.items() if fit[:4] == cell), [])
            tokens = [_compose(example) for example in examples if example["parts"]]
            if tokens:
                composed.append(Composition(source, language, vocabulary, initializer, tokens))
                break
    return composed


def part_label(text: str) -> str:
    r"""Text with visible spaces; if it has bytes that are not valid text (`\xe0`), all as hex."""
    if not _BYTE.search(text):
        return text.replace(" ", "␣")
    parts: list[str] = []
    for piece in re.split(r"(\\x[0-9a-f]{2})", text):
        match = _BYTE.fullmatch(piece)
        as_hex = piece.encode().hex(" ").upper().split()
        parts += [match[1].upper()] if match else ["␣"] if piece == " " else as_hex
    return " ".join(parts)


def _compose(example: dict[str, Any]) -> ComposedToken:
    parts = [(part_label(text), float(weight)) for text, weight in example["parts"]]
    # Weights of a recipe sum to one, so parts that are not listed have the remaining weight.
    others = max(0.0, 1 - sum(weight for _, weight in parts)) if example["more"] else 0.0
    return ComposedToken(part_label(example["text"]), parts, others, example["more"])


def _draw_token(axis: "Axes", y: int, token: ComposedToken) -> None:
    """Draw a bar for each part, with its name if it fits, and its weight if that fits too."""
    bars: list[tuple[str, float, dict[str, Any], Any]] = [
        (text, weight, {"color": _TINTS[place % len(_TINTS)]}, None)
        for place, (text, weight) in enumerate(token.parts)
        if weight > 0
    ]
    if token.others > 1e-9:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        hatch = {"color": "none", "hatch": "////"}
        bars.append((f"{token.more:,} more", token.others, hatch, box))
    start = 0.0
    for text, width, fill, box in bars:
        axis.barh(y, width, left=start, height=0.78, edgecolor=MUTED, linewidth=0.5, **fill)
        room = axis.transData.transform((width, 0))[0] - axis.transData.transform((0, 0))[0]
        share = f"{width:.2f}".removeprefix("0")
        for label in (f"{_LEFT_TO_RIGHT}{text}{_LEFT_TO_RIGHT}  {share}", text):
            note = axis.text(start + width / 2, y, label, ha="center", va="center", fontsize=7.5,
                             color=_ON_TINT, bbox=box)  # fmt: skip
            if note.get_window_extent().width <= room - 4:
                break
            note.remove()
        start += width
