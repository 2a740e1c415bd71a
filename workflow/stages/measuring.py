"""What is measured: tasks on cells and their checkpoints, learned metrics, tokenizers, alignment.

Plain Python: the Snakefile is parsed again in every job.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.cells import CELL_PATH, VOCABULARY_PATH, Cell, cell_of, is_selected
from lexigraft.evaluation.task_kinds import task_file, task_kind
from workflow.config.task_data import (
    PREPARED,
    TRAIN,
    benchmarks_of,
    checkpoints_of,
    example_parts,
    own_test_codes,
    own_test_parts,
    tested_language,
)
from workflow.stages.cells import fit_of, training, vocabulary
from workflow.stages.stage import Output, Resources, stage
from workflow.stages.study import Study, digest
from workflow.stages.texts import benchmark, corpus, examples, metric, package, source, test_set

# A job's hours are bounded by what queues allow; the next attempt goes on where it stopped.
MOST_MINUTES = 24 * 60
# It runs in another environment, so no import leads to it.
SCORER = "lexigraft/evaluation/learned/scorer.py"
_CARD = "card-{study}.json"  # several studies may ask different tasks of one cell

# ---- the outputs of these stages, by what they hold ---------------------------------------------


def evaluations(study: Study, cell: Cell) -> list[Output]:
    """All that is measured of a cell and of the checkpoints that its strategy keeps."""
    tasks = tasks_of(study, cell)
    alone = [task for task in tasks if runs_alone(study, task)]
    found = [study.output("evaluate", **cell.wildcards)] if len(tasks) > len(alone) else []
    found += [study.output("measure_speed", **cell.wildcards)] if alone else []
    numbers = {n for task in tasks for n in checkpoints_of(study.config, task, cell.strategy)}
    return found + [
        study.output("evaluate_checkpoint", **cell.wildcards, checkpoint=number)
        for number in sorted(numbers)
    ]


def scores(study: Study) -> list[Output]:
    """The scores of learned metrics, a job for each metric, source and language."""
    keys: dict[tuple[str, str, str], None] = {}
    for cell in study.cells:
        for task in tasks_of(study, cell):
            for name in study.config["run_tasks"][task]["learned_metrics"]:
                keys[name, cell.source, cell.language] = None
    return [
        study.output("score_predictions", metric=name, source=source_name, language=language)
        for name, source_name, language in keys
    ]


def fragmentation(study: Study, cell: Cell) -> Output:
    """How the tokenizer of a cell cuts text."""
    axes = {"source": cell.source, "language": cell.language, "vocabulary": cell.vocabulary}
    return study.output("measure_fragmentation", **axes)


def tokenizers(study: Study) -> list[Output]:
    """How tokenizers of the registry cut texts, by language."""
    compared = study.config["fragmentation"]
    return [
        study.output("measure_tokenizer", tokenizer=tokenizer, language=language)
        for language in compared["languages"]
        for tokenizer in compared["tokenizers"]
    ]


def alignment(study: Study, fitted: Output) -> Output:
    """How well a fitted initializer aligns old tokens with new ones."""
    return study.output("measure_alignment", **fitted.wildcards)


def tasks_of(study: Study, cell: Cell) -> list[str]:
    """The tasks that are run on a cell, in the order of the study."""
    return [task for task, run in study.config["run_tasks"].items() if is_selected(cell, run)]


def runs_alone(study: Study, task: str) -> bool:
    """Whether other jobs on the machine would spoil what the task measures."""
    return task_kind(study.config["tasks"][task]["kind"]).runs_alone


# ---- tasks on cells ----------------------------------------------------------------------------


def _evaluating(tasks_of: Callable[[Study, Cell, Mapping[str, str]], list[str]]) -> Any:
    """Resources of a process that runs these tasks, one run after the other."""

    def resources(study: Study, **axes: str) -> Resources:
        cell = cell_of(axes)
        own = study.config["sources"][cell.source]["resources"]
        tasks = tasks_of(study, cell, axes)
        runs = sum(study.config["run_tasks"][task]["runs"] for task in tasks)
        most = max(MOST_MINUTES, own["evaluation_minutes"])
        minutes = min(most, own["evaluation_minutes"] * runs)
        return Resources(own["evaluation_mb"], minutes, gpus=1)

    return resources


def _together(study: Study, cell: Cell, _: Mapping[str, str]) -> list[str]:
    return [task for task in tasks_of(study, cell) if not runs_alone(study, task)]


def _alone(study: Study, cell: Cell, _: Mapping[str, str]) -> list[str]:
    return [task for task in tasks_of(study, cell) if runs_alone(study, task)]


def _of_checkpoint(study: Study, cell: Cell, axes: Mapping[str, str]) -> list[str]:
    number, config = int(axes["checkpoint"]), study.config
    return [
        task
        for task in tasks_of(study, cell)
        if number in checkpoints_of(config, task, cell.strategy)
    ]


@stage("evaluation", f"evaluation/{CELL_PATH}", card=_CARD, resources=_evaluating(_together))
def evaluate(study: Study, **axes: str) -> dict[str, Any]:
    """All tasks and runs on a cell, its model opened once."""
    cell = cell_of(axes)
    return _evaluation(study, cell, _together(study, cell, axes), training(study, cell))


@stage(
    "evaluation",
    f"evaluation/{CELL_PATH}/checkpoint-{{checkpoint}}",
    script="evaluate",
    card=_CARD,
    resources=_evaluating(_of_checkpoint),
)
def evaluate_checkpoint(study: Study, **axes: str) -> dict[str, Any]:
    """The same on a cell as it was in the middle of its training."""
    cell, number = cell_of(axes), int(axes["checkpoint"])
    # A checkpoint lies in its cell's folder and is complete when the cell is.
    folder = training(study, cell).file(f"checkpoint-{number}")
    described = _evaluation(study, cell, _of_checkpoint(study, cell, axes), folder)
    return {**described, "checkpoint": number}


@stage(
    "evaluation",
    f"evaluation/{CELL_PATH}/speed",
    script="evaluate",
    card=_CARD,
    resources=_evaluating(_alone),
)
def measure_speed(study: Study, **axes: str) -> dict[str, Any]:
    """The speed of a cell, measured with no other job beside it."""
    cell = cell_of(axes)
    described = _evaluation(study, cell, _alone(study, cell, axes), training(study, cell))
    # A folder of its own, since two processes never work on one.
    return {**described, "outputs": {"records": str(study.output("evaluate", **axes))}}


def _evaluation(study: Study, cell: Cell, tasks: list[str], folder: Output) -> dict[str, Any]:
    """What a process is told that runs some tasks on one model."""
    return {
        "settings": {},
        "inputs": {
            "cell": folder,
            "read": {task: _read_by(study, cell, task) for task in tasks},
        },
        "cell": vars(cell),
        "tasks": {task: _task(study, cell, task) for task in tasks},
    }


def _task(study: Study, cell: Cell, task: str) -> dict[str, Any]:
    """A task as it is run on a cell, apart from what it reads."""
    config = study.config
    language = tested_language(config, task, cell.language)
    # Where texts come from, rules before this one know.
    left_out = ("language", "examples", *PREPARED)
    settings = {key: value for key, value in config["tasks"][task].items() if key not in left_out}
    codes = own_test_codes(config, task, cell.language)
    return {
        "settings": settings,
        "language": config["languages"][language].get("code"),
        "language_name": config["languages"][language]["name"],
        **({"tested": codes} if own_test_parts(config, task, cell.language) else {}),
        "runs": config["run_tasks"][task]["runs"],
        # The same examples for every cell: what is drawn depends on the task and the run only.
        "seed": [config["seed"], "evaluation", language, task],
        "code": digest("lexigraft/evaluation/evaluate.py", task_file(settings["kind"])),
    }


def _read_by(study: Study, cell: Cell, task: str) -> dict[str, Any]:
    """The texts that a task reads for a cell."""
    config = study.config
    parts = example_parts(config, task, cell.language)
    test_sets = {
        key: {name: test_set(study, task, part) for name, part in own.items()}
        for key, own in own_test_parts(config, task, cell.language).items()
    }
    benchmarks = benchmarks_of(config, task, cell.language)
    return {
        "corpus": corpus(study, tested_language(config, task, cell.language)),
        "prompts": study.prompts,
        **(
            {
                "examples": {
                    "train": examples(study, task, TRAIN),
                    "tests": {name: examples(study, task, part) for name, part in parts.items()},
                }
            }
            if parts
            else {}
        ),
        **({"test_sets": test_sets} if test_sets else {}),
        **(
            {"benchmarks": {name: benchmark(study, own) for name, own in benchmarks.items()}}
            if benchmarks
            else {}
        ),
    }


# ---- learned metrics ---------------------------------------------------------------------------


def _scoring(study: Study, **wildcards: str) -> Resources:
    resources = study.config["metrics"][wildcards["metric"]]["resources"]
    jobs = sum(runs for _, own in _scored(study, **wildcards) for runs in own.values())
    minutes = min(MOST_MINUTES, resources["scoring_minutes"] * jobs)
    return Resources(resources["scoring_mb"], minutes, gpus=1)


@stage(
    "evaluation",
    "learned/{metric}/{source}/{language}",
    card=_CARD,
    resources=_scoring,
    requires=lambda study, **wildcards: _predictions(study, **wildcards),
)
def score_predictions(study: Study, **wildcards: str) -> dict[str, Any]:
    """A learned metric's scores of the predictions of many cells, its checkpoint loaded once."""
    entry = study.config["metrics"][wildcards["metric"]]
    return {
        "settings": {key: value for key, value in entry.items() if key != "resources"},
        "inputs": {
            "metric": metric(study, wildcards["metric"]).file("card.json"),
            "python": study.metrics_python,
        },
        "outputs": {"records": f"{study.results}/evaluation"},
        "metric": wildcards["metric"],
        "cells": [[cell.path, runs] for cell, runs in _scored(study, **wildcards)],
        "code": [SCORER],
    }


