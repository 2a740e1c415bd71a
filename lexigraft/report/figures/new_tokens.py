"""The recipes of new tokens: a bar per token, its source tokens stacked by weight."""

import re
from typing import NamedTuple

from lexigraft.report.drawing import MUTED, Figure, Look, row_panels
from lexigraft.report.frame import StudyResults, select
from lexigraft.report.heldout import text_scores, text_tasks
from lexigraft.report.items import figure
from lexigraft.report.names import initializer_name

_MOST_FULL = 3  # maximum number of vocabularies for which a dozen tokens each are shown
# Marks text as left-to-right, so that a weight is placed to the right of an Arabic part.
_LEFT_TO_RIGHT = "\u200e"
# Light enough for text; in grey, the outlines of adjacent parts separate them. Text on them is dark
# on a dark page, too.
_TINTS = ("#A9CBE8", "#F6D7A8", "#B5DDC8", "#EBC3D8", "#CFE4F5", "#FBE9CC", "#DDEFE6")
_ON_TINT = "#15181B"
_LETTER = 0.012  # width of a letter as a share of the axis
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
def new_tokens(study: StudyResults, look: Look) -> Figure | None:
    """A panel per vocabulary, one above the other; a bar per part, with its name if it fits."""
    composed = compositions(study)
    if not composed:
        return None
    # With many vocabularies, fewer tokens of each are shown, still spread over the list.
    step = 1 if len(composed) <= _MOST_FULL else 2
    drawn, axes = row_panels([0.31 * len(panel.tokens[::step]) + 0.45 for panel in composed], 0.25)
    several = len({panel.vocabulary for panel in composed}) > 1
    for axis, panel in zip(axes, composed, strict=True):
        tokens, widest = panel.tokens[::step], 1.0
        for y, token in enumerate(tokens):
            start = 0.0
            more = (f"{token.more:,} more", token.others)
            for at, (text, weight) in enumerate([*token.parts, more]):
                if weight <= 1e-9:
                    continue
                tint = "none" if at == len(token.parts) else _TINTS[at % len(_TINTS)]
                axis.barh(y, weight, left=start, height=0.78, color=tint, edgecolor=MUTED, lw=0.5)
                share = f"{weight:.2f}".removeprefix("0")
                labels = (f"{_LEFT_TO_RIGHT}{text}{_LEFT_TO_RIGHT}  {share}", text)
                label = next((label for label in labels if _LETTER * len(label) < weight), "")
                axis.text(start + weight / 2, y, label, ha="center", va="center", fontsize=7.5,
                          color=_ON_TINT)  # fmt: skip
                start += weight
            widest = max(widest, start)
        names = [initializer_name(panel.initializer), *([panel.vocabulary] if several else [])]
        axis.set_title(study.panel_title(panel.source, panel.language, *names))
        axis.set_ylim(len(tokens) - 0.5, -0.5)
        axis.set_xlim(0, widest)
        axis.set_yticks(range(len(tokens)), [token.text for token in tokens], fontsize=10)
        axis.tick_params(axis="y", length=0, pad=6)
        axis.spines["left"].set_visible(False)
    axes[-1].set_xlabel("weight in the recipe (a new embedding row is this sum of source rows)")
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
            tokens = []
            for example in (example for example in examples if example["parts"]):
                parts = [(part_label(text), float(weight)) for text, weight in example["parts"]]
                # Weights of a recipe sum to one: parts that are not listed have the remainder.
                others = max(0.0, 1 - sum(weight for _, weight in parts)) if example["more"] else 0
                text = part_label(example["text"])
                tokens.append(ComposedToken(text, parts, others, example["more"]))
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
