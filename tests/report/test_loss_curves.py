"""The curves of training: what they draw of two losses."""

import json
from pathlib import Path

from lexigraft.report.figures import loss_curves
from tests.report.drawing import drawn_texts


def test_of_two_losses_the_next_tokens_is_drawn(made_study, monkeypatch):
    cell = ("m", "te-made", "expand-500", "mean", "lora-mtp-512", 0)
    made_study.record(cell, "perplexity", "perplexity", {"bits_per_byte": 1.0})
    made_study.trained(cell, 2.0, 1.0, steps=6)
    add_second_loss(made_study.inputs["training"][0])
    figure, _ = drawn_texts(monkeypatch, loss_curves, made_study)
    (line,) = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert line.get_ydata().tolist() == [1.5] * 6


def add_second_loss(folder):
    """Make the log one of multi-token prediction: 1.5 for the next token, 8 more in all."""
    log = Path(folder, "log.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if line["event"] == "step":
            line |= {"next_loss": 1.5, "after_next_loss": 8.0, "loss": 9.5}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
