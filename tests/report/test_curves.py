"""Curves of training: which models are lines, of what, over what, and what the same text costs."""

import json
from pathlib import Path

import pytest

from lexigraft.report.figures.checkpoints import checkpoint_scores, checkpoints
from lexigraft.report.figures.learning_curves import learning_curves
from lexigraft.report.figures.loss_curves import loss_curves
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from tests.report.drawing import drawn_figure, legend_names

FULL = "full-clm-512"
SOURCE = ("m", "te-made", "source", "none", "none", 0)
LAPT = ("m", "te-made", "source", "none", FULL, 0)
ALIGN = ("m", "te-made", "big", "align", FULL, 0)
ENGLISH = "english_bits_per_byte"


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


def draw(made, build=loss_curves, **item):
    return drawn_figure(build, made, *read_items([{"item": build.__name__, **item}]))


def curves(axis):
    """The points of the lines of models, without those across."""
    return [line.get_xydata().T.tolist() for line in axis.lines if len(line.get_xdata()) > 2]


def levels(axis):
    return [line.get_ydata()[0] for line in axis.lines if len(line.get_xdata()) == 2]


def rewrite(folder, event, change):
    """Update the lines of an event in a log with the values for their step."""
    log = Path(folder, "log.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["event"] == event:
            line |= change(line["step"])
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def change_card(folder, change):
    path = Path(folder, "card.json")
    card = json.loads(path.read_text(encoding="utf-8"))
    change(card)
    path.write_text(json.dumps(card), encoding="utf-8")


def test_lines_go_over_the_tokens_that_were_read_and_over_the_seconds_that_it_took(trained):
    tokens, seconds, _ = draw(trained, learning_curves).axes
    # 512 tokens and half a second a step, scored at each third of the steps.
    (lapt, _), (align, bits) = curves(tokens)
    assert (lapt, align) == ([0, 2048, 4096, 6144], [0, 1024, 2048, 3072])
    assert [bits[0], bits[-1]] == pytest.approx([3.5, 1.625])
    (lapt, _), (align, _) = curves(seconds)
    assert (lapt, align) == (pytest.approx([0, 2, 4, 6]), pytest.approx([0, 1, 2, 3]))
    assert levels(tokens) == [2.25]  # LAPT starts from Source, whose record says 2.0
    assert tokens.get_ylabel() == "held-out bits per byte\n(16 sentences)"


def test_a_source_scored_on_other_sentences_is_no_line(trained):
    folder = next(place for place in trained.inputs["training"] if "/source/" in place)
    change_card(folder, lambda card: card["job"]["settings"]["curve"].update(sentences=64))
    trained.inputs["training"][folder]["strategy"] = "other-clm-512"
    figure = draw(trained, learning_curves)
    assert levels(figure.axes[0]) == []
    assert "Source" not in legend_names(figure)


def test_costs_of_the_same_text(trained):
    for cell, steps, rate in ((SOURCE, 120.0, 10.0), (LAPT, 120.0, 99.0), (ALIGN, 30.0, 7.5)):
        trained.record(cell, "speed", "speed", {
            # Sentences of 50 characters take `steps` steps.
            "same_text_characters_per_second_batch_1": 50 / steps * rate,
            "same_text_characters_per_second_batch_8": 800.0,
        })  # fmt: skip
    *_, axis = draw(trained, learning_curves).axes
    # Half a second for 512 tokens: 1,000 sentences of 120 tokens take 117 s, of 30 tokens 29.3 s.
    # 1,000 characters: 20 * 120 / 10 and 20 * 30 / 7.5 s.
    expected = ["120", "30.0", "117", "29.3", "240", "80.0"]
    assert [text.get_text() for text in axis.texts if text.get_text() in expected] == expected
    lengths = [bar.get_width() for bar in axis.patches]
    assert lengths == pytest.approx([1, 1 / 4, 1, 1 / 4, 1, 1 / 3])
    trained.inputs["fragmentation"] = []  # without another vocabulary there is nothing to compare
    assert len(draw(trained, learning_curves).axes) == 2


def test_times_of_several_devices_are_named(trained):
    folder = next(place for place in trained.inputs["training"] if "/big/" in place)
    change_card(folder, lambda card: card.update(device="NVIDIA H100"))
    _, seconds, _ = draw(trained, learning_curves).axes
    assert seconds.get_xlabel() == "training time, seconds\non x86_64 CPU and NVIDIA H100"


def test_a_study_whose_logs_are_lost_has_no_such_figure(trained):
    trained.inputs["training"] = {}
    assert draw(trained, learning_curves) is None


def test_the_loss_of_the_next_token_is_drawn_for_multi_token_prediction(made_study):
    cell = ("m", "te-made", "expand-500", "mean", "lora-mtp-512", 0)
    made_study.record(cell, "perplexity", "perplexity", {"bits_per_byte": 1.0})
    made_study.trained(cell, 2.0, 1.0, steps=6)
    losses = {"next_loss": 1.5, "after_next_loss": 8.0, "loss": 9.5}
    rewrite(next(iter(made_study.inputs["training"])), "step", lambda _: losses)
    ((steps, values),) = curves(draw(made_study).axes[0])
    assert (steps, values) == ([1, 2, 3, 4, 5, 6], [1.5] * 6)
    ((tokens, _),) = curves(draw(made_study, over="tokens").axes[0])
    assert tokens == [512 * step for step in steps]


@pytest.mark.parametrize(
    ("strategies", "names"),
    [
        (["a-clm-64"], ["LAPT", "small", "large"]),
        (["b-clm-64"], ["LAPT · a-clm-64", "small", "large"]),
        (
            ["a-clm-64", "b-clm-64"],
            ["LAPT", "small · a-clm-64", "small · b-clm-64", "large · a-clm-64",
             "large · b-clm-64"],
        ),
    ],
)  # fmt: skip
def test_lines_are_named_by_what_differs(two_strategies, strategies, names):
    figure = draw(two_strategies, where={"strategies": strategies, "languages": ["te-made"]})
    assert legend_names(figure) == names
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 1]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(names)


