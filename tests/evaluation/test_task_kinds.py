"""Declarations of kinds of tasks and metrics, and the names of metrics in records."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lexigraft.errors import UserError
from lexigraft.evaluation import metric_kinds, task_kinds
from lexigraft.evaluation.costs import TaskSizes, TextSize
from lexigraft.evaluation.metric_kinds import MetricKind, metric_file, register_metric, text_metrics
from lexigraft.evaluation.task_kinds import (
    Measurement,
    kinds,
    metrics_by_language,
    of_adapted_languages,
    register,
    task_file,
    task_kind,
    versions_of,
)

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TASKS = yaml.safe_load((REPOSITORY / "config" / "tasks.yaml").read_text())["tasks"]
# Entries that are not their kind at its defaults.
DIFFERENT = {
    "perplexity-windows": {"window": 2048},
    "speed-summarization": {"prompts_from": "summarization"},
    "translation-alma": {"prompt": "alma"},
    "translation-alma-into-english": {"prompt": "alma", "into_english": True},
    "translation-into-english": {"into_english": True},
    "translation-ntrex-into-english": {"into_english": True},
    "translation-5-shot": (
        five := {"prompt": "names", "samples": None, "max_new_tokens": 256, "beams": 5}
    ),
    "translation-5-shot-into-english": five | {"into_english": True},
    "translation-4-shot": (four := {"prompt": "cw2v", "samples": None, "max_new_tokens": 256}),
    "translation-4-shot-into-english": four | {"into_english": True},
    "summarization-as-published": {"select": "shortest", "rouge_tokenizer": "google/mt5-base"},
    "titles-4-shot": {
        "prompt": "cw2v",
        "samples": 1000,
        "select": "first",
        "max_new_tokens": 50,
    },
    "mlqa": {"shots": 3},
    "mlqa-english-text": {"shots": 3, "answers_in": "en"},
    "mlqa-english-question": {"shots": 3, "questions_in": "en"},
    "truthfulqa-0-shot": {"metric": "acc_norm"},
    "xnli": (tuned := {"epochs": 5, "learning_rate": 3.0e-5, "weight_decay": 0.1})
    | {"batch_size": 64, "length": 256},
    "wikiann": tuned | {"batch_size": 16, "warmup": 0.05, "length": 512},
    "xquad": {"shots": 3, "normalization": "squad"},
    "indicqa": {"shots": 3, "normalization": "squad"},
    "questions-4-shot": {"normalization": "squad", "prompt": "cw2v", "max_new_tokens": 50},
    "squad-answers": {"shots": 3, "normalization": "squad"},
    "arc-0-shot": {"metric": "acc_norm"},
}


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


def test_one_name_of_a_metric_has_one_title():
    titles = {}
    for name in kinds():
        for metric in task_kind(name).metrics:
            assert titles.setdefault(metric.name, metric.title) == metric.title


def test_versions_are_those_of_the_kind_and_of_the_metrics_that_a_task_names():
    entry = {"kind": "translation", "metrics": ["bleu"], "engine": "vllm"}
    assert versions_of("mine", entry) == {"task translation": 1, "metric bleu": 1}
    assert versions_of("mine", {"kind": "perplexity"}) == {"task perplexity": 1}


def test_a_kind_and_a_metric_from_outside_are_found_by_name(monkeypatch):
    monkeypatch.setattr(task_kinds, "_REGISTERED", {})
    monkeypatch.setattr(metric_kinds, "_REGISTERED", {})
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


@pytest.mark.parametrize("name", TASKS)
def test_registered_tasks_have_all_settings_of_their_kind(name):
    # Where texts come from is no setting of a kind; how many examples are shown is in a name.
    given, sources = TASKS[name].items(), ("kind", "language", "examples", "harness", "data")
    settings = {key: value for key, value in given if key not in sources}
    shown = re.search(r"-(\d)-shot", name)
    named = {"shots": int(shown[1])} if shown else {}
    kind = task_kind(TASKS[name]["kind"])
    assert settings == vars(kind.settings()) | named | DIFFERENT.get(name, {})


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
    assert metrics_by_language(scores) == pytest.approx(expected)


def test_a_cell_adapted_to_english_has_metrics_without_a_prefix():
    assert metrics_by_language({"english": {"f1": 80.0, "exact_match": 70.0}}) == {
        "f1": 80.0,
        "exact_match": 70.0,
    }
    assert of_adapted_languages({"english": 1}) == {"english": 1}
    assert of_adapted_languages({"english": 1, "te": 2}) == {"te": 2}
