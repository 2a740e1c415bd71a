"""Training logs, and the lines in figures of training: their models, names and styles."""

from typing import Any, NamedTuple

from lexigraft.report.labels import label_ends, label_room
from lexigraft.report.models import Model, models, models_of, several_strategies
from lexigraft.report.names import row_name
from lexigraft.report.study import SEEDED, StudyResults
from lexigraft.report.style import MUTED, Axes, Figure, Look, lay_out, series_style
from lexigraft.report.summarize import CELL, Frame, select

_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
# A running mean covers 1/25 of the steps, since the loss of a single step is noisy.
_SMOOTHED_TO = 25
# Units of the x axis: the bound on the longest training, the unit, and the label.
_SCALES = {
    "step": ((float("inf"), 1, "training step"),),
    "tokens": (
        (1e4, 1, "training tokens"),
        (1e7, 1e3, "training tokens, in thousands"),
        (1e10, 1e6, "training tokens, in millions"),
        (float("inf"), 1e9, "training tokens, in billions"),
    ),
    "elapsed": (
        (300, 1, "training time, seconds"),
        (300 * 60, 60, "training time, minutes"),
        (float("inf"), 3600, "training time, hours"),
    ),
}

End = tuple[float, float, str, str]  # position of a line's end, its name and colour


class Line(NamedTuple):
    """A trained model as a line; `style` are matplotlib's settings of colour, marker and dashes."""

    model: Model
    name: str
    style: dict[str, Any]


def lines(study: StudyResults, look: Look) -> list[Line]:
    """The trained models of a study as lines.

    They are trained under the reference strategy, or under each strategy that an item names. The
    name of a line consists of the axes that differ: initializer, vocabulary, strategy. Initializers
    have the same colours in all figures; if all lines have the same initializer, colours
    distinguish vocabularies or strategies. LAPT's name includes its strategy if the other lines
    have different ones; if an item compares strategies, LAPT under other strategies is not shown.
    """
    compared = several_strategies(study)
    found = [model for model in models(study) if model.strategy != "none"]
    found = [model for model in found if not compared or model.strategy in compared]
    new = [model for model in found if not model.baseline]
    several = [axis for axis in ("initializer", "vocabulary", "strategy")
               if len({getattr(model, axis) for model in new}) > 1]  # fmt: skip
    coloured, *dashed = several or ["initializer"]

    def values(model: Model) -> list[str]:
        names = model.keys() | {"initializer": row_name(model.initializer, model.strategy)}
        return [names[axis] for axis in (coloured, *dashed)]

    shades = list(dict.fromkeys(getattr(model, coloured) for model in new))
    kinds = list(dict.fromkeys(tuple(values(model)[1:]) for model in new))
    baselines = [model.strategy for model in found if model.baseline]
    others = {model.strategy for model in new} or set(baselines)
    plain = any(set(baselines) == {strategy} for strategy in others)
    drawn = []
    for model in found:
        if model.baseline:
            name = "LAPT" if plain else f"LAPT · {model.strategy}"
            style, place = {"color": MUTED, "marker": "*"}, baselines.index(model.strategy)
        else:
            name = " · ".join(values(model))
            style = series_style(shades.index(getattr(model, coloured)))
            place = kinds.index(tuple(values(model)[1:]))
            if coloured == "initializer":
                colour, marker, _ = look.of(model.initializer)
                style = {"color": colour, "marker": marker}
        dashes = _DASHES[place % len(_DASHES)]
        if coloured == "initializer" and not dashed:
            *_, dashes = look.of(model.initializer)
        drawn.append(Line(model, name, {**style, "ls": dashes}))
    return drawn


class Scale(NamedTuple):
    """The x axis of curves: a column of the logs, its unit, and its label."""

    over: str
    unit: float
    label: str


def scale(curves: Frame, over: str) -> Scale:
    """The scale of `step`, `tokens` or `elapsed` for the longest training."""
    most = curves[over].max()
    unit, label = next((unit, label) for bound, unit, label in _SCALES[over] if most < bound)
    return Scale(over, unit, label)


def with_elapsed(curves: Frame) -> Frame:
    """The logs with the seconds of training up to each line, without evaluation and saving."""
    if "seconds" not in curves:
        return curves
    seconds = curves["seconds"].fillna(0)
    return curves.assign(elapsed=seconds.groupby([curves[axis] for axis in SEEDED]).cumsum())