def test_english_is_drawn_where_it_is_asked_for(two_strategies):
    figure = draw(two_strategies, metrics=[ENGLISH])
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "English bits per byte\n(16 sentences)"
    ] * 2
    assert curves(figure.axes[0])[0][1] == pytest.approx([1, 1 + 1 / 6, 1 + 1 / 3, 1.5])


def test_source_models_have_panels_of_their_own(two_strategies):
    cell = ("n", "te-made", "small", "mean", "a-clm-64", 0)
    two_strategies.record(cell, "perplexity", "perplexity", {"bits_per_byte": 1.0})
    two_strategies.trained(cell, 2.0, 1.0, steps=6)
    titles = [axis.get_title(loc="left") for axis in draw(two_strategies).axes]
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
    (axis,) = draw(made_study, metrics=["bits_per_byte", "perplexity", "english_perplexity"]).axes
    assert axis.get_ylabel() == "held-out perplexity\n(16 sentences)"
    assert {*curves(axis)[0][1]} == {40.0, 10.0}


@pytest.fixture
def with_checkpoints(made_study):
    """Two initializers, two seeds, three checkpoints; the untrained models have one seed."""
    made_study.settings["reference"] = {"strategy": "full-clm-64"}
    made_study.record(SOURCE, "bits", "perplexity", {"bits_per_byte": 2.0, ENGLISH: 1.0})
    for rank, initializer in enumerate(("mean", "align")):
        names = ("m", "te-made", "big", initializer)
        score(made_study, (*names, "none", 0), 3.0 + rank)
        for seed in (0, 1):
            cell = (*names, "full-clm-64", seed)
            made_study.trained(cell, 3.0, 1.0, steps=6, checkpoints=3)
            for number, bits in ((1, 2.0), (2, 1.5)):
                score(made_study, cell, bits + rank + seed / 10, number)
            score(made_study, cell, 1.0 + rank + seed / 10)
    return made_study


def score(made, cell, bits, checkpoint=None):
    metrics = {"bits_per_byte": bits, ENGLISH: 1.0 + bits / 10}
    made.record(cell, "bits", "perplexity", metrics, checkpoint=checkpoint)


def test_checkpoint_zero_is_the_untrained_model_and_the_last_is_the_trained_cell(with_checkpoints):
    def of_mean():
        frame = checkpoint_scores(read_study(with_checkpoints.settings, with_checkpoints.inputs))
        rows = frame[(frame["initializer"] == "mean") & (frame["metric"] == "bits_per_byte")]
        return rows.sort_values("checkpoint")

    assert of_mean()["checkpoint"].tolist() == [0, 1, 2, 3]
    assert of_mean()["mean"].tolist() == pytest.approx([3.0, 2.05, 1.55, 1.05])
    # Both seeds start from the one untrained model that there is.
    assert of_mean()["std"].tolist() == pytest.approx([0, *[0.05 * 2**0.5] * 3])
    score(with_checkpoints, ("m", "te-made", "big", "mean", "none", 1), 5.0)
    assert of_mean()["mean"].iloc[0] == pytest.approx((3.0 + 5.0) / 2)
    with_checkpoints.inputs["checkpoints"] = []
    assert of_mean().empty


def test_a_panel_for_each_metric_of_checkpoints_with_the_source_dotted(with_checkpoints):
    figure = draw(with_checkpoints, checkpoints, metrics=["bits_per_byte", ENGLISH])
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "bits per byte ↓", "English bits per byte ↓",
    ]  # fmt: skip
    assert [axis.lines[0].get_ydata()[0] for axis in figure.axes] == [2.0, 1.0]
    (mean, align) = (line.lines[0].get_xydata().tolist() for line in figure.axes[0].containers)
    assert mean[0] == [0, 3.0] and align[-1] == pytest.approx([3, 2.05])
    assert legend_names(figure) == ["Mean", "Align"]
