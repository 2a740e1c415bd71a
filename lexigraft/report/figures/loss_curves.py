"""How training goes: its loss and the held-out bits per byte by step, per initializer."""

from typing import TYPE_CHECKING

from lexigraft.report.curves import of_next_tokens
from lexigraft.report.labels import label_ends, label_room
from lexigraft.report.study import Study
from lexigraft.report.style import WIDTH, Look, new_figure, plain_axis
from lexigraft.report.tables.models import Model, models, stub, stub_names

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Points of the running mean over the steps; one step's loss says little.
_SMOOTHED_TO = 25
_MOST_COLUMNS = 3


def draw(study: Study, summary: "pandas.DataFrame", look: Look) -> "Figure | None":
    """Two rows of panels, training loss over held-out bits per byte, a column per language."""
    curves = of_next_tokens(study.curves)
    chosen = [model for model in models(study) if model.strategy != "none"]
    languages = [name for name in study.order("language") if name in set(curves["language"])]
    if curves.empty or not languages or not chosen:
        return None
    columns = min(len(languages), _MOST_COLUMNS)
    blocks = -(-len(languages) // columns)
    figure = new_figure(max(WIDTH * columns / 2, 4.2), 4.4 * blocks)
    axes = figure.subplots(2 * blocks, columns, squeeze=False)
    ends: list[tuple[Axes, list]] = []
    for place, language in enumerate(languages):
        block, column = divmod(place, columns)
        own = curves[curves["language"] == language]
        for row, (event, value, name) in enumerate(
            (("step", "loss", "training loss, nats per token"),
             ("heldout", "bits_per_byte", "held-out bits per byte"))
        ):  # fmt: skip
            axis = axes[2 * block + row][column]
            ends.append((axis, _lines(axis, own, chosen, event, value, look, study)))
            axis.set_ylabel(name)
            plain_axis(axis, "y")
            axis.tick_params(axis="x", length=2.5)
        axes[2 * block][column].set_title(study.language(language))
        axes[2 * block + 1][column].set_xlabel("training step")
    for place in range(len(languages), blocks * columns):
        block, column = divmod(place, columns)
        axes[2 * block][column].remove()
        axes[2 * block + 1][column].remove()
    figure.draw_without_rendering()
    for axis, named in ends:
        low, high = axis.get_xlim()
        ticks = [tick for tick in axis.get_xticks() if 0 <= tick <= high]
        room = 1 - min(0.6, label_room(axis, [name for _, _, name, _ in named]))
        axis.set_xlim(min(low, 0), low + (high - low) / room)
        axis.set_xticks(ticks)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis, named in ends:
        label_ends(axis, named)
    return figure


def caption(study: Study) -> str:
    """What the figure shows, for the page."""
    seeds = len(study.seeds)
    return (
        "Training loss of the next token (running mean, per token: not comparable between "
        "vocabularies) and bits per "
        f"byte of the held-out sentences watched during training. Lines are means over {seeds} "
        f"seed{'s' if seeds > 1 else ''}, faint lines single seeds."
    )


def _lines(
    axis: "Axes",
    curves: "pandas.DataFrame",
    chosen: list[Model],
    event: str,
    value: str,
    look: Look,
    study: Study,
) -> list[tuple[float, float, str, str]]:
    """Draw the lines of one panel; returns their ends with names."""
    ends: list[tuple[float, float, str, str]] = []
    if value not in curves:
        return ends
    curves = curves[(curves["event"] == event) & curves[value].notna()]
    for model in chosen:
        own = curves
        for axis_name, wanted in model.keys().items():
            own = own[own[axis_name] == wanted]
        if own.empty:
            continue
        colour = look.colour(model.initializer)
        by_seed = own.pivot_table(index="step", columns="seed", values=value)
        if event == "step":
            window = max(1, len(by_seed) // _SMOOTHED_TO)
            by_seed = by_seed.rolling(window, min_periods=1).mean()
        if by_seed.shape[1] > 1:
            for seed in by_seed:
                axis.plot(by_seed.index, by_seed[seed], color=colour, lw=0.6, alpha=0.35)
        mean = by_seed.mean(axis=1)
        marker = look.marker(model.initializer) if event == "heldout" else None
        axis.plot(mean.index, mean, color=colour, marker=marker, ms=4,
                  ls=look.dashes(model.initializer))  # fmt: skip
        name = " · ".join(stub(model, stub_names(study)))
        ends.append((float(mean.index[-1]), float(mean.iloc[-1]), name, colour))
    return ends
