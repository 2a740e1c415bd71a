"""The curves of training: which models are lines, of what, over what."""

import json
from pathlib import Path

import pytest

from lexigraft.report.figures.loss_curves import loss_curves
from lexigraft.report.items import read_items
from tests.report.drawing import clashes, drawn_figure, drawn_texts

NAME = "loss_curves"


def test_the_loss_of_the_next_token_is_drawn_for_multi_token_prediction(made_study):
    cell = ("m", "te-made", "expand-500", "mean", "lora-mtp-512", 0)
    made_study.record(cell, "perplexity", "perplexity", {"bits_per_byte": 1.0})
    made_study.trained(cell, 2.0, 1.0, steps=6)
    add_second_loss(next(iter(made_study.inputs["training"])))
    figure = drawn_figure(loss_curves, made_study)
    (line,) = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert line.get_ydata().tolist() == [1.5] * 6


def add_second_loss(folder):
    """Make the log one of multi-token prediction: 1.5 for the next token, 8 more in all."""
    rewrite(folder, "step", lambda _: {"next_loss": 1.5, "after_next_loss": 8.0, "loss": 9.5})


def rewrite(folder, event, told):
    """Put what is told of each step's number into the lines of this event."""
    log = Path(folder, "log.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["event"] == event:
            line |= told(line["step"])
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def two_strategies(made_study):
    """One initializer with two vocabularies under two strategies, and LAPT under one of them."""
    for language in ("te-made", "el-made"):
        for vocabulary, initializer, strategies in (
            ("source", "none", ["a-clm-64"]),
            ("small", "mean", ["a-clm-64", "b-clm-64"]),
            ("large", "mean", ["a-clm-64", "b-clm-64"]),
        ):
            for strategy in strategies:
                cell = ("m", language, vocabulary, initializer, strategy, 0)
                made_study.record(cell, "perplexity", "perplexity", {"bits_per_byte": 1.0})
                made_study.trained(cell, 2.0, 1.0, steps=6, english=(1.0, 1.5))
    return made_study


def drawn(monkeypatch, made, **item):
    return drawn_texts(monkeypatch, loss_curves, made, *read_items([{"item": NAME, **item}]))


def figure_of(made, **item):
    return drawn_figure(loss_curves, made, *read_items([{"item": NAME, **item}]))


def curves(axis):
    return [line for line in axis.lines if len(line.get_xdata()) > 1]


def test_every_strategy_that_is_asked_for_is_a_line_named_by_what_differs(
    two_strategies, monkeypatch
):
    asked = {"strategies": ["a-clm-64", "b-clm-64"], "languages": ["te-made"]}
    figure, texts = drawn(monkeypatch, two_strategies, where=asked)
    assert len(figure.axes) == 1
    lines = curves(figure.axes[0])
    assert len(lines) == 5
    shown = {text for text, _ in texts}
    assert {"LAPT", "small · a-clm-64", "large · b-clm-64"} <= shown
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(looks) == 5


def test_under_one_strategy_the_vocabulary_alone_names_a_line(two_strategies, monkeypatch):
    asked = {"strategies": ["b-clm-64"], "vocabularies": ["small", "large"]}
    _, texts = drawn(monkeypatch, two_strategies, where=asked)
    assert {"small", "large"} <= {text for text, _ in texts}


def test_english_is_drawn_where_it_is_asked_for(two_strategies):
    figure = figure_of(two_strategies, metrics=["english_bits_per_byte"])
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "English bits per byte\n(16 sentences)"
    ] * 2
    values = curves(figure.axes[0])[0].get_ydata().tolist()
    assert values == pytest.approx([1, 1 + 1 / 6, 1 + 1 / 3, 1.5])


@pytest.mark.parametrize(
    ("tokens_of_a_step", "unit", "name"),
    [
        (512, 1, "training tokens"),
        (40_000, 1e3, "training tokens, in thousands"),
        (2**22, 1e6, "training tokens, in millions"),
        (2**32, 1e9, "training tokens, in billions"),
    ],
)
def test_curves_over_tokens_have_a_scale_that_suits_them(
    two_strategies, monkeypatch, tokens_of_a_step, unit, name
):
    for folder in two_strategies.inputs["training"]:
        rewrite(folder, "step", lambda step: {"tokens": tokens_of_a_step * step})
    by_step = figure_of(two_strategies, metrics=["loss"])
    by_token, texts = drawn(monkeypatch, two_strategies, metrics=["loss"], over="tokens")
    steps, tokens = (curves(figure.axes[0])[0].get_xdata() for figure in (by_step, by_token))
    assert steps.tolist() == [1, 2, 3, 4, 5, 6]
    assert tokens.tolist() == pytest.approx([tokens_of_a_step * step / unit for step in steps])
    assert by_token.axes[0].get_xlabel() == name
    assert clashes([(text, box) for text, box in texts if text.replace(".", "").isdigit()]) == []


def test_lapt_of_another_strategy_says_so(two_strategies, monkeypatch):
    one = {"strategies": ["b-clm-64"], "vocabularies": ["small", "large"]}
    _, texts = drawn(monkeypatch, two_strategies, where=one)
    assert "LAPT · a-clm-64" in {text for text, _ in texts}
    one["strategies"] = ["a-clm-64"]
    _, texts = drawn(monkeypatch, two_strategies, where=one)
    assert "LAPT" in {text for text, _ in texts}


def test_among_several_strategies_lapt_of_none_of_them_is_left_out(two_strategies, monkeypatch):
    for vocabulary in ("small", "large"):
        cell = ("m", "te-made", vocabulary, "mean", "c-clm-64", 0)
        two_strategies.record(cell, "perplexity", "perplexity", {"bits_per_byte": 1.0})
        two_strategies.trained(cell, 2.0, 1.0, steps=6)
    asked = {"strategies": ["b-clm-64", "c-clm-64"], "languages": ["te-made"]}
    figure, texts = drawn(monkeypatch, two_strategies, where=asked)
    assert len(curves(figure.axes[0])) == 4
    assert not [text for text, _ in texts if "LAPT" in text]


def test_source_models_have_panels_of_their_own(two_strategies):
    cell = ("n", "te-made", "small", "mean", "a-clm-64", 0)
    two_strategies.record(cell, "perplexity", "perplexity", {"bits_per_byte": 1.0})
    two_strategies.trained(cell, 2.0, 1.0, steps=6)
    figure = figure_of(two_strategies, metrics=["loss"])
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["Telugu, m", "Greek, m", "Telugu, n"]


def test_an_encoder_has_perplexities_and_no_panel_of_bits(made_study):
    cell = ("m", "te-made", "small", "mean", "full-mlm-64", 0)
    made_study.record(cell, "asks", "classification", {"accuracy": 0.5})
    made_study.trained(cell, 2.0, 1.0, steps=6)
    rewrite(
        next(iter(made_study.inputs["training"])),
        "heldout",
        lambda step: {"bits_per_byte": None, "perplexity": 40.0 if step == 0 else 10.0},
    )
    figure = figure_of(made_study)
    assert [axis.get_ylabel() for axis in figure.axes] == ["training loss, nats per token"]
    figure = figure_of(made_study, metrics=["perplexity", "english_perplexity"])
    (axis,) = figure.axes
    assert axis.get_ylabel() == "held-out perplexity\n(16 sentences)"
    (line,) = curves(axis)
    assert set(line.get_ydata()) == {40.0, 10.0}
