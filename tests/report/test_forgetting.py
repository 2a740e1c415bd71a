"""Gains in the language against losses in English: from records, from logs, of tasks."""

import pytest

from lexigraft.report.figures import forgetting
from lexigraft.report.figures.forgetting import gains_and_losses
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from tests.report.drawing import clashes, drawn_texts, outside

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


def test_scores_of_tasks_count_the_other_way(made):
    given = found(made, {"item": "forgetting", "tasks": ["sum", "sum-en"]})
    assert given[("mean", "full")] == (-8.0, -8.0)
    assert given[("mean", "none")] == (5.0, -2.0)


def test_one_task_is_compared_with_its_own_english_score(made):
    for cell, score, english in ((SOURCE, 0.5, 0.8), (CELL, 0.75, 0.7)):
        metrics = {"accuracy": score, "english_accuracy": english}
        made.record(cell, "nli", "classification", metrics)
    given = found(made, {"item": "forgetting", "tasks": ["nli"]})
    assert given == {("mean", "full"): (0.25, 0.1)}


def test_without_records_the_logs_say_it(made_study):
    made_study.settings["reference"] = {"strategy": "lora-clm-512"}
    lapt, cell = (*LAPT[:4], "lora-clm-512", 0), (*CELL[:4], "lora-clm-512", 0)
    made_study.trained(lapt, 2.0, 1.5, english=(1.0, 1.3))
    made_study.trained(cell, 2.5, 1.2, english=(1.1, 1.4))
    made_study.record(cell, "translation", "translation", {"chrf": 1.0})
    # Training the source with its own vocabulary begins with the source itself.
    assert found(made_study) == {
        ("none", "lora-clm-512"): (0.5, 0.3), ("mean", "lora-clm-512"): (0.8, 0.4),
    }  # fmt: skip


def test_without_english_text_there_is_nothing_to_show(made_study):
    made_study.record(CELL, "translation", "translation", {"chrf": 1.0})
    assert found(made_study) == {}


def test_the_trained_cell_is_drawn_at_the_end_of_a_line_from_its_start(made, monkeypatch):
    figure, texts = drawn_texts(monkeypatch, forgetting, made)
    (axis,) = figure.axes
    points = [line.get_xydata().tolist() for line in axis.lines]
    assert [[0.1, -0.5], [0.4, 0.8]] in [[pytest.approx(p) for p in line] for line in points]
    shown = {text for text, _ in texts}
    assert {"LAPT", "Mean"} <= shown
    assert "loss in bits per byte of English" in shown


def test_cells_that_come_out_alike_are_told_apart_by_mark_and_name(made, monkeypatch):
    bits = {"bits_per_byte": 1.2, "english_bits_per_byte": 1.4}
    for initializer in ("merge", "align"):
        made.record((*CELL[:3], initializer, "full", 0), "bits", "perplexity", bits)
    figure, texts = drawn_texts(monkeypatch, forgetting, made)
    assert clashes(texts) == []
    boxes = dict(texts)
    stack = [boxes[name] for name in ("Mean", "Merge", "Align")]
    assert 1 in {len({round(getattr(box, side), 3) for box in stack}) for side in ("x0", "x1")}
    (axis,) = figure.axes
    marks = [line for line in axis.lines if line.get_ls() == "None" and line.get_alpha() is None]
    again = [line for line in marks if line.get_transform() != axis.transData]
    assert len({(line.get_marker(), line.get_color()) for line in again}) == len(again) == 3


def test_many_models_of_several_vocabularies_have_a_panel_for_each(made, monkeypatch):
    initializers = ("mean", "merge", "align", "focus", "random")
    for vocabulary, gain in (("big", 0.0), ("small", 0.3)):
        for place, initializer in enumerate(initializers):
            bits = {"bits_per_byte": 1.2 + gain + place / 50, "english_bits_per_byte": 1.4 + gain}
            cell = (*CELL[:2], vocabulary, initializer, "full", 0)
            made.record(cell, "bits", "perplexity", bits)
    figure, texts = drawn_texts(monkeypatch, forgetting, made)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["Telugu, big", "Telugu, small"]
    assert [text for text, _ in texts].count("LAPT") == 2
    assert {"Mean", "Random"} <= {text for text, _ in texts}
    assert clashes(texts) == [] and outside(figure, texts) == []