def draw_curve(
    axis: Axes, logged: Frame, name: str, over: Scale, style: dict[str, Any], smooth: bool = False
) -> tuple[float, float] | None:
    """Draw one model's mean over seeds, and the seeds faintly; returns where the line ends.

    `logged` has lines of one event. Returns None if none of them has the number `name`.
    """
    logged = logged[logged[name].notna()]
    if logged.empty:
        return None
    by_seed = logged.pivot_table(index="step", columns="seed", values=name)
    if smooth:
        # With `min_periods=1`, the first step's loss, before any update, is not smoothed.
        window = max(1, len(by_seed) // _SMOOTHED_TO)
        by_seed = by_seed.rolling(window, min_periods=1).mean()
    at = logged[over.over].groupby(logged["step"]).mean().to_numpy() / over.unit
    if by_seed.shape[1] > 1:
        for seed in by_seed:
            axis.plot(at, by_seed[seed], color=style["color"], lw=0.6, alpha=0.35)
    mean = by_seed.mean(axis=1)
    axis.plot(at, mean, ms=4, **style | ({"marker": None} if smooth else {}))
    return float(at[-1]), float(mean.iloc[-1])


def sentences_scored(study: StudyResults, trained: list[Model]) -> str:
    """The number of held-out sentences of these models' curves, such as `16 sentences`.

    Empty if no card has it. The scores of a table may be measured on more sentences.
    """
    counts = sorted(_curve_sentences(study, trained))
    return f"{' or '.join(f'{count:,}' for count in counts)} sentences" if counts else ""


def source_level(
    study: StudyResults, trained: list[Model], source: str, language: str, name: str
) -> float | None:
    """The source model's score on the held-out sentences of these models' curves.

    It is the first score in the log of the source model trained with its own vocabulary.
    """
    counts = _curve_sentences(study, trained)
    baselines = select(study.training, source=source, language=language, initializer="none")
    if counts:
        baselines = baselines[baselines["curve_sentences"].isin(counts)]
    logged = select(study.curves, event="heldout", source=source, language=language, step=0)
    logged = logged.merge(baselines[SEEDED], on=SEEDED)
    known = logged[name].dropna()
    return float(known.iloc[0]) if len(known) else None


def _curve_sentences(study: StudyResults, trained: list[Model]) -> set[int]:
    if "curve_sentences" not in study.training:
        return set()
    cards = study.training[study.training["curve_sentences"].notna()]
    own = zip(models_of(cards), cards["curve_sentences"], strict=True)
    return {int(count) for model, count in own if model in trained}


def name_ends(figure: Figure, ends: list[tuple[Axes, list[End]]]) -> None:
    """Name the lines of each panel at their right ends; axes begin at 0 and get room for names."""
    figure.draw_without_rendering()
    for axis, named in ends:
        low, high = axis.get_xlim()
        ticks = [tick for tick in axis.get_xticks() if 0 <= tick <= high]
        room = 1 - min(0.6, label_room(axis, [name for _, _, name, _ in named]))
        low = min(low, 0)
        axis.set_xlim(low, low + (high - low) / room)
        axis.set_xticks(ticks)
    lay_out(figure)
    for axis, named in ends:
        label_ends(axis, named)


def of_next_tokens(curves: Frame) -> Frame:
    """Replace the loss of multi-token prediction, a sum, by its first part, which is comparable."""
    if "next_loss" not in curves:
        return curves
    return curves.assign(loss=curves["next_loss"].fillna(curves["loss"]))


def starts(study: StudyResults) -> Frame:
    """The losses at the start of training under the reference strategy.

    `first_loss`, the training loss of the first step, before any update (nats per token), and
    `bits_per_byte_before`, on the held-out sentences scored during training; means over seeds,
    indexed by source, language, vocabulary and initializer.
    """
    import pandas

    curves = of_next_tokens(study.curves)
    curves = curves[curves["strategy"] == (study.reference_strategy or "none")]
    found = {}
    for name, event, column in (
        ("first_loss", "step", "loss"),
        ("bits_per_byte_before", "heldout", "bits_per_byte"),
    ):
        if column in curves:
            logged = curves[(curves["event"] == event) & curves[column].notna()]
            logged = logged.sort_values("step", kind="stable")
            by_seed = logged.groupby([*CELL[:4], "seed"], sort=False)[column].first()
            found[name] = by_seed.groupby(level=CELL[:4], sort=False).mean()
    nothing = pandas.MultiIndex.from_tuples([], names=CELL[:4])
    columns = ["first_loss", "bits_per_byte_before"]
    return pandas.DataFrame(found, index=None if found else nothing, columns=columns)
