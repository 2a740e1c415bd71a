"""Stage 7, evaluation: which tasks a job runs, what they read, and which cells a metric scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lexigraft.cells import Cell, cell_of, is_selected
from lexigraft.evaluation.harness.benchmark_state import benchmark_state as data_state
from lexigraft.evaluation.learned.checkpoint import learned_kind, state
from lexigraft.evaluation.task_kinds import task_kind, versions_of
from lexigraft.plugins import with_digests
from workflow.config.task_data import benchmark_settings as settings_of_benchmark
from workflow.config.task_data import (
    checkpoints_of,
    own_test_codes,
    own_test_parts,
    tested_language,
)
from workflow.inputs.corpus import task_inputs
from workflow.inputs.rule import Output, Wildcards, output
from workflow.inputs.source import package_of, sentence_encoder
from workflow.study import Study, in_repository, once

# Queues limit the time of a job; the next attempt resumes where it stopped.
_MOST_MINUTES = 24 * 60

# ---- tasks on cells -----------------------------------------------------------------------------
#
# A job runs tasks on one model; those that other jobs on the machine would distort run `alone`.
# With the wildcard `checkpoint`, the model is a checkpoint from the training of the cell.


def tasks(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The description of each task that a job runs, without its inputs."""
    return _tasks(study, wildcards, alone=False)


