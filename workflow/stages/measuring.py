"""Evaluation stages: tasks on cells and checkpoints, learned metrics, tokenizers, alignment."""

from collections.abc import Iterator, Mapping
from typing import Any

from lexigraft.cells import CELL_PATH, VOCABULARY_PATH, Cell, cell_of, is_selected
from lexigraft.evaluation.learned.checkpoint import learned_kind
from lexigraft.evaluation.task_kinds import task_kind, versions_of
from workflow.config.task_data import (
    checkpoints_of,
    own_test_codes,
    own_test_parts,
    tested_language,
)
from workflow.stages.cells import fit_of, training, vocabulary
from workflow.stages.stage import Output, Resources, fixed, of_source, stage
from workflow.stages.study import Study, once
from workflow.stages.texts import corpus, package, read_by, sentence_encoder, source

# Queues limit the time of a job; the next attempt resumes where it stopped.
MOST_MINUTES = 24 * 60
_CARD = "card-{study}.json"  # studies may run different tasks on the same cell

# ---- the outputs of these stages, by content ----------------------------------------------------


def evaluations(study: Study, cell: Cell) -> list[Output]:
    """All evaluations of a cell and of the checkpoints that its strategy retains."""
    axes, tasks = cell.wildcards, tasks_of(study, cell)
    rules = [one for one in ("evaluate", "measure_speed") if tasks_of_job(study, one, axes)]
    numbers = {n for task in tasks for n in checkpoints_of(study.config, task, cell.strategy)}
    return [study.output(rule, **axes) for rule in rules] + [
        study.output("evaluate_checkpoint", **axes, checkpoint=number) for number in sorted(numbers)
    ]


@once
def tasks_of(study: Study, cell: Cell) -> list[str]:
    """The tasks that are run on a cell, in the order of the study."""
    return [task for task, run in study.config["run_tasks"].items() if is_selected(cell, run)]


# ---- tasks on cells ----------------------------------------------------------------------------


def tasks_of_job(study: Study, rule: str, wildcards: Mapping[str, str]) -> list[str]:
    """The tasks that a job of `evaluate`, `measure_speed` or `evaluate_checkpoint` runs."""
    cell = cell_of(wildcards)
    tasks = tasks_of(study, cell)
    if rule == "evaluate_checkpoint":
        number = int(wildcards["checkpoint"])
        kept = {task: checkpoints_of(study.config, task, cell.strategy) for task in tasks}
        return [task for task in tasks if number in kept[task]]
    # Other jobs on the machine would distort the measurements of these tasks.
    alone = {task for task in tasks if task_kind(study.config["tasks"][task]["kind"]).runs_alone}
    return [task for task in tasks if (task in alone) == (rule == "measure_speed")]


def _evaluation_stage(rule: str, folder: str = "") -> Any:
    """A stage whose process runs tasks on one model, one run after another."""

    def resources(study: Study, **axes: str) -> Resources:
        own = study.config["sources"][axes["source"]]["resources"]
        tasks = tasks_of_job(study, rule, axes)
        runs = sum(study.config["run_tasks"][task]["runs"] for task in tasks)
        model = study.cost_model
        minutes = model.minutes(
            own, "evaluation_minutes", lambda: model.evaluation(axes, tasks), runs
        )
        most = max(MOST_MINUTES, own.get("evaluation_minutes", 0))
        return Resources(own["evaluation_mb"], min(most, minutes), gpus=1)

    place = f"evaluation/{CELL_PATH}{folder}"
    return stage("evaluation", place, script="evaluate", card=_CARD, resources=resources)


@_evaluation_stage("evaluate")
def evaluate(study: Study, **axes: str) -> dict[str, Any]:
    """All tasks and runs on a cell; the model is loaded once."""
    return _evaluation(study, "evaluate", axes)


@_evaluation_stage("evaluate_checkpoint", "/checkpoint-{checkpoint}")
def evaluate_checkpoint(study: Study, **axes: str) -> dict[str, Any]:
    """All tasks and runs on a checkpoint from the training of a cell."""
    described = _evaluation(study, "evaluate_checkpoint", axes)
    return {**described, "checkpoint": int(axes["checkpoint"])}


@_evaluation_stage("measure_speed", "/speed")
def measure_speed(study: Study, **axes: str) -> dict[str, Any]:
    """The speed of a cell, measured while no other job runs."""
    described = _evaluation(study, "measure_speed", axes)
    # A separate folder, since two processes never work in the same one.
    return {**described, "outputs": {"records": str(study.output("evaluate", **axes))}}


def _evaluation(study: Study, rule: str, axes: Mapping[str, str]) -> dict[str, Any]:
    """The job description of a process that runs tasks on one model."""
    cell, tasks = cell_of(axes), tasks_of_job(study, rule, axes)
    folder = training(study, cell)
    if "checkpoint" in axes:  # it is in its cell's folder and complete when the cell is
        folder = folder.file(f"checkpoint-{axes['checkpoint']}")
    return {
        "settings": {},
        "inputs": {
            "cell": folder,
            "read": {task: read_by(study, cell.language, task) for task in tasks},
        },
        "cell": vars(cell),
        "tasks": {task: _task(study, cell.language, task) for task in tasks},
    }


