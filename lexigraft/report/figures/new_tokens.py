"""The recipes of new tokens: a bar per token, its source tokens stacked by weight."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lexigraft.report.before_after import METRIC
from lexigraft.report.items import Kind
from lexigraft.report.names import initializer_name
from lexigraft.report.study import StudyResults
from lexigraft.report.style import MUTED, ON_TINT, WIDTH, Look, new_figure

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KIND = Kind(
    title="Recipes of new tokens",
    caption="New tokens (left, ␣ is a space) and the source tokens that their embedding is a "
    "weighted sum of. Parts in capitals and digits such as E0 B0 are bytes that are no text by "
    "themselves. The tokens are spread over frequency and length.",
    empty="no initializer of this study returns a recipe",
)
# Vocabularies up to which a dozen tokens of each are shown.
_MOST_FULL = 3
# Marks text as running from left to right: a weight stays right of an Arabic part.
_LEFT_TO_RIGHT = "\u200e"
# Tints for parts side by side, light enough for text and told apart in grey by their outlines.
_TINTS = ("#A9CBE8", "#F6D7A8", "#B5DDC8", "#EBC3D8", "#CFE4F5", "#FBE9CC", "#DDEFE6")


_BYTE = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(frozen=True)
class RecipePart:
    """One source token of a recipe, as text or, where its bytes are no text, as hex."""

    label: str
    weight: float


@dataclass(frozen=True)
class ComposedToken:
    """A new token and its heaviest parts; `others` is the weight of the `more` parts not listed."""

    text: str
    parts: tuple[RecipePart, ...]
    others: float
    more: int


@dataclass(frozen=True)
class Composition:
    """A dozen new tokens of one vocabulary as one initializer makes them."""

    source: str
    language: str
    vocabulary: str
    initializer: str
    tokens: tuple[ComposedToken, ...]


def draw(study: StudyResults, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """A panel per vocabulary, one above the other."""
    found = compositions(study, summary)
    if not found:
        return None
    # Many vocabularies share the page: fewer tokens of each, still spread over the list.
    step = 1 if len(found) <= _MOST_FULL else 2
    found = [replace(panel, tokens=panel.tokens[::step]) for panel in found]
    heights = [len(panel.tokens) for panel in found]
    figure = new_figure(WIDTH, sum(0.31 * height + 0.45 for height in heights) + 0.25)
    axes = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, panel in zip(axes, found, strict=True):
        name = initializer_name(panel.initializer)
        several = len({p.vocabulary for p in found}) > 1
        title = f"{study.language(panel.language)}, {name}"
        axis.set_title(title + (f", {panel.vocabulary}" if several else ""))
        axis.set_ylim(len(panel.tokens) - 0.5, -0.5)
        axis.set_xlim(0, max(1.0, max(_total(token) for token in panel.tokens)))
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.tick_params(axis="x", length=2.5)
    axes[-1].set_xlabel("weight in the recipe (a new embedding row is this sum of source rows)")
    figure.draw_without_rendering()
    for axis, panel in zip(axes, found, strict=True):
        _bars(axis, panel, look)
    return figure


def described(study: StudyResults, summary: "pandas.DataFrame") -> list[dict[str, Any]]:
    """The same tokens and parts as plain data."""
    return [
        {
            "language": found.language,
            "vocabulary": found.vocabulary,
            "initializer": found.initializer,
            "tokens": [
                {"text": token.text, "parts": [[part.label, part.weight] for part in token.parts]}
                for token in found.tokens
            ],
        }
        for found in compositions(study, summary)
    ]


def compositions(study: StudyResults, summary: "pandas.DataFrame") -> list[Composition]:
    """For each vocabulary, the examples of its best initializer that is a recipe.

    Best: fewest bits per byte under the reference strategy; without scores, the first of the
    study. Initializers that draw rows have no parts and are passed over.
    """
    found = []
    for vocabulary in dict.fromkeys(key[:3] for key in study.examples):
        for initializer in _best_first(study, summary, vocabulary):
            examples = next(
                (e for key, e in study.examples.items() if key[:4] == (*vocabulary, initializer)),
                [],
            )
            tokens = tuple(_compose(example) for example in examples if example["parts"])
            if tokens:
                source, language, name = vocabulary
                found.append(Composition(source, language, name, initializer, tokens))
                break
    return found


def part_label(text: str) -> str:
    r"""Text with its spaces shown; bytes that are no text (`\xe0`) make all of it hex."""
    if not _BYTE.search(text):
        return text.replace(" ", "␣")
    parts: list[str] = []
    for piece in re.split(r"(\\x[0-9a-f]{2})", text):
        match = _BYTE.fullmatch(piece)
        parts += [match[1].upper()] if match else ["␣"] if piece == " " else _hex(piece)
    return " ".join(parts)


def _hex(text: str) -> list[str]:
    return [f"{byte:02X}" for byte in text.encode()]


def _compose(example: dict[str, Any]) -> ComposedToken:
    parts = tuple(RecipePart(part_label(text), float(weight)) for text, weight in example["parts"])
    # Weights of a recipe sum to one, so what is not listed weighs the rest.
    rest = max(0.0, 1 - sum(part.weight for part in parts)) if example["more"] else 0.0
    return ComposedToken(part_label(example["text"]), parts, rest, example["more"])


def _best_first(
    study: StudyResults, summary: "pandas.DataFrame", key: tuple[str, str, str]
) -> list[str]:
    own = summary[
        (summary["metric"] == METRIC)
        & (summary["strategy"] == (study.reference_strategy or "none"))
    ]
    for axis, value in zip(("source", "language", "vocabulary"), key, strict=True):
        own = own[own[axis] == value]
    ranked = list(own.sort_values("mean", kind="stable")["initializer"])
    return ranked + [name for name in study.initializers if name not in ranked]


def _total(token: ComposedToken) -> float:
    return sum(part.weight for part in token.parts if part.weight > 0) + token.others


def _bars(axis: "Axes", panel: Composition, look: Look) -> None:
    renderer = axis.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for y, token in enumerate(panel.tokens):
        axis.annotate(token.text, (0, y), (-6, 0), textcoords="offset points", ha="right",
                      va="center", fontsize=10, annotation_clip=False,
                      fontfamily=look.fonts.families(token.text))  # fmt: skip
        start = 0.0
        for place, part in enumerate(token.parts):
            if part.weight <= 0:
                continue
            axis.barh(y, part.weight, left=start, height=0.78, color=_TINTS[place % len(_TINTS)],
                      edgecolor=MUTED, linewidth=0.5)  # fmt: skip
            _inside(axis, renderer, start, part.weight, y, part.label, look)
            start += part.weight
        if token.others > 1e-9:
            axis.barh(y, token.others, left=start, height=0.78, color="none", edgecolor=MUTED,
                      linewidth=0.5, hatch="////")  # fmt: skip
            more = f"{token.more:,} more"
            _inside(axis, renderer, start, token.others, y, more, look, box=True)


def _inside(
    axis: "Axes", renderer, start: float, width: float, y: float, text: str, look: Look,
    box: bool = False,
) -> None:  # fmt: skip
    """Write a part's name in its bar if it fits there, with its weight where that fits too."""
    room = axis.transData.transform((width, 0))[0] - axis.transData.transform((0, 0))[0]
    families = look.fonts.families(text)
    share = f"{width:.2f}".removeprefix("0")
    backing = {"facecolor": "white", "edgecolor": "none", "pad": 0.8} if box else None
    for shown in (f"{_LEFT_TO_RIGHT}{text}{_LEFT_TO_RIGHT}  {share}", text):
        note = axis.text(
            start + width / 2, y, shown, ha="center", va="center", fontsize=7.5,
            fontfamily=families, color=ON_TINT, bbox=backing,
        )  # fmt: skip
        if note.get_window_extent(renderer).width <= room - 4:
            return
        note.remove()
