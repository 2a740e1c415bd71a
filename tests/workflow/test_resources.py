"""What jobs ask of a cluster, by their source model, strategy and tasks; the training launcher."""

import pytest

from tests.workflow.conftest import edited, open_study, study_of_entries
from workflow.config.study import Run
from workflow.inputs import evaluation, training
from workflow.inputs.rule import per_attempt

CELL = {
    "source": "big",
    "language": "te",
    "vocabulary": "expand",
    "initializer": "mean",
    "strategy": "s",
    "seed": "0",
}
SIZES = {
    "training_gpus": 2,
    "training_mb": 6000,
    "training_minutes": 60,
    "training_sharded": False,
    "initialization_mb": 5000,
    "evaluation_mb": 3000,
    "evaluation_minutes": 20,
}
TRAINED = [{"trainable": ["embeddings"], "length": 64, "objective": "clm"}]


def study(strategy=None, times=None, tasks=None, **resources):
    """A study of one source model and a strategy, which trains and asks for no more than usual.

    Its limits are given, so none is computed (`test_cost.py`).
    """
    own = {"phases": TRAINED, **(strategy or {}), "resources": times or {}}
    runs = {name: Run(runs=number) for name, number in (tasks or {}).items()}
    sources = {"big": SIZES | resources, "teacher": SIZES | {"evaluation_mb": 1100}}
    sources = {name: {"folder": "/m", "resources": entry} for name, entry in sources.items()}
    tasks = {name: {"kind": name} for name in runs}
    settings = {"run_tasks": runs}
    return study_of_entries(settings, sources=sources, strategies={"s": own}, tasks=tasks)


def asked(study, **wildcards) -> tuple[int, int, int]:
    """Megabytes, minutes and GPUs of a training."""
    cell = CELL | wildcards
    return training.memory(study, cell), training.minutes(study, cell), training.gpus(study, cell)


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
    assert training.launcher(study(**resources), CELL, granted) == expected
    assert training.gpus(study(**resources), CELL) == resources["training_gpus"]


@pytest.mark.parametrize(
    ("phase", "whole"),
    [
        ({"trainable": ["all"]}, True),
        ({"trainable": ["adapter"]}, True),
        ({"trainable": ["adapter"], "adapter": {"form": "sparse"}}, False),
        ({"trainable": ["embeddings", "lora"]}, False),
    ],
)
def test_a_whole_model_is_trained_on_gpus_of_its_own_number_which_share_it(phase, whole):
    phases = [TRAINED[0] | phase | {"share": 0.5}, TRAINED[0] | {"share": 0.5}]
    own = {"full_training_gpus": 4, "full_training_mb": 9000}
    assert asked(study({"phases": phases})) == (2 * 6000, 60, 2)
    found = study({"phases": phases}, **own)
    assert asked(found) == ((4 * 9000, 60, 4) if whole else (2 * 6000, 60, 2))
    assert ("SHARDED=1" in training.launcher(found, CELL, 2)) == whole


def test_a_strategy_takes_a_multiple_of_what_its_source_takes():
    assert asked(study()) == (2 * 6000, 60, 2)
    assert asked(study(times={"time": 2.5})) == (2 * 6000, 150, 2)
    assert asked(study(times={"memory": 0.5})) == (2 * 3000, 60, 2)
    assert asked(study(times={"time": 0.001})) == (2 * 6000, 1, 2)


def test_a_model_of_unknown_size_gets_an_hour_unless_its_limits_are_given():
    unknown = study(tasks={"perplexity": 3})
    resources = unknown.sources["big"].resources
    limits = dict.fromkeys(("training_minutes", "evaluation_minutes"))
    unknown = edited(unknown, "sources", "big", resources=resources.model_copy(update=limits))
    assert training.minutes(unknown, CELL) == 60
    assert evaluation.minutes(unknown, CELL) == 3 * 60


def test_each_attempt_asks_for_as_much_again():
    memory = per_attempt(lambda wildcards: training.memory(study(), wildcards))
    assert [memory(CELL, attempt) for attempt in (1, 3)] == [2 * 6000, 3 * 2 * 6000]
    assert per_attempt(30)(CELL, 2) == 60


def test_speed_is_measured_by_a_job_of_its_own_and_counts_there_only():
    both = study(tasks={"perplexity": 1, "translation": 2, "speed": 4})
    assert evaluation.minutes(both, CELL) == 3 * 20
    assert evaluation.minutes(both, CELL, alone=True) == 4 * 20


def test_jobs_of_a_real_study_ask_for_gpus_where_they_compute_on_a_model():
    jobs = [job for job in open_study("vocadt").jobs().values() if not job.is_local]
    assert {job.rule for job in jobs if job.resources["gpu"]} == {
        "train", "evaluate", "score_predictions"
    }  # fmt: skip
    for job in jobs:
        assert job.resources["mem_mb"] >= 1000 and job.resources["runtime"] >= 1
