"""Gains in the language against losses in English: from records, from logs, of tasks."""

import pytest

from lexigraft.report.figures.forgetting import forgetting, gains_and_losses
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from tests.report.drawing import drawn_figure, legend_names

SOURCE = ("m", "te-made", "source", "none", "none", 0)
LAPT = ("m", "te-made", "source", "none", "full", 0)
GRAFT = ("m", "te-made", "big", "mean", "none", 0)
CELL = ("m", "te-made", "big", "mean", "full", 0)


def found(made, item="forgetting"):
    (asked,) = read_items([item])
    study = read_study(made.settings, made.inputs).part(asked)
    frame = gains_and_losses(study)
    keys = zip(frame["initializer"], frame["strategy"], strict=True)
    values = frame[["gained", "lost"]].itertuples(index=False)
    return {key: pytest.approx(tuple(value)) for key, value in zip(keys, values, strict=True)}


@pytest.fixture
def made(made_study):
    made_study.settings["reference"] = {"strategy": "full"}
    for cell, bits, english in (
        (SOURCE, 2.0, 1.0), (LAPT, 1.5, 1.2), (GRAFT, 2.5, 1.1), (CELL, 1.2, 1.4),
    ):  # fmt: skip
        metrics = {"bits_per_byte": bits, "english_bits_per_byte": english}
        made_study.record(cell, "bits", "perplexity", metrics)
        made_study.record(cell, "sum", "summarization", {"rouge_l": 10 * bits})
        made_study.record(cell, "sum-en", "summarization", {"rouge_l": 20 * english})
    return made_study


def test_bits_per_byte_count_as_gained_where_they_fall_and_as_lost_where_they_rise(made):
    assert found(made) == {
        ("none", "full"): (0.5, 0.2), ("mean", "none"): (-0.5, 0.1), ("mean", "full"): (0.8, 0.4),
    }  # fmt: skip


def test_without_english_text_there_is_nothing_to_show(made_study):
    made_study.record(CELL, "translation", "translation", {"chrf": 1.0})
    assert found(made_study) == {}


def test_the_trained_cell_is_drawn_at_the_end_of_a_line_from_its_start(made):
    (axis,) = drawn_figure(forgetting, made).axes
    points = [line.get_xydata().tolist() for line in axis.lines]
    assert [[0.1, -0.5], [0.4, 0.8]] in [[pytest.approx(p) for p in line] for line in points]
    assert axis.get_xlabel() == "loss in bits per byte of English"


def test_models_have_different_marks(made):
    bits = {"bits_per_byte": 1.2, "english_bits_per_byte": 1.4}
    for initializer in ("merge", "align"):
        made.record((*CELL[:3], initializer, "full", 0), "bits", "perplexity", bits)
    figure = drawn_figure(forgetting, made)
    assert legend_names(figure) == ["LAPT", "Mean", "Merge", "Align"]
    handles = figure.legends[0].legend_handles
    assert len({(handle.get_marker(), handle.get_color()) for handle in handles}) == 4
