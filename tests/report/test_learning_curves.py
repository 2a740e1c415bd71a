"""Bits per byte by training tokens and time, and what the same text costs with each vocabulary."""

import json
from pathlib import Path

import pytest

from lexigraft.report.figures.learning_curves import learning_curves
from lexigraft.report.figures.loss_curves import loss_curves
from lexigraft.report.items import read_items
from tests.report.drawing import drawn_figure

FULL = "full-clm-512"
SOURCE = ("m", "te-made", "source", "none", "none", 0)
LAPT = ("m", "te-made", "source", "none", FULL, 0)
ALIGN = ("m", "te-made", "big", "align", FULL, 0)


@pytest.fixture
def trained(made_study):
    """Source, LAPT and Align on 16 sentences, on which Source has other bits than in its record."""
    made_study.settings["reference"] = {"strategy": FULL}
    made_study.vocabulary("te-made", before=120.0, after=30.0, source="m", name="big")
    for cell, bits in ((SOURCE, 2.0), (LAPT, 1.5), (ALIGN, 1.75)):
        made_study.record(cell, "ppl", "perplexity", {"bits_per_byte": bits})
    made_study.trained(LAPT, 2.25, 1.25, steps=12)
    made_study.trained(ALIGN, 3.5, 1.625, steps=6)
    return made_study


def axes(made):
    return drawn_figure(learning_curves, made).axes


def texts(made):
    figure = drawn_figure(learning_curves, made)
    every = [*figure.legends[0].get_texts(), *(text for axis in figure.axes for text in axis.texts)]
    return [text.get_text() for text in every]


def curve(axis):
    """The points of the lines of models, without those across."""
    return [line.get_xydata().tolist() for line in axis.lines if len(line.get_xdata()) > 2]


def test_lines_go_over_the_tokens_that_were_read_and_over_the_seconds_that_it_took(trained):
    tokens, seconds, _ = axes(trained)
    lapt, align = curve(tokens)
    # 512 tokens and half a second a step, scored at each third of the steps.
    assert [x for x, _ in align] == [0, 1024, 2048, 3072]
    assert [x for x, _ in lapt] == [0, 2048, 4096, 6144]
    lapt, align = curve(seconds)
    assert [x for x, _ in align] == pytest.approx([0, 1, 2, 3])
    assert [x for x, _ in lapt] == pytest.approx([0, 2, 4, 6])
    assert [align[0][1], align[-1][1]] == pytest.approx([3.5, 1.625])


def test_the_source_model_is_a_line_across_on_the_sentences_of_the_curves(trained):
    tokens, *_ = axes(trained)
    (across,) = [line for line in tokens.lines if len(line.get_xdata()) == 2]
    assert [*across.get_ydata()] == [2.25, 2.25]  # LAPT starts from it; its record says 2.0
    assert "Source" in texts(trained)


def test_a_source_scored_on_other_sentences_is_no_line(trained):
    folder = next(place for place in trained.inputs["training"] if "/source/" in place)
    change_card(folder, lambda card: card["job"]["settings"]["curve"].update(sentences=64))
    trained.inputs["training"][folder]["strategy"] = "other-clm-512"
    tokens, *_ = axes(trained)
    assert [line for line in tokens.lines if len(line.get_xdata()) == 2] == []
    assert "Source" not in texts(trained)


def change_card(folder, change):
    path = Path(folder, "card.json")
    card = json.loads(path.read_text(encoding="utf-8"))
    change(card)
    path.write_text(json.dumps(card), encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "item"), [(learning_curves, {}), (loss_curves, {"metrics": ["bits_per_byte"]})]
)
def test_the_axis_says_how_many_sentences_were_scored(trained, module, item):
    (asked,) = read_items([{"item": module.__name__.split(".")[-1], **item}])
    figure = drawn_figure(module, trained, asked)
    assert figure.axes[0].get_ylabel() == "held-out bits per byte\n(16 sentences)"


def test_costs_of_the_same_text(trained):
    for cell, steps, rate, first in ((SOURCE, 120.0, 10.0, 9), (LAPT, 120.0, 99.0, 9),
                                     (ALIGN, 30.0, 7.5, 9)):  # fmt: skip
        trained.record(cell, "speed", "speed", {
            "steps_per_sentence": steps, "steps_per_second_batch_1": rate,
            "steps_per_second_batch_8": 800.0, "first_token_seconds_batch_1": first,
        })  # fmt: skip
    *_, axis = axes(trained)
    # Half a second for 512 tokens: 1,000 sentences of 120 tokens take 117 s, of 30 tokens 29.3 s.
    # Writing them: 1,000 * 120 / 10 and 1,000 * 30 / 7.5 s.
    wanted = ["120", "30.0", "117", "29.3", "12,000", "4,000"]
    assert [text for text in texts(trained) if text in wanted] == wanted
    lengths = [bar.get_width() for bar in axis.patches]
    assert lengths == pytest.approx([1, 1 / 4, 1, 1 / 4, 1, 1 / 3])


def test_without_another_vocabulary_there_is_no_cost_to_compare(trained):
    trained.inputs["fragmentation"] = []
    assert len(axes(trained)) == 2


def test_times_of_several_devices_are_named(trained):
    _, seconds, _ = axes(trained)
    assert seconds.get_xlabel() == "training time, seconds"
    folder = next(place for place in trained.inputs["training"] if "/big/" in place)
    change_card(folder, lambda card: card.update(device="NVIDIA H100"))
    _, seconds, _ = axes(trained)
    assert seconds.get_xlabel() == "training time, seconds\non x86_64 CPU and NVIDIA H100"


def test_a_log_without_times_has_no_panel_of_them(trained):
    for folder in trained.inputs["training"]:
        log = Path(folder, "log.jsonl")
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            line.pop("seconds", None)
        log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    tokens, *others = axes(trained)
    assert tokens.get_xlabel() == "training tokens"
    assert not any("time" in axis.get_xlabel() for axis in others)


def test_a_study_whose_logs_are_lost_has_no_such_figure(trained):
    trained.inputs["training"] = {}
    assert drawn_figure(learning_curves, trained) is None
