"""The recipes of new tokens: a bar per token, its source tokens stacked by weight."""

import re
from typing import Any, NamedTuple

from lexigraft.report.before_after import text_scores, text_tasks
from lexigraft.report.items import Kind
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.style import MUTED, ON_TINT, WIDTH, Axes, Figure, Look, new_figure
from lexigraft.report.summarize import select

KIND = Kind(
    title="Recipes of new tokens",
    caption="New tokens (left, ␣ is a space) and the source tokens that their embedding is a "
    "weighted sum of. Parts such as E0 B0 are bytes in hexadecimal that are not text on their own. "
    "The tokens are sampled evenly by frequency and by length.",
    empty="no initializer of this study returns a recipe",
)
# Maximum number of vocabularies for which a dozen tokens each are shown.
_MOST_FULL = 3
# Marks text as left-to-right, so that a weight is placed to the right of an Arabic part.
_LEFT_TO_RIGHT = "\u200e"
# Tints of adjacent parts: light enough for text; in grey, their outlines separate them.
_TINTS = ("#A9CBE8", "#F6D7A8", "#B5DDC8", "#EBC3D8", "#CFE4F5", "#FBE9CC", "#DDEFE6")


_BYTE = re.compile(r"\\x([0-9a-f]{2})")


class RecipePart(NamedTuple):
    """One source token of a recipe, as text or, if its bytes are not valid text, as hex."""

    label: str
    weight: float


class ComposedToken(NamedTuple):
    """A new token and its heaviest parts; `others` is the weight of the `more` parts not listed."""

    text: str
    parts: list[RecipePart]
    others: float
    more: int


class Composition(NamedTuple):
    """A dozen new tokens of one vocabulary, with their recipes by one initializer."""

    source: str
    language: str
    vocabulary: str
    initializer: str
    tokens: list[ComposedToken]


def draw(study: StudyResults, look: Look) -> "Figure | None":
    """A panel per vocabulary, one above the other."""
    found = compositions(study)
    if not found:
        return None
    # With many vocabularies, fewer tokens of each are shown, still spread over the list.
    step = 1 if len(found) <= _MOST_FULL else 2
    panels = [panel.tokens[::step] for panel in found]
    heights = [len(tokens) for tokens in panels]
    figure = new_figure(WIDTH, sum(0.31 * height + 0.45 for height in heights) + 0.25)
    axes = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    several = len({panel.vocabulary for panel in found}) > 1
    for axis, panel, tokens in zip(axes, found, panels, strict=True):
        names = [initializer_name(panel.initializer), *([panel.vocabulary] if several else [])]
        axis.set_title(study.place(panel.source, panel.language, *names))
        axis.set_ylim(len(tokens) - 0.5, -0.5)
        totals = (sum(part.weight for part in token.parts if part.weight > 0) + token.others
                  for token in tokens)  # fmt: skip
        axis.set_xlim(0, max(1.0, *totals))
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.tick_params(axis="x", length=2.5)
    axes[-1].set_xlabel("weight in the recipe (a new embedding row is this sum of source rows)")
    figure.draw_without_rendering()
    for axis, tokens in zip(axes, panels, strict=True):
        for y, token in enumerate(tokens):
            _draw_token(axis, y, token, look)
    return figure


def described(study: StudyResults) -> list[dict[str, Any]]:
    """The same tokens and parts as plain data."""
    return [
        {
            "language": found.language,
            "vocabulary": found.vocabulary,
            "initializer": found.initializer,
            "tokens": [
                {"text": token.text, "parts": [list(part) for part in token.parts]}
                for token in found.tokens
            ],
        }
        for found in compositions(study)
    ]


def compositions(study: StudyResults) -> list[Composition]:
    """For each vocabulary, the examples of its best initializer that is a recipe.

    The best has the lowest bits per byte under the reference strategy; without scores, it is the
    first of the study. Initializers that draw rows at random have no parts and are skipped.
    """
    scores = text_scores(study.summary, text_tasks(study))
    scores = select(scores, strategy=study.reference_strategy or "none")
    found = []
    for source, language, name in dict.fromkeys(key[:3] for key in study.examples):
        own = select(scores, source=source, language=language, vocabulary=name)
        best_first = own.sort_values("mean", kind="stable")["initializer"]
        for initializer in dict.fromkeys([*best_first, *study.initializers]):
            cell = (source, language, name, initializer)
            examples = next((e for key, e in study.examples.items() if key[:4] == cell), [])
            tokens = [_compose(example) for example in examples if example["parts"]]
            if tokens:
                found.append(Composition(*cell, tokens))
                break
    return found


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
    parts = [RecipePart(part_label(text), float(weight)) for text, weight in example["parts"]]
    # Weights of a recipe sum to one, so parts that are not listed have the rest.
    rest = max(0.0, 1 - sum(part.weight for part in parts)) if example["more"] else 0.0
    return ComposedToken(part_label(example["text"]), parts, rest, example["more"])


def _draw_token(axis: Axes, y: int, token: ComposedToken, look: Look) -> None:
    axis.annotate(token.text, (0, y), (-6, 0), textcoords="offset points", ha="right",
                  va="center", fontsize=10, annotation_clip=False,
                  fontfamily=look.fonts.families(token.text))  # fmt: skip
    bars: list[tuple[RecipePart, dict[str, Any], Any]] = [
        (part, {"color": _TINTS[place % len(_TINTS)]}, None)
        for place, part in enumerate(token.parts)
        if part.weight > 0
    ]
    if token.others > 1e-9:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        others = RecipePart(f"{token.more:,} more", token.others)
        bars.append((others, {"color": "none", "hatch": "////"}, box))
    start = 0.0
    for (text, width), fill, box in bars:
        axis.barh(y, width, left=start, height=0.78, edgecolor=MUTED, linewidth=0.5, **fill)
        # Write a part's name into its bar if it fits, and its weight if that fits too.
        room = axis.transData.transform((width, 0))[0] - axis.transData.transform((0, 0))[0]
        share = f"{width:.2f}".removeprefix("0")
        for shown in (f"{_LEFT_TO_RIGHT}{text}{_LEFT_TO_RIGHT}  {share}", text):
            note = axis.text(
                start + width / 2, y, shown, ha="center", va="center", fontsize=7.5,
                fontfamily=look.fonts.families(text), color=ON_TINT, bbox=box,
            )  # fmt: skip
            if note.get_window_extent().width <= room - 4:
                break
            note.remove()
        start += width
