"""What jobs ask of a cluster, by their source model, strategy and tasks; the training launcher."""

import math

import pytest

from tests.workflow.conftest import open_study
from workflow.stages import STAGES, Resources, Study
from workflow.stages.cells import launcher
from workflow.stages.measuring import MOST_MINUTES

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
TRAINED = [{"trainable": ["embeddings"], "length": 64, "objective": "causal"}]
EVERYWHERE = dict.fromkeys(("sources", "languages", "initializers", "strategies", "seeds"))


def study(strategy=None, times=None, tasks=None, **resources):
    """A study of one source model and a strategy, which trains and asks for no more than usual.

    Its limits are given, so none is computed (`test_cost_model.py`).
    """
    factors = {"time": 1, "memory": 1} | (times or {})
    own = {"phases": TRAINED, "checkpoints": 1, **(strategy or {}), "resources": factors}
    runs = {name: {"runs": number, **EVERYWHERE} for name, number in (tasks or {}).items()}
    return Study(
        {
            "study": "made-up",
            "results": "results",
            "aliases": [],
            "cells": [],
            "sources": {
                "big": {"resources": SIZES | resources},
                "teacher": {"resources": SIZES | {"evaluation_mb": 1100}},
            },
            "strategies": {"s": own},
            "run_tasks": runs,
            "tasks": {name: {"kind": name} for name in runs},
        }
    )


def asked(study, rule="train", **wildcards) -> Resources:
    return STAGES[rule].resources(study, **CELL | wildcards)


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
    assert launcher(study(**resources), "big", "s", granted) == expected
    assert asked(study(**resources)).gpus == resources["training_gpus"]


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
    phases = [*TRAINED, TRAINED[0] | phase]
    own = {"full_training_gpus": 4, "full_training_mb": 9000}
    assert asked(study({"phases": phases})) == Resources(2 * 6000, 60, gpus=2)
    found = study({"phases": phases}, **own)
    assert asked(found) == Resources(*((4 * 9000, 60, 4) if whole else (2 * 6000, 60, 2)))
    assert ("SHARDED=1" in launcher(found, "big", "s", 2)) == whole


def test_a_strategy_takes_a_multiple_of_what_its_source_takes():
    assert asked(study()) == Resources(2 * 6000, 60, gpus=2)
    assert asked(study(times={"time": 2.5})) == Resources(2 * 6000, 150, gpus=2)
    assert asked(study(times={"memory": 0.5})) == Resources(2 * 3000, 60, gpus=2)
    assert asked(study(times={"time": 0.001})) == Resources(2 * 6000, 1, gpus=2)


def test_a_model_of_unknown_size_gets_an_hour_unless_its_limits_are_given():
    given = ("training_minutes", "evaluation_minutes")
    unknown = study(tasks={"perplexity": 3})
    for key in given:
        del unknown.config["sources"]["big"]["resources"][key]
    assert asked(unknown).minutes == 60
    assert asked(unknown, "evaluate").minutes == 3 * 60


def test_a_teacher_takes_what_its_evaluation_takes_on_each_gpu():
    phase = TRAINED[0] | {"objective": "distill", "distill": {"teacher": "teacher"}}
    taught = study({"phases": [phase]}, times={"memory": 0.5})
    assert asked(taught) == Resources(2 * (3000 + 1100), 60, gpus=2)


def test_each_attempt_asks_for_as_much_again():
    twice = study(times={"time": 2})
    assert twice.resources("train")["mem_mb"](CELL, 3) == 3 * 2 * 6000
    assert twice.resources("train")["runtime"](CELL, 3) == 3 * 120
    assert twice.gpus("train")(CELL) == 2


def test_what_trains_nothing_asks_for_what_an_evaluation_asks_for():
    untrained = study({"phases": []}, times={"time": 5, "memory": 5})
    assert asked(untrained) == Resources(3000, 20, gpus=1)
    assert untrained.resources("train")["mem_mb"](CELL, 2) == 6000
    assert untrained.resources("train")["runtime"](CELL, 2) == 40


