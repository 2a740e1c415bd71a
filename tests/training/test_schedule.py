"""The factors of the learning rate, compared with transformers' own schedules."""

from math import ceil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_scheduler

from lexigraft.training.schedule import Schedule

SHAPES = ["cosine", "linear", "wsd", "constant"]


def of_transformers(shape, warmup, steps):
    """Factors of transformers' own scheduler, but that its warm-up does not begin at zero."""
    name = {"constant": "constant_with_warmup", "wsd": "warmup_stable_decay"}.get(shape, shape)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    decay = {"num_decay_steps": ceil(steps / 10)} if shape == "wsd" else None
    scheduler = get_scheduler(name, optimizer, warmup, steps, decay)
    factors = []
    for _ in range(steps):
        factors.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return [(step + 1) / (warmup + 1) for step in range(warmup)] + factors[warmup:]


def walk(schedule, steps):
    return [schedule.factor(step) for step in range(steps)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("warmup", "steps"), [(1, 7), (1, 4), (0, 20), (10, 20), (3, 35)])
def test_the_factors_are_those_of_transformers_after_the_warm_up(shape, warmup, steps):
    expected = of_transformers(shape, warmup, steps)
    assert walk(Schedule(shape, warmup, steps), steps) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("shape", "warmup", "factors"),
    [
        ("cosine", 0, [1, 0.75, 0.25]),
        ("cosine", 1, [0.5, 1, 0.5]),
        ("linear", 2, [1 / 3, 2 / 3, 1]),
        ("constant", 2, [1 / 3, 2 / 3, 1]),
        ("wsd", 0, [1, 1, 1]),
        ("wsd", 3, [0.25, 0.5, 0.75]),
    ],
)
def test_the_exact_factors_of_three_steps(shape, warmup, factors):
    assert walk(Schedule(shape, warmup, 3), 3) == pytest.approx(factors)


@given(st.sampled_from(SHAPES), st.integers(0, 40), st.integers(1, 30))
def test_no_step_has_a_rate_of_zero_and_a_warm_up_reaches_its_peak(shape, warmup, steps):
    schedule = Schedule(shape, warmup, steps)
    factors = walk(schedule, steps)
    assert all(0 < factor <= 1 for factor in factors)
    assert max(factors) == pytest.approx(schedule.highest)


def test_a_stable_rate_stays_at_its_peak_until_the_last_tenth():
    factors = walk(Schedule("wsd", 2, 30), 30)
    assert factors == pytest.approx([1 / 3, 2 / 3, *[1] * 26, 0.75, 0.25])
