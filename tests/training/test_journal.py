"""The log has each line once, and a run that diverges stops with the cell and the step."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference.likelihood import Likelihood
from lexigraft.training.computation import Computation
from lexigraft.training.journal import HeldOut, Journal, StepLog

COMPUTATION = Computation(torch.nn.Identity())


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "log.jsonl")


def heldout(journal, nats=8.0, steps=10, points=1):
    score = Likelihood(nats=nats, tokens=4, bytes=4, characters=4)
    return HeldOut(journal, lambda model: score, steps=steps, points=points, name="a/b")


def test_resuming_drops_later_lines_and_a_half_written_one(journal):
    for step in (0, 1, 2, 3):
        journal.write({"event": "step", "step": step})
    with journal.file.open("a") as file:
        file.write('{"event": "st')
    journal.resume_at(2)
    assert [line["step"] for line in journal.lines()] == [0, 1, 2]
    journal.write({"event": "step", "step": 3})
    assert [line["step"] for line in journal.lines()] == [0, 1, 2, 3]


def test_a_log_that_is_not_there_has_no_lines(journal):
    journal.resume_at(0)
    assert journal.lines() == []


@pytest.mark.parametrize(
    ("steps", "points", "expected"),
    [(10, 1, [0, 5, 10]), (12, 3, [0, 3, 6, 9, 12]), (10, 0, [0, 10]), (0, 3, [0]), (1, 3, [0, 1])],
)
def test_heldout_points_lie_at_the_ends_and_equally_between(journal, steps, points, expected):
    curve = heldout(journal, steps=steps, points=points)
    for step in range(steps + 1):
        curve.look(step, 0, COMPUTATION)
    assert [line["step"] for line in journal.lines("heldout")] == expected


def test_a_point_that_was_logged_is_not_scored_again(journal):
    heldout(journal, nats=8.0).look(0, 0, COMPUTATION)
    heldout(journal, nats=9.0).look(0, 0, COMPUTATION)
    (line,) = journal.lines("heldout")
    assert line["perplexity"] == pytest.approx(np.exp(2))


def test_a_heldout_likelihood_that_is_not_finite_stops_the_run(journal):
    with pytest.raises(UserError, match="a/b: the held-out likelihood is nan after step 5"):
        heldout(journal, nats=float("nan")).look(5, 0, COMPUTATION)


@pytest.mark.parametrize(
    ("loss", "gradient"), [(float("nan"), 1.0), (float("inf"), 1.0), (2.0, float("nan"))]
)
def test_a_loss_or_gradient_that_is_not_finite_stops_the_run(journal, loss, gradient):
    log = StepLog(journal, heldout(journal), phase=1, offset=40, tokens=np.arange(5))
    with pytest.raises(UserError, match=r"a/b: the loss is .* at step 42; lower learning_rate"):
        log.on_log(
            None,
            SimpleNamespace(global_step=2),
            None,
            logs={"loss": loss, "grad_norm": gradient, "learning_rate": 1.0},
        )
    assert journal.lines() == []
