"""What jobs will take, by hand-worked finished ones."""

import json
import os

import pytest

from workflow.cost import CostModel
from workflow.stages import Study
from workflow.status.estimates import Finished, finished_in, similarity_key
from workflow.status.results_folder import sizes

EVERYWHERE = dict.fromkeys(("sources", "languages", "initializers", "strategies", "seeds"))
STRATEGY = {
    "phases": [{"trainable": ["all"], "length": 64, "share": 1.0}],
    "epochs": 1,
    "sentences": None,
    "checkpoints": 3,
    "gradient_checkpointing": False,
    "curve": {"sentences": 0, "points": 0},
    "resources": {"time": 1, "memory": 1},
}
RESOURCES = {
    "training_gpus": 1,
    "training_sharded": False,
    "training_mb": 1000,
    "evaluation_mb": 1000,
}
CONFIG = {
    "study": "made-up",
    "results": "results",
    "aliases": [],
    "cells": [
        {
            "sources": ["small"],
            "languages": ["te"],
            "vocabularies": ["expand"],
            "initializers": ["mean"],
            "strategies": ["short"],
            "seeds": [0],
        }
    ],
    "sources": {name: {"resources": RESOURCES} for name in ("small", "large")},
    "vocabularies": {"expand": {"mode": "expand", "new_tokens": 100}},
    "strategies": {
        "short": STRATEGY | {"sentences": 100},
        "long": STRATEGY | {"epochs": 2, "sentences": 300},
        "whole": STRATEGY,
        "none": STRATEGY | {"phases": []},
    },
    "languages": {"te": {"train_sentences": 1000}, "el": {"train_sentences": None}},
    "metrics": {"comet": {"resources": {}}},
    "tasks": {"perplexity": {"kind": "perplexity"}, "speed": {"kind": "speed"}},
    "run_tasks": {
        "perplexity": {"runs": 1, "checkpoints": True}
        | EVERYWHERE
        | {"learned_metrics": ["comet"]},
        "speed": {"runs": 2, "checkpoints": False} | EVERYWHERE | {"learned_metrics": []},
    },
}
STUDY = Study(CONFIG)
DEVICE = "A100"


def cell(**changed):
    named = {"source": "small", "language": "te", "vocabulary": "expand", "initializer": "mean"}
    return {**named, "strategy": "short", "seed": "0", **changed}


def known(*finished, rule="train"):
    """Finished jobs, each as (wildcards, seconds); one GPU and 10 MB each."""
    found = Finished()
    for wildcards, seconds in finished:
        usage = {"seconds": seconds, "gpus": 1, "device": DEVICE}
        key = similarity_key(CostModel(STUDY, DEVICE), rule, wildcards)
        found.add(key, usage, megabytes=10)
    return found


def like(found, rule="train", study=STUDY, **changed):
    return found.like(similarity_key(CostModel(study, DEVICE), rule, cell(**changed)))


def modelled(rule="train", study=STUDY, **changed):
    """Seconds of a job by the cost model, with which estimates grow."""
    return similarity_key(CostModel(study, DEVICE), rule, cell(**changed)).amount


def test_the_most_similar_jobs_count_and_no_others():
    found = known((cell(), 60), (cell(seed="1"), 80), (cell(initializer="align"), 400))
    assert like(found, seed="2").seconds == pytest.approx(70)  # same cell but for the seed
    # Any initializer: (60 + 80 + 400) / 3.
    assert like(found, initializer="merge").seconds == pytest.approx(180)
    assert like(found, initializer="merge").jobs == 3


def test_a_smaller_model_says_nothing_of_a_larger_one():
    assert like(known((cell(), 60)), source="large") is None


def test_of_another_strategy_time_grows_as_the_cost_model_says():
    found = known((cell(), 60))
    for name in ("long", "whole"):
        assert modelled(strategy=name) > modelled()
        expected = 60 * modelled(strategy=name) / modelled()
        assert like(found, strategy=name).seconds == pytest.approx(expected)
        assert like(found, strategy=name).gpu_seconds == pytest.approx(expected)
    assert like(found, strategy="long").megabytes == 10  # what is stored does not grow


def test_on_another_device_time_is_what_the_cost_model_says_of_both():
    found = known((cell(), 60))
    faster = similarity_key(CostModel(STUDY, "H100"), "train", cell())
    assert found.like(faster).seconds == pytest.approx(60 * faster.amount / modelled())
    assert found.factor(faster) is None  # which is of one device


def test_what_is_not_trained_says_nothing_of_what_is():
    assert like(known((cell(strategy="none"), 5))) is None
    assert like(known((cell(), 60)), strategy="none") is None


