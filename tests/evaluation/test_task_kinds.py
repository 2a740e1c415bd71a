"""Declarations of kinds of tasks and metrics, and the names of metrics in records."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation import metric_kinds, task_kinds
from lexigraft.evaluation.costs import TaskSizes, TextSize
from lexigraft.evaluation.metric_kinds import MetricKind, metric_file, register_metric, text_metrics
from lexigraft.evaluation.task_kinds import (
    Measurement,
    kinds,
    metrics_by_language,
    register,
    task_file,
    task_kind,
    versions_of,
)

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def test_every_kind_declares_its_primary_metric_and_what_it_costs():
    sizes = TaskSizes(2, 1, 100, 50, 30, TextSize(40, 50), TextSize(40, 30))
    for name in kinds():
        kind = task_kind(name)
        if kind.primary_metric:
            assert kind.metric(kind.primary_metric).title
        work = kind.cost(kind.settings(), sizes)
        assert work.scored_tokens > 0


def test_a_prompt_that_several_runs_draw_is_generated_once():
    kind = task_kind("translation")
    sizes = TaskSizes(2, 1, 100, 50, 30, TextSize(40, 50), TextSize(20, 30))
    work = kind.cost(kind.settings(samples=50, max_new_tokens=10), sizes)
    assert work.scored_tokens == 75 * (50 + 30 + 50)  # half, and half of the other half
    assert work.decoding_steps == 2 * 10  # two batches of at most 64 prompts


def test_versions_are_those_of_the_kind_and_of_the_metrics_that_a_task_names():
    settings = task_kind("translation").settings(metrics=["bleu"])
    assert versions_of("translation", settings) == {"task translation": 1, "metric bleu": 1}
    settings = task_kind("perplexity").settings()
    assert versions_of("perplexity", settings) == {"task perplexity": 1}


def test_a_kind_and_a_metric_from_outside_are_found_by_name(monkeypatch):
    monkeypatch.setattr(task_kinds.TASKS, "registered", {})
    monkeypatch.setattr(metric_kinds.METRICS, "registered", {})
    kind = replace(task_kind("perplexity"), evaluate=lambda *given: Measurement({}))
    register("mine", kind)
    assert task_kind("mine") is kind and "mine" in kinds()
    assert task_file("mine") == __file__
    metric = MetricKind("mine", "mine", scorer=lambda settings, language: None)
    register_metric(metric)
    assert text_metrics()["mine"] is metric and metric_file("mine") == __file__
    with pytest.raises(UserError, match="'mine' exists already"):
        register("mine", task_kind("speed"))
    with pytest.raises(UserError, match="'bleu' exists already"):
        register_metric(replace(metric, name="bleu"))


def test_declarations_are_read_without_torch_or_numpy():
    code = (
        "import sys; from lexigraft.evaluation.task_kinds import kinds, task_kind; "
        "list(map(task_kind, kinds())); "
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


def test_a_group_has_the_mean_of_its_languages_and_each_of_them():
    scores = {"hi": {"f1": 20.0}, "english": {"f1": 80.0}, "ta": {"f1": 30.0}}
    expected = {"f1": 25.0, "f1_hi": 20.0, "f1_ta": 30.0, "english_f1": 80.0}
    expected["f1_with_english"] = 130 / 3
    assert metrics_by_language(scores) == pytest.approx(expected)
