"""Texts that cells are evaluated on: which ones a study's tasks read, and which a run draws."""

import json

import pytest

from lexigraft.artifacts.atomic import write_json
from lexigraft.errors import UserError
from lexigraft.evaluation.evaluate import run_jobs
from lexigraft.evaluation.texts import draw
from tests.workflow.plan import Plan

CELL = {
    "source": "tiny", "language": "te-mine", "vocabulary": "source", "initializer": "none",
    "strategy": "none", "seed": "0",
}  # fmt: skip
TEXT = {"loader": "jsonl", "path": "x", "field": "text"}
PAIRS = {"loader": "jsonl", "path": "x", "source_field": "a", "target_field": "b"}


def study_of(tasks, **texts):
    """A study of one untrained cell; `texts` change its language."""
    language = {"name": "Telugu", "code": "te", "text": TEXT, "parallel": PAIRS}
    config = {
        "study": "one-cell",
        "cells": [
            {
                "sources": ["tiny"], "languages": ["te-mine"], "vocabularies": ["source"],
                "initializers": ["none"], "strategies": ["none"],
            }
        ],
        "run_tasks": {name: {"runs": 5} for name in tasks},
        "sources": {"tiny": {"folder": "x"}},
        "languages": {"te-mine": {**language, "summarization": PAIRS, **texts}},
        "tasks": {"poems": {"kind": "speed", "prompts_from": "poems"}},
    }  # fmt: skip
    return Plan(config)


@pytest.fixture
def runs_of(tmp_path):
    """`runs_of(study)`: the jobs of all runs of all tasks on its cell, which has only a card."""

    def jobs(study):
        cell = tmp_path / "cell"
        cell.mkdir(exist_ok=True)
        references = {"source": ".", "tokenizer": "."}
        card = {"references": references, "files": {}, "input_checksums": {}}
        write_json(cell / "card.json", card)
        found = []
        for rule in ("evaluate", "measure_speed"):
            job = json.loads(study.job(rule, CELL))
            found += run_jobs({**job, "inputs": {**job["inputs"], "cell": str(cell)}})
        return found

    return jobs


@pytest.mark.parametrize("task", ["translation", "summarization"])
def test_the_five_runs_of_a_study_draw_five_samples(task, runs_of):
    study, rows = study_of(["translation", "summarization"]), list(range(1012))
    jobs = [job for job in runs_of(study) if job["task"] == task]
    assert [job["run"] for job in jobs] == [0, 1, 2, 3, 4]
    samples = [draw(rows, 500, job, "what") for job in jobs]
    assert samples == [
        draw(rows, 500, job, "what") for job in runs_of(study) if job["task"] == task
    ]
    assert len({tuple(sample) for sample in samples}) == 5
    for at, one in enumerate(samples):
        assert one == sorted(set(one))
        # Two random halves of 1,012 have about 247 in common, with a standard deviation of 8.
        assert all(207 < len(set(one) & set(other)) < 287 for other in samples[:at])


@pytest.mark.parametrize(
    ("task", "texts", "message"),
    [
        (
            "translation",
            {"parallel": None, "english": TEXT},
            r"languages\.te-mine\.parallel: missing",
        ),
        ("summarization", {"summarization": None}, r"languages\.te-mine\.summarization: missing"),
        (
            "speed-summarization",
            {"summarization": None},
            r"\.summarization: missing, but task 'speed",
        ),
        ("poems", {}, r"tasks\.poems\.prompts_from: 'poems' is not one of"),
    ],
)
def test_a_task_whose_texts_are_missing_is_refused_before_any_job(task, texts, message):
    with pytest.raises(UserError, match=message):
        study_of([task], **texts)
