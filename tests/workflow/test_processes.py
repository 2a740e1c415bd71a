"""A training job asks for what its model and its strategy need; a process runs on each GPU."""

from types import SimpleNamespace

import pytest

from workflow.processes import launcher, training_gpus, training_memory, training_minutes
from workflow.stages import Study

TRAINED = [{"trainable": ["embeddings"], "length": 64}]


def study(strategy=None, **resources):
    """A study of one source model and a strategy, `{}` being what trains and asks for no more."""
    usual = {"time": 1, "memory": 1}
    strategies = {
        "s": {
            "phases": TRAINED,
            **(strategy or {}),
            "resources": usual | resources.pop("times", {}),
        }
    }
    made = SimpleNamespace(
        config={"sources": {"big": {"resources": resources}}, "strategies": strategies}
    )
    made.memory = lambda *arguments: Study.memory(made, *arguments)
    made.minutes = lambda *arguments: Study.minutes(made, *arguments)
    return made


@pytest.mark.parametrize(
    ("resources", "granted", "expected"),
    [
        ({"training_gpus": 1, "training_sharded": False}, 1, "python"),
        ({"training_gpus": 1, "training_sharded": True}, 1, "python"),
        (
            {"training_gpus": 4, "training_sharded": False},
            4,
            "torchrun --standalone --nproc-per-node 4",
        ),
        (
            {"training_gpus": 4, "training_sharded": True},
            2,  # all that `--resources gpu=2` leaves it
            "env LEXIGRAFT_SHARDED=1 torchrun --standalone --nproc-per-node 2",
        ),
    ],
)
def test_one_process_starts_on_each_gpu_that_a_job_got(resources, granted, expected):
    assert launcher(study(**resources), "big", granted) == expected
    assert training_gpus(study(**resources), "big", "s") == resources["training_gpus"]


SIZES = {
    "training_gpus": 2,
    "training_mb": 6000,
    "training_minutes": 60,
    "evaluation_mb": 3000,
    "evaluation_minutes": 20,
}


def asked(study, attempt=1):
    return (
        training_gpus(study, "big", "s"),
        training_memory(study, "big", "s", attempt),
        training_minutes(study, "big", "s", attempt),
    )


def test_a_strategy_takes_a_multiple_of_what_its_source_takes():
    assert asked(study(**SIZES)) == (2, 2 * 6000, 60)
    assert asked(study(**SIZES, times={"time": 2.5})) == (2, 2 * 6000, 150)
    assert asked(study(**SIZES, times={"memory": 0.5})) == (2, 2 * 3000, 60)
    assert asked(study(**SIZES, times={"time": 0.001})) == (2, 2 * 6000, 1)


def test_each_attempt_asks_for_as_much_again():
    assert asked(study(**SIZES, times={"time": 2}), attempt=3) == (2, 2 * 18_000, 360)


def test_what_trains_nothing_asks_for_what_an_evaluation_asks_for():
    untrained = study({"phases": []}, **SIZES, times={"time": 5, "memory": 5})
    assert asked(untrained) == (1, 3000, 20)
    assert asked(untrained, attempt=2) == (1, 6000, 40)
