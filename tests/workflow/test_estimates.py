"""What jobs will take, by hand-worked finished ones."""

import json

import pytest

from workflow.stages import Study
from workflow.status.estimates import Finished, finished_in, similarity_key
from workflow.status.results_folder import sizes

SELECTIONS = ("sources", "languages", "initializers", "strategies", "seeds")
CONFIG = {
    "study": "made-up",
    "results": "results",
    "cells": [],
    "strategies": {
        "short": {"phases": [{}], "epochs": 1, "sentences": 100, "checkpoints": 3},
        "long": {"phases": [{}], "epochs": 2, "sentences": 300},
        "whole": {"phases": [{}], "epochs": 1, "sentences": None},
        "none": {"phases": [], "epochs": 1, "sentences": None},
    },
    "languages": {"te": {"train_sentences": 1000}, "el": {"train_sentences": None}},
    "tasks": {"perplexity": {"kind": "perplexity"}, "speed": {"kind": "speed"}},
    "run_tasks": {
        "perplexity": {"runs": 1, "checkpoints": True, **dict.fromkeys(SELECTIONS)},
        "speed": {"runs": 2, "checkpoints": False, **dict.fromkeys(SELECTIONS)},
    },
}
STUDY = Study(CONFIG)


def cell(**changed):
    named = {"source": "small", "language": "te", "vocabulary": "expand", "initializer": "mean"}
    return {**named, "strategy": "short", "seed": "0", **changed}


def known(*finished, rule="train"):
    """Finished jobs, each as (wildcards, seconds); one GPU and 10 MB each."""
    found = Finished()
    for wildcards, seconds in finished:
        usage = {"seconds": seconds, "gpus": 1, "device": "Made-Up"}
        found.add(similarity_key(STUDY, rule, wildcards), usage, megabytes=10)
    return found


def like(found, rule="train", study=STUDY, **changed):
    return found.like(similarity_key(study, rule, cell(**changed)))


def test_the_most_similar_jobs_count_and_no_others():
    found = known((cell(), 60), (cell(seed="1"), 80), (cell(initializer="align"), 400))
    assert like(found, seed="2").seconds == 70  # same cell but for the seed
    assert like(found, initializer="merge").seconds == 180  # any initializer: (60 + 80 + 400) / 3
    assert like(found, initializer="merge").jobs == 3


def test_a_smaller_model_says_nothing_of_a_larger_one():
    assert like(known((cell(), 60)), source="large") is None


def test_of_another_strategy_time_grows_with_the_sentences_read():
    found = known((cell(), 60))  # 100 sentences once: 0.6 seconds each
    assert like(found, strategy="long").seconds == pytest.approx(360)  # 600
    assert like(found, strategy="whole").seconds == pytest.approx(600)  # the corpus: 1000
    assert like(found, strategy="long").gpu_seconds == pytest.approx(360)
    assert like(found, strategy="long").megabytes == 10  # what is stored does not grow


def test_what_is_not_trained_says_nothing_of_what_is():
    assert like(known((cell(strategy="none"), 5))) is None
    assert like(known((cell(), 60)), strategy="none") is None


def test_an_evaluation_is_compared_on_the_same_model_only():
    found = known((cell(), 30), rule="evaluate")
    assert like(found, "evaluate", language="el").seconds == 30
    assert like(found, "evaluate_checkpoint", checkpoint="1").seconds == 30
    assert like(found, "evaluate", source="large") is None
    assert like(found, "measure_speed") is None
    assert like(found, "train") is None


def test_of_evaluations_time_grows_with_the_runs_of_tasks():
    found = known((cell(), 30), rule="evaluate")
    more = CONFIG | {"run_tasks": {"perplexity": CONFIG["run_tasks"]["perplexity"] | {"runs": 3}}}
    assert like(found, "evaluate", Study(more)).seconds == 90
    found = known((cell(), 40), rule="measure_speed")
    assert like(found, "measure_speed", seed="1").seconds == 40  # two runs, as before
    assert like(found, "measure_speed", seed="1").megabytes == 10


def test_of_a_checkpoint_only_the_tasks_count_that_are_run_on_it():
    found = known((cell(), 30), rule="evaluate")
    final = CONFIG["run_tasks"]["speed"] | {"runs": 4}
    more = CONFIG | {
        "tasks": CONFIG["tasks"] | {"translation": {"kind": "translation"}},
        "run_tasks": CONFIG["run_tasks"] | {"translation": final},
    }
    assert like(found, "evaluate", Study(more)).seconds == 150
    assert like(found, "evaluate_checkpoint", Study(more), checkpoint="1").seconds == 30


def test_a_strategy_that_the_config_lacks_has_no_similar_jobs():
    assert similarity_key(STUDY, "train", cell(strategy="of-another-study")) is None


def test_finished_jobs_are_found_below_the_results_by_where_they_lie(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def job(folder, *lines, content=b""):
        place = tmp_path / "results" / folder
        place.mkdir(parents=True)
        (place / "job.json").write_text("{}")
        (place / "usage.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
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
    assert (training.jobs, training.seconds, training.gpu_seconds) == (1, 60, 120)
    assert training.megabytes == pytest.approx(6, abs=0.01)
    assert like(found, "evaluate").seconds == 30
    assert like(found, "measure_speed").seconds == 50
    assert like(found, "score_predictions", metric="comet").seconds == 300
    assert like(found, "take_vocabulary", language="el").seconds == 12
    assert like(found, "initialize", fit="all-seeds") is None