def test_an_evaluation_is_compared_on_the_same_model_only():
    found = known((cell(), 30), rule="evaluate")
    assert like(found, "evaluate", language="el").seconds == pytest.approx(30)
    assert like(found, "evaluate_checkpoint", checkpoint="1").seconds == pytest.approx(30)
    assert like(found, "evaluate", source="large") is None
    assert like(found, "measure_speed") is None
    assert like(found, "train") is None


def test_of_evaluations_time_grows_with_the_runs_of_tasks():
    found = known((cell(), 30), rule="evaluate")
    runs = CONFIG["run_tasks"]["perplexity"] | {"runs": 3}
    more = Study(CONFIG | {"run_tasks": {"perplexity": runs}})
    expected = 30 * modelled("evaluate", more) / modelled("evaluate")
    assert like(found, "evaluate", more).seconds == pytest.approx(expected) and expected > 30
    found = known((cell(), 40), rule="measure_speed")
    assert like(found, "measure_speed", seed="1").seconds == pytest.approx(40)
    assert like(found, "measure_speed", seed="1").megabytes == 10


def test_of_a_checkpoint_only_the_tasks_count_that_are_run_on_it():
    found = known((cell(), 30), rule="evaluate")
    final = CONFIG["run_tasks"]["speed"] | {"runs": 4}
    more = CONFIG | {
        "tasks": CONFIG["tasks"] | {"translation": {"kind": "translation"}},
        "run_tasks": CONFIG["run_tasks"] | {"translation": final},
    }
    assert like(found, "evaluate", Study(more)).seconds > 30
    of_checkpoint = like(found, "evaluate_checkpoint", Study(more), checkpoint="1")
    assert of_checkpoint.seconds == pytest.approx(30)


def test_a_strategy_that_the_config_lacks_has_no_similar_jobs():
    model = CostModel(STUDY, DEVICE)
    assert similarity_key(model, "train", cell(strategy="of-another-study")) is None


def test_finished_jobs_are_found_below_the_results_by_where_they_lie(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def job(folder, *lines, content=b""):
        place = tmp_path / "results" / folder
        place.mkdir(parents=True)
        (place / "job.json").write_text("{}")
        usage = ({"device": "NVIDIA A100-SXM4-80GB"} | line for line in lines)
        (place / "usage.jsonl").write_text("".join(json.dumps(line) + "\n" for line in usage))
        (place / "output").write_bytes(content)

    failed, done = {"seconds": 7, "ended": "failed"}, {"seconds": 60, "ended": "done", "gpus": 2}
    trained = "training/small/te/expand/mean/short/seed-0"
    job(trained, failed, done, content=bytes(5_000_000))
    (tmp_path / "results" / trained / "checkpoint-1").mkdir()
    (tmp_path / "results" / trained / "checkpoint-1/changed").write_bytes(bytes(1_000_000))
    job("training/small/te/expand/mean/short/seed-1", failed)
    evaluated = "evaluation/small/te/expand/mean/short/seed-0"
    job(evaluated, {"seconds": 30, "ended": "done"})
    job(f"{evaluated}/speed", {"seconds": 50, "ended": "done"})
    job("learned/comet/small/te", {"seconds": 300, "ended": "done"})
    job("vocabulary/small/te/expand", {"seconds": 12, "ended": "done"})
    job("replaced/2026-01-02T03-04-05/training/small/te/expand/mean/short/seed-2", failed, done)
    found = finished_in(STUDY, sizes("results"))
    training = like(found)
    assert (training.seconds, training.gpu_seconds) == pytest.approx((60, 120))
    assert training.jobs == 1
    assert training.megabytes == pytest.approx(6, abs=0.01)
    assert like(found, "evaluate").seconds == pytest.approx(30)
    assert like(found, "measure_speed").seconds == pytest.approx(50)
    assert like(found, "score_predictions", metric="comet").seconds == pytest.approx(300)
    assert like(found, "take_vocabulary", language="el").seconds == pytest.approx(12)
    assert like(found, "initialize", fit="all-seeds") is None


def test_a_file_that_goes_while_sizes_are_added_up_counts_nothing(tmp_path, monkeypatch):
    """Such as temporary files of running jobs, which are renamed."""
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "job.json").write_bytes(b"{}")
    (folder / ".partial-x").write_bytes(bytes(100))
    listed = os.scandir

    def scandir(place):
        entries = list(listed(place))
        if place == str(folder):
            (folder / ".partial-x").unlink()
        return entries

    monkeypatch.setattr(os, "scandir", scandir)
    assert sizes(str(tmp_path)) == {str(folder): 2, str(tmp_path): 0}
