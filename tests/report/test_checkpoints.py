"""Scores over checkpoints: from the untrained model to the trained cell."""

import pytest

from lexigraft.report.figures.checkpoints import checkpoint_scores, checkpoints
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from tests.report.drawing import clashes, drawn_texts, outside

METRIC = "english_bits_per_byte"


@pytest.fixture
def made(made_study):
    """Two initializers, two seeds, three checkpoints; the untrained models have one seed."""
    made_study.settings["reference"] = {"strategy": "full-clm-64"}
    made_study.record(("m", "te-made", "source", "none", "none", 0), "bits", "perplexity",
                      {"bits_per_byte": 2.0, METRIC: 1.0})  # fmt: skip
    for rank, initializer in enumerate(("mean", "align")):
        place = ("m", "te-made", "big", initializer)
        scored(made_study, (*place, "none", 0), 3.0 + rank)
        for seed in (0, 1):
            cell = (*place, "full-clm-64", seed)
            made_study.trained(cell, 3.0, 1.0, steps=6, checkpoints=3)
            for number, bits in ((1, 2.0), (2, 1.5)):
                scored(made_study, cell, bits + rank + seed / 10, number)
            scored(made_study, cell, 1.0 + rank + seed / 10)
    return made_study


def scored(made, cell, bits, checkpoint=None):
    metrics = {"bits_per_byte": bits, METRIC: 1.0 + bits / 10}
    made.record(cell, "bits", "perplexity", metrics, checkpoint=checkpoint)


def of(frame, initializer, name="bits_per_byte"):
    own = frame[(frame["initializer"] == initializer) & (frame["metric"] == name)]
    return own.sort_values("checkpoint")


def test_zero_is_the_untrained_model_and_the_last_is_the_trained_cell(made):
    own = of(checkpoint_scores(read_study(made.settings, made.inputs)), "mean")
    assert own["checkpoint"].tolist() == [0, 1, 2, 3]
    assert own["mean"].tolist() == pytest.approx([3.0, 2.05, 1.55, 1.05])
    # Both seeds start from the one untrained model that there is.
    assert own["std"].tolist() == pytest.approx([0, *[0.05 * 2**0.5] * 3])


def test_a_seeds_own_untrained_model_is_preferred(made):
    scored(made, ("m", "te-made", "big", "mean", "none", 1), 5.0)
    own = of(checkpoint_scores(read_study(made.settings, made.inputs)), "mean")
    assert own["mean"].iloc[0] == pytest.approx((3.0 + 5.0) / 2)


def test_checkpoints_are_no_scores_of_cells(made):
    study = read_study(made.settings, made.inputs)
    assert len(study.scores) == 2 * (1 + 2 + 4)
    assert len(study.checkpoints) == 2 * 8


def test_without_records_of_checkpoints_there_is_nothing(made):
    made.inputs["checkpoints"] = []
    assert checkpoint_scores(read_study(made.settings, made.inputs)).empty


def test_a_panel_for_each_metric_with_the_source_dotted(made, monkeypatch):
    (item,) = read_items([{"item": "checkpoints", "metrics": ["bits_per_byte", METRIC]}])
    figure, texts = drawn_texts(monkeypatch, checkpoints, made, item)
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "bits per byte ↓", "English bits per byte ↓",
    ]  # fmt: skip
    for axis, source in zip(figure.axes, (2.0, 1.0), strict=True):
        assert axis.lines[0].get_ydata()[0] == source
        assert len(axis.containers) == 2
    (mean, align) = (line.lines[0].get_xydata().tolist() for line in figure.axes[0].containers)
    assert mean[0] == [0, 3.0] and align[-1] == pytest.approx([3, 2.05])
    assert not clashes(texts) and not outside(figure, texts)
    assert {"Mean", "Align"} <= {text for text, _ in texts}