@once
def _task(study: Study, cells_language: str, task: str) -> dict[str, Any]:
    """The description of a task on cells of a language, without its inputs."""
    config = study.config
    language = tested_language(config, task, cells_language)
    # Earlier rules read these keys, which define the texts.
    left_out = ("language", "examples", "harness", "data")
    settings = {key: value for key, value in config["tasks"][task].items() if key not in left_out}
    codes = own_test_codes(config, task, cells_language)
    return {
        "settings": settings,
        "language": config["languages"][language].get("code"),
        "language_name": config["languages"][language]["name"],
        **({"tested": codes} if own_test_parts(config, task, cells_language) else {}),
        "runs": config["run_tasks"][task]["runs"],
        # The same examples for every cell: draws depend only on the task and the run.
        "seed": [config["seed"], "evaluation", language, task],
        "versions": versions_of(task, config["tasks"][task]),
    }


# ---- learned metrics ---------------------------------------------------------------------------


def _scoring(study: Study, **wildcards: str) -> Resources:
    resources = study.config["metrics"][wildcards["metric"]]["resources"]
    runs = sum(sum(own.values()) for _, own in _scored(study, **wildcards))
    model, metric = study.cost_model, wildcards["metric"]
    minutes = model.minutes(
        resources,
        "scoring_minutes",
        lambda: model.metric(metric, tasks_of_metric(study, **wildcards)),
        runs,
    )
    return Resources(resources["scoring_mb"], min(MOST_MINUTES, minutes), gpus=1)


def tasks_of_metric(study: Study, **wildcards: str) -> list[tuple[str, str]]:
    """The tasks whose predictions a metric scores, each with the language of the cell."""
    return [(task, cell.language) for cell, own in _scored(study, **wildcards) for task in own]


def _predictions(study: Study, **wildcards: str) -> list[Output]:
    cells = (cell for cell, _ in _scored(study, **wildcards))
    return [study.output("evaluate", **cell.wildcards) for cell in cells]


@stage(
    "evaluation",
    "learned/{metric}/{source}/{language}",
    card=_CARD,
    resources=_scoring,
    requires=_predictions,
)
def score_predictions(study: Study, **wildcards: str) -> dict[str, Any]:
    """A learned metric's scores of many cells' predictions; its checkpoint is loaded once."""
    name = wildcards["metric"]
    settings = study.config["metrics"][name]
    return {
        "settings": settings,
        "inputs": {
            "metric": study.output("prepare_metric", metric=name).file("card.json"),
            "python": study.metrics_python,
        },
        "outputs": {"records": f"{study.results}/evaluation"},
        "metric": name,
        "cells": [[cell.path, runs] for cell, runs in _scored(study, **wildcards)],
        "versions": {f"metric {settings['kind']}": learned_kind(settings["kind"]).version},
    }


def _scored(study: Study, **wildcards: str) -> Iterator[tuple[Cell, dict[str, int]]]:
    """Cells with the tasks that a metric scores, and their numbers of runs."""
    run_tasks, axes = study.config["run_tasks"], (wildcards["source"], wildcards["language"])
    for cell in (cell for cell in study.cells if (cell.source, cell.language) == axes):
        runs = {
            task: run_tasks[task]["runs"]
            for task in tasks_of(study, cell)
            if wildcards["metric"] in run_tasks[task]["learned_metrics"]
        }
        if runs:
            yield cell, runs


# ---- tokenizers and initializers, without a trained model --------------------------------------


@stage("evaluation", f"evaluation/{VOCABULARY_PATH}/fragmentation", resources=fixed(2000, 20))
def measure_fragmentation(study: Study, **axes: str) -> dict[str, Any]:
    """How a tokenizer splits text."""
    return {
        "settings": {},
        "inputs": {
            "source": source(study, axes["source"]),
            "tokenizer": vocabulary(study, axes),
            "corpus": corpus(study, axes["language"]),
        },
        "cell": axes,
    }


@stage("evaluation", "fragmentation/{tokenizer}/{language}", script="measure_fragmentation")
def measure_tokenizer(study: Study, tokenizer: str, language: str) -> dict[str, Any]:
    """How a tokenizer of the registry splits a language's text."""
    entry = study.config["tokenizers"][tokenizer]
    inputs: dict[str, Any] = {"corpus": corpus(study, language)}
    if "package" in entry:
        inputs["package"] = package(study, entry["package"])
    return {
        "settings": entry,
        "inputs": inputs,
        "tokenizer": tokenizer,
        "language": language,
    }


@stage(
    "evaluation",
    f"evaluation/{VOCABULARY_PATH}/{{initializer}}/alignment/{{fit}}",
    resources=of_source("initialization_mb", 20),
)
def measure_alignment(study: Study, **wildcards: str) -> dict[str, Any]:
    """How well a fitted initializer aligns new tokens with the source's."""
    language = wildcards["language"]
    encoder = study.config["alignment"]["encoder"]
    return {
        "settings": study.config["alignment"],
        "inputs": {
            "source": source(study, wildcards["source"]),
            "tokenizer": vocabulary(study, wildcards),
            "initialization": fit_of(study, **wildcards),
            "corpus": corpus(study, language),
            "encoder": encoder and sentence_encoder(study, encoder),
        },
        "cell": wildcards,
        "seed": [study.config["seed"], "evaluation", language, "alignment"],
    }
