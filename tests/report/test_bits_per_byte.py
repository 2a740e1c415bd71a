"""The figure of bits per byte has the numbers of the tables."""

import pytest

from lexigraft.report.figures.bits_per_byte import bits_per_byte
from lexigraft.report.records import read_study
from lexigraft.report.tables.perplexity import perplexity
from tests.report.drawing import drawn_figure

FULL = "full-clm-512"
SCORES = {"align": 1.5, "mean": 1.52, "merge": 1.55, "random": 4.5}


def cell(initializer, strategy=FULL, vocabulary="big"):
    return ("m", "te-made", vocabulary, initializer, strategy, 0)


@pytest.fixture
def made(made_study):
    """Records, and logs of other sentences with other numbers."""
    made_study.settings["reference"] = {"strategy": FULL}
    record(made_study, cell("none", "none", "source"), 2.0)
    for initializer, bits in SCORES.items():
        record(made_study, cell(initializer), bits)
        made_study.trained(cell(initializer), 3.25, bits + 0.125)
    return made_study


def record(made, of, bits):
    made.record(of, "ppl", "perplexity", {"bits_per_byte": bits, "perplexity": 9.0})


def axis_of(made):
    (axis,) = drawn_figure(bits_per_byte, made).axes
    return axis


def numbers(axis):
    """The numbers beside a panel, from top to bottom."""
    return [text.get_text() for text in sorted(axis.texts, key=lambda text: text.xy[1])]


def marks(axis, hollow):
    """Where the hollow or the filled marks are."""
    return sorted(float(line.get_xdata()[0]) for line in axis.lines
                  if line.get_marker() != "None" and len(line.get_xdata()) == 1
                  and (line.get_markerfacecolor() != line.get_color()) == hollow
                  and line.get_xdata()[0] == line.get_xdata()[0])  # fmt: skip


def test_numbers_are_those_of_the_records_before_and_after_training(made):
    axis = axis_of(made)
    assert numbers(axis) == ["2.000", "1.500", "1.520", "1.550", "4.500"]
    assert marks(axis, hollow=False) == [1.5, 1.52, 1.55, 2.0, 4.5]
    assert marks(axis, hollow=True) == []
    assert axis.get_xlabel() == "bits per byte"
    record(made, cell("align", "none"), 2.75)
    axis = axis_of(made)
    assert marks(axis, hollow=True) == [2.75]
    assert "before (hollow)" in axis.get_xlabel()


def test_one_of_several_texts_is_shown_and_named(made):
    # Another text with half as many bits per byte again; and one that Source alone has read.
    for of, bits in ((cell("none", "none", "source"), 2.0),
                     *((cell(name), bits) for name, bits in SCORES.items())):  # fmt: skip
        made.record(of, "law", "perplexity", {"bits_per_byte": 1.5 * bits, "perplexity": 99.0})
    made.record(cell("none", "none", "source"), "a", "perplexity", {"bits_per_byte": 9.0})
    axis = axis_of(made)
    assert numbers(axis) == ["2.000", "1.500", "1.520", "1.550", "4.500"]
    assert axis.get_xlabel() == "bits per byte of ppl"
    table = perplexity(read_study(made.settings, made.inputs))
    texts = {row.stub[-1]: [cell.text for cell in row.cells] for row in table.rows}
    assert texts["Source"] == ["9.0†", "2.000"] and texts["Align"] == ["9.0", "1.500"]
    assert [head for _, head in table.columns] == ["ppl: perplexity ↓", "ppl: bits per byte ↓"]
