"""A training job asks for the GPUs that its source model needs, and starts a process on each."""

from types import SimpleNamespace

import pytest

from workflow.processes import launcher, training_gpus


def study(**resources):
    return SimpleNamespace(config={"sources": {"big": {"resources": resources}}})


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
            "LEXIGRAFT_SHARDED=1 torchrun --standalone --nproc-per-node 2",
        ),
    ],
)
def test_one_process_starts_on_each_gpu_that_a_job_got(resources, granted, expected):
    assert launcher(study(**resources), "big", granted) == expected
    assert training_gpus(study(**resources), "big") == resources["training_gpus"]
