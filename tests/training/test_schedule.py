"""One schedule in each phase, or one that goes on through all of them."""

from itertools import chain
from math import cos, pi

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_scheduler

from lexigraft.training.schedule import Schedule, schedules
from lexigraft.training.settings import read_strategy

STEPS = [7, 4, 9]
SHAPES = ["cosine", "linear", "wsd", "constant"]
DECAY = {7: 1, 4: 1, 9: 1, 20: 2}  # 10 % of steps, at least one


def strategy(**settings):
    phases = [{"trainable": ["head"], "length": 8, "share": share} for share in (0.25, 0.25, 0.5)]
    return read_strategy({"phases": phases, **settings})


def of_transformers(shape, warmup, steps):
    """Factors of transformers' own scheduler, but that its warm-up does not begin at zero."""
    name = {"constant": "constant_with_warmup", "wsd": "warmup_stable_decay"}.get(shape, shape)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    decay = {"num_decay_steps": DECAY[steps]} if shape == "wsd" else None
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
def test_every_phase_has_a_schedule_like_transformers(shape):
    for steps, schedule in zip(STEPS, schedules(strategy(schedule=shape), STEPS), strict=True):
        warmup = 1  # 5 % of a few steps, at least one
        assert walk(schedule, steps) == pytest.approx(of_transformers(shape, warmup, steps))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("warmup", [0.0, 0.5])
def test_one_schedule_may_span_all_phases(shape, warmup):
    made = schedules(strategy(schedule=shape, schedule_over="strategy", warmup=warmup), STEPS)
    rates = [rate for s, steps in zip(made, STEPS, strict=True) for rate in walk(s, steps)]
    assert rates == pytest.approx(of_transformers(shape, round(warmup * 20), 20))


@pytest.mark.parametrize(
    ("shape", "warmup", "factors"),
    [
        ("cosine", 0, [1, 0.75, 0.25]),
        ("cosine", 1, [0.5, 1, 0.5]),
        ("linear", 2, [1 / 3, 2 / 3, 1]),
        ("constant", 2, [1 / 3, 2 / 3, 1]),
        ("wsd", 0, [1, 1, 0.5]),
        ("wsd", 3, [0.25, 0.5, 0.75]),
    ],
)
def test_the_exact_factors_of_three_steps(shape, warmup, factors):
    decay = 2 if shape == "wsd" else None
    assert walk(Schedule(shape, warmup, 3, decay=decay), 3) == pytest.approx(factors)


@given(
    st.sampled_from(SHAPES),
    st.floats(0, 0.9),
    st.lists(st.integers(1, 30), min_size=3, max_size=3),
    st.sampled_from(["phase", "strategy"]),
)
def test_no_step_of_any_schedule_has_a_rate_of_zero(shape, warmup, steps, over):
    made = schedules(strategy(schedule=shape, warmup=warmup, schedule_over=over), steps)
    factors = [
        [own.factor(step) for step in range(count)] for own, count in zip(made, steps, strict=True)
    ]
    assert all(0 < factor <= 1 for phase in factors for factor in phase)
    whole = factors if over == "phase" else [[*chain(*factors)]]
    # Above all else a warm-up reaches its peak, or as far as its steps go.
    for phase, schedule in zip(whole, made, strict=False):
        assert max(phase) == pytest.approx(schedule.highest)


def test_a_stable_rate_stays_at_its_peak_until_the_decay():
    settings = {"schedule": "wsd", "warmup": 0.2, "decay": 0.4}
    [first, *_] = schedules(strategy(**settings), [10, 1, 1])
    fall = [0.5 + 0.5 * cos(pi * part) for part in (0, 0.25, 0.5, 0.75)]
    assert walk(first, 10) == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1, *fall])