@pytest.mark.parametrize(("runs", "minutes"), [(1, 20), (3, 60), (500, MOST_MINUTES)])
def test_minutes_of_an_evaluation_grow_with_its_runs_up_to_a_day(runs, minutes):
    assert asked(study(tasks={"perplexity": runs}), "evaluate") == Resources(3000, minutes, gpus=1)


def test_an_evaluation_that_takes_more_than_a_day_for_one_run_gets_it():
    slow = study(tasks={"perplexity": 2}, evaluation_minutes=MOST_MINUTES + 60)
    assert asked(slow, "evaluate").minutes == MOST_MINUTES + 60


def test_speed_is_measured_by_a_job_of_its_own_and_counts_there_only():
    both = study(tasks={"perplexity": 1, "translation": 2, "speed": 4})
    assert asked(both, "evaluate").minutes == 3 * 20
    assert asked(both, "measure_speed").minutes == 4 * 20


def test_jobs_of_a_real_study_ask_for_gpus_where_they_compute_on_a_model():
    real = open_study("vocadt")
    gpus = {
        job.rule: real.gpus(job.rule)(job.output.wildcards)
        for job in real.jobs().values()
        if not STAGES[job.rule].is_local
    }
    computing = {"train", "evaluate", "score_predictions"}
    assert {rule for rule, number in gpus.items() if number} == computing
    for job in real.jobs().values():
        if not STAGES[job.rule].is_local:
            assert real.resources(job.rule)["mem_mb"](job.output.wildcards, 1) >= 1000
            assert real.resources(job.rule)["runtime"](job.output.wildcards, 1) >= 1


def test_a_vocabulary_asks_for_more_where_it_is_learned_from_more_text():
    cw2v, lowres = open_study("cw2v"), open_study("lowres")
    small = asked(lowres, "expand_vocabulary", vocabulary="expand-100-append", language="te")
    assert small == Resources(4000, 30)  # 30,000 sentences
    large = asked(cw2v, "expand_vocabulary", vocabulary="expand-26k", language="cw2v-mix")
    sentences, width = 12_000_000, (3 + 3 + 2 + 1) / 4  # of three scripts
    parts = math.ceil((sentences * 120 * width - 5e7) / 1e8)
    assert large == Resources(4000 + 500 * parts, 30 + 6 * parts)
    # Less where the vocabulary reads a part of it.
    entry = cw2v.config["vocabularies"]["expand-26k"]
    entry["text"] = {"sentences_per_language": 750_000}
    part = asked(cw2v, "expand_vocabulary", vocabulary="expand-26k", language="cw2v-mix")
    assert small.memory_mb < part.memory_mb < large.memory_mb / 2
    assert small.minutes < part.minutes < large.minutes / 2


def test_vectors_ask_for_more_where_they_are_trained_on_more_text():
    study = open_study("lowres")
    auxiliary = study.config["auxiliary"]
    auxiliary["glove"] = {"kind": "glove"}
    own = {"language": "te", "vocabulary": "source"}

    def millions():
        """Of tokens, by the minutes of both kinds of vectors and the memory of one."""
        glove, fasttext = (
            asked(study, f"train_{name}", auxiliary=name, **own) for name in ("glove", "fasttext")
        )
        [number] = {glove.minutes - 120, fasttext.minutes - 60, (glove.memory_mb - 4000) / 60}
        return number

    # 30,000 sentences of 120 letters, which English tokens hold 0.45 of.
    assert millions() == 8
    auxiliary["glove"]["text"] = auxiliary["fasttext"]["text"] = {"tokens": 3_000_000}
    assert millions() == 3
    auxiliary["glove"]["text"] = auxiliary["fasttext"]["text"] = {"sentences": 15_000}
    assert millions() == 4


def test_a_vocabulary_asks_for_more_where_words_are_sentences():
    study = open_study("lowres")
    memory = {}
    for code in ("my", "te"):
        entry = study.config["languages"][code]
        entry["train_sentences"] = 1_000_000  # 360 MB, of which 50 are in what any text gets
        assert entry["code"] == code
        found = asked(study, "expand_vocabulary", vocabulary="expand-100-append", language=code)
        memory[code] = found.memory_mb - 4000
    assert memory == {"my": 4 * 3500, "te": 4 * 500}