def _scored(study: Study, **wildcards: str) -> Iterator[tuple[Cell, dict[str, int]]]:
    """Cells with the tasks, and the numbers of runs, that a metric scores."""
    for cell in study.cells:
        if (cell.source, cell.language) == (wildcards["source"], wildcards["language"]):
            run_tasks = study.config["run_tasks"]
            runs = {
                task: run_tasks[task]["runs"]
                for task in tasks_of(study, cell)
                if wildcards["metric"] in run_tasks[task]["learned_metrics"]
            }
            if runs:
                yield cell, runs


def _predictions(study: Study, **wildcards: str) -> Iterator[Output]:
    for cell, _ in _scored(study, **wildcards):
        yield study.output("evaluate", **cell.wildcards)


# ---- tokenizers and initializers, without a trained model --------------------------------------


@stage(
    "evaluation",
    f"evaluation/{VOCABULARY_PATH}/fragmentation",
    resources=lambda study, **axes: Resources(2000, 20),
)
def measure_fragmentation(study: Study, **axes: str) -> dict[str, Any]:
    """How a tokenizer cuts text."""
    return {
        "settings": {},
        "inputs": {
            "source": source(study, axes["source"]),
            "tokenizer": vocabulary(study, axes["source"], axes["language"], axes["vocabulary"]),
            "corpus": corpus(study, axes["language"]),
        },
        "outputs": _record(study.output("measure_fragmentation", **axes)),
        "cell": axes,
    }


