"""The logs of trained cells as one frame: the grid of a paper logs millions of steps."""

import math
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.report.files import read_lines
from lexigraft.report.summarize import CELL

if TYPE_CHECKING:
    import pandas

# What figures draw of a line, beside its event and step.
NUMBERS = (
    "tokens",
    "loss",
    "next_loss",
    "bits_per_byte",
    "english_bits_per_byte",
    "perplexity",
    "english_perplexity",
)


def read_logs(logs: Iterable[tuple[dict[str, Any], Path]]) -> "pandas.DataFrame":
    """One row per line of the logs.

    Parameters
    ----------
    logs
        A cell's axes and its log, of each cell.

    Returns
    -------
    pandas.DataFrame
        The cell and the `event`, names as categories; `step`; and those of `NUMBERS` that any line
        has, missing where others have none.
    """
    import numpy as np
    import pandas

    # Numbers side by side, not a dict for each line: that takes twenty times the memory.
    cells, lengths = [], []
    events: dict[str, int] = {}
    codes, steps = array("b"), array("q")
    numbers = {name: array("d") for name in NUMBERS}
    for cell, path in logs:
        lines = read_lines(path)
        cells.append(cell)
        lengths.append(len(lines))
        codes.extend(events.setdefault(line["event"], len(events)) for line in lines)
        steps.extend(line["step"] for line in lines)
        for name, values in numbers.items():
            found = (line.get(name) for line in lines)
            values.extend(math.nan if value is None else value for value in found)
    columns: dict[str, Any] = {
        axis: pandas.Categorical([cell[axis] for cell in cells]).repeat(lengths) for axis in CELL
    }
    columns["seed"] = np.repeat([cell["seed"] for cell in cells], lengths).astype(int)
    columns["event"] = pandas.Categorical.from_codes(np.asarray(codes), list(events))
    columns["step"] = np.asarray(steps)
    for name, values in numbers.items():
        if not np.isnan(values).all():
            columns[name] = np.asarray(values)
    return pandas.DataFrame(columns)
