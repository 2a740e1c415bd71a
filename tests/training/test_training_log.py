"""The log has each line once, and a run that diverges stops with the cell and the step."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference.likelihood import Likelihood
from lexigraft.training.distributed import Computation
from lexigraft.training.training_log import HeldOutCurve, StepLogger, TrainingLog

COMPUTATION = Computation(torch.nn.Identity())


@pytest.fixture
def training_log(tmp_path):
    return TrainingLog(tmp_path / "log.jsonl")


def heldout(training_log, nats=8.0, steps=10, points=1):
    score = Likelihood(nats=nats, tokens=4, bytes=4, characters=4)
    return HeldOutCurve(
        training_log, lambda *_: score, {"": ["text"]}, steps=steps, points=points, name="a/b"
    )


def test_resuming_drops_later_lines_and_a_half_written_one(training_log):
    for step in (0, 1, 2, 3):
        training_log.write({"event": "step", "step": step})
    with training_log.file.open("a") as file:
        file.write('{"event": "st')
    training_log.resume_at(2)
    assert [line["step"] for line in training_log.lines()] == [0, 1, 2]
    training_log.write({"event": "step", "step": 3})
    assert [line["step"] for line in training_log.lines()] == [0, 1, 2, 3]


def test_a_log_that_is_not_there_has_no_lines(training_log):
    training_log.resume_at(0)
    assert training_log.lines() == []


@pytest.mark.parametrize(
    ("steps", "points", "expected"),
    [(10, 1, [0, 5, 10]), (12, 3, [0, 3, 6, 9, 12]), (10, 0, [0, 10]), (0, 3, [0]), (1, 3, [0, 1])],
)
def test_heldout_points_lie_at_the_ends_and_equally_between(training_log, steps, points, expected):
    curve = heldout(training_log, steps=steps, points=points)
    for step in range(steps + 1):
        curve.evaluate(step, 0, COMPUTATION)
    assert [line["step"] for line in training_log.lines("heldout")] == expected


def test_a_point_that_was_logged_is_not_scored_again(training_log):
    heldout(training_log, nats=8.0).evaluate(0, 0, COMPUTATION)
    heldout(training_log, nats=9.0).evaluate(0, 0, COMPUTATION)
    (line,) = training_log.lines("heldout")
    assert line["perplexity"] == pytest.approx(np.exp(2))


def test_a_heldout_likelihood_that_is_not_finite_stops_the_run(training_log):
    with pytest.raises(UserError, match="a/b: the held-out likelihood is nan after step 5"):
        heldout(training_log, nats=float("nan")).evaluate(5, 0, COMPUTATION)


@pytest.mark.parametrize(
    ("loss", "gradient"), [(float("nan"), 1.0), (float("inf"), 1.0), (2.0, float("nan"))]
)
def test_a_loss_or_gradient_that_is_not_finite_stops_the_run(training_log, loss, gradient):
    log = StepLogger(training_log, heldout(training_log), phase=1, offset=40, tokens=np.arange(5))
    with pytest.raises(UserError, match=r"a/b: the loss is .* at step 42; lower learning_rate"):
        log.on_log(
            None,
            SimpleNamespace(global_step=2),
            None,
            logs={"loss": loss, "grad_norm": gradient, "learning_rate": 1.0},
        )
    assert training_log.lines() == []