@stage("evaluation", "fragmentation/{tokenizer}/{language}")
def measure_tokenizer(study: Study, tokenizer: str, language: str) -> dict[str, Any]:
    """How a tokenizer of the registry cuts a language's text."""
    entry = study.config["tokenizers"][tokenizer]
    folder = study.output("measure_tokenizer", tokenizer=tokenizer, language=language)
    own: dict[str, Any] = {}
    if "package" in entry:
        own["package"] = package(study, entry["package"])
    if entry.get("folder"):
        own["files"] = [f"{Path(entry['folder']).expanduser()}/tokenizer.json"]
    return {
        "settings": entry,
        "inputs": {"corpus": corpus(study, language), **own},
        "outputs": _record(folder),
        "tokenizer": tokenizer,
        "language": language,
    }


def _aligning(study: Study, **wildcards: str) -> Resources:
    resources = study.config["sources"][wildcards["source"]]["resources"]
    return Resources(resources["initialization_mb"], 20)


@stage(
    "evaluation",
    f"evaluation/{VOCABULARY_PATH}/{{initializer}}/alignment/{{fit}}",
    resources=_aligning,
)
def measure_alignment(study: Study, **wildcards: str) -> dict[str, Any]:
    """How well a fitted initializer aligns old tokens with new ones."""
    axes = {axis: wildcards[axis] for axis in ("source", "language", "vocabulary")}
    return {
        "settings": study.config["alignment"],
        "inputs": {
            "source": source(study, axes["source"]),
            "tokenizer": vocabulary(study, *axes.values()),
            "initialization": fit_of(study, **wildcards),
            "corpus": corpus(study, axes["language"]),
            "encoder": _sentence_encoder(study),
        },
        "outputs": _record(study.output("measure_alignment", **wildcards)),
        "cell": wildcards,
        "seed": [study.config["seed"], "evaluation", axes["language"], "alignment"],
    }


def _sentence_encoder(study: Study) -> Mapping[str, str] | None:
    """The encoder that compares texts in meaning: `{"hub", "revision"}` or `{"folder"}`."""
    encoder = study.config["alignment"]["encoder"]
    if encoder and "package" in encoder:
        return {"folder": package(study, encoder["package"]).file(encoder["folder"])}
    return encoder


def _record(folder: Output) -> dict[str, str]:
    return {"file": f"{folder}/record.json"}