def tasks_alone(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The same for the tasks that other jobs on the machine would distort."""
    return _tasks(study, wildcards, alone=True)


def texts(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The texts that each of `tasks` reads."""
    return _texts(study, wildcards, alone=False)


def texts_alone(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The texts that each of `tasks_alone` reads."""
    return _texts(study, wildcards, alone=True)


def minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes of `tasks`."""
    return _minutes(study, wildcards, alone=False)


def minutes_alone(study: Study, wildcards: Wildcards) -> int:
    """Minutes of `tasks_alone`."""
    return _minutes(study, wildcards, alone=True)


def checkpoint(study: Study, wildcards: Wildcards) -> Output:
    """A checkpoint, which is in the folder of its cell and complete when the cell is."""
    return output(study, "train", wildcards).file(f"checkpoint-{wildcards['checkpoint']}")


def records(study: Study, wildcards: Wildcards) -> str:
    """The folder of the records of a cell."""
    return output(study, "evaluate", wildcards).path


def evaluations(study: Study, cell: Cell) -> Iterator[Output]:
    """All evaluations of a cell and of the checkpoints that its strategy retains."""
    for rule, alone in (("evaluate", False), ("measure_speed", True)):
        if _task_names(study, cell.wildcards, alone):
            yield output(study, rule, cell.wildcards)
    names = tasks_of(study, cell)
    numbers = {n for task in names for n in checkpoints_of(study.config, task, cell.strategy)}
    for number in sorted(numbers):
        yield output(study, "evaluate_checkpoint", cell.wildcards | {"checkpoint": number})


@once
def tasks_of(study: Study, cell: Cell) -> list[str]:
    """The tasks that are run on a cell, in the order of the study."""
    return [task for task, run in study.config["run_tasks"].items() if is_selected(cell, run)]


def _task_names(study: Study, wildcards: Wildcards, alone: bool) -> list[str]:
    """The tasks of a job."""
    cell = cell_of(wildcards)
    names = tasks_of(study, cell)
    if "checkpoint" in wildcards:
        number = int(wildcards["checkpoint"])
        return [n for n in names if number in checkpoints_of(study.config, n, cell.strategy)]
    kinds = {task: study.config["tasks"][task]["kind"] for task in names}
    return [task for task in names if task_kind(kinds[task]).runs_alone == alone]


def _tasks(study: Study, wildcards: Wildcards, alone: bool) -> dict[str, Any]:
    names = _task_names(study, wildcards, alone)
    return {task: _task(study, wildcards["language"], task) for task in names}


def _texts(study: Study, wildcards: Wildcards, alone: bool) -> dict[str, Any]:
    names = _task_names(study, wildcards, alone)
    return {task: task_inputs(study, wildcards["language"], task) for task in names}


def _minutes(study: Study, wildcards: Wildcards, alone: bool) -> int:
    resources, model = study.config["sources"][wildcards["source"]]["resources"], study.cost_model
    names = _task_names(study, wildcards, alone)
    runs = sum(study.config["run_tasks"][task]["runs"] for task in names)
    estimate = model.minutes(
        resources, "evaluation_minutes", lambda: model.evaluation(wildcards, names), runs
    )
    return min(max(_MOST_MINUTES, resources.get("evaluation_minutes", 0)), estimate)


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
        "versions": with_digests(versions_of(task, config["tasks"][task])),
    }


# ---- benchmarks of lm-evaluation-harness --------------------------------------------------------


def benchmark_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """A task of the harness: its name, the folder of its definition, and its data."""
    settings = settings_of_benchmark(study.config, wildcards["benchmark"])
    if not settings["folder"].startswith("."):
        return settings
    folder = settings["folder"].removeprefix("./")
    folder = folder if Path(folder).is_dir() else in_repository(folder)
    return settings | {"folder": folder if folder.startswith("/") else f"./{folder}"}


def benchmark_state(study: Study, wildcards: Wildcards) -> Any:
    """Which data a benchmark would read now: it is prepared again when that changes."""
    folder = output(study, "prepare_benchmark", wildcards).path
    return data_state(benchmark_settings(study, wildcards)["data"], folder, study.locked)


# ---- learned metrics ----------------------------------------------------------------------------


def metric_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """Checkpoint and encoder of a metric."""
    keys = ("kind", "checkpoint", "revision", "encoder", "encoder_revision")
    return {key: scoring_settings(study, wildcards)[key] for key in keys}


def metric_state(study: Study, wildcards: Wildcards) -> Any:
    """Which files of a checkpoint are there: it is prepared again when there are more."""
    folder = output(study, "prepare_metric", wildcards).path
    return state(scoring_settings(study, wildcards), study.metrics_python, folder)


def predictions(study: Study, wildcards: Wildcards) -> list[Output]:
    """The evaluations whose predictions a metric scores."""
    return [output(study, "evaluate", cell.wildcards) for cell, _ in _scored(study, wildcards)]


def scoring_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The entry of a metric."""
    entry: dict[str, Any] = study.config["metrics"][wildcards["metric"]]
    return entry


def scored_cells(study: Study, wildcards: Wildcards) -> list[list[Any]]:
    """Path of each cell, and the tasks that a metric scores with their numbers of runs."""
    return [[cell.path, runs] for cell, runs in _scored(study, wildcards)]


def metric_card(study: Study, wildcards: Wildcards) -> Output:
    """The card of the prepared metric, which its script reads."""
    return output(study, "prepare_metric", wildcards).file("card.json")


def metric_versions(study: Study, wildcards: Wildcards) -> dict[str, int]:
    """The version of the kind of a metric."""
    kind = scoring_settings(study, wildcards)["kind"]
    return {f"metric {kind}": learned_kind(kind).VERSION}


def scoring_memory(study: Study, wildcards: Wildcards) -> int:
    """Megabytes for a metric."""
    megabytes: int = scoring_settings(study, wildcards)["resources"]["scoring_mb"]
    return megabytes


def scoring_minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes of a metric on all predictions."""
    resources, model = scoring_settings(study, wildcards)["resources"], study.cost_model
    scored = [*_scored(study, wildcards)]
    tasks = [(task, cell.language) for cell, runs in scored for task in runs]
    minutes = model.minutes(
        resources,
        "scoring_minutes",
        lambda: model.metric(wildcards["metric"], tasks),
        sum(sum(runs.values()) for _, runs in scored),
    )
    return min(_MOST_MINUTES, minutes)


def _scored(study: Study, wildcards: Wildcards) -> Iterator[tuple[Cell, dict[str, int]]]:
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


# ---- tokenizers and initializers, without a trained model ---------------------------------------


def tokenizer_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """The entry of a tokenizer of the registry."""
    entry: dict[str, Any] = study.config["tokenizers"][wildcards["tokenizer"]]
    return entry


def tokenizer_package(study: Study, wildcards: Wildcards) -> Output | list[str]:
    """The package that contains a tokenizer of the registry."""
    return package_of(study, [tokenizer_settings(study, wildcards)])


def initialization(study: Study, wildcards: Wildcards) -> Output:
    """A fitted initializer."""
    return output(study, "initialize", wildcards)


def alignment_encoder(study: Study, wildcards: Wildcards) -> dict[str, str] | None:
    """The sentence encoder that compares tokens."""
    encoder = study.config["alignment"]["encoder"]
    return encoder and sentence_encoder(study, encoder)


def alignment_seed(study: Study, wildcards: Wildcards) -> list[Any]:
    """The seed of the measurement."""
    return [study.config["seed"], "evaluation", wildcards["language"], "alignment"]
