"""Stage 7, evaluation: which tasks a job runs, what they read, and which cells a metric scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lexigraft.cells import Cell, cell_of
from lexigraft.evaluation.harness.benchmark_state import benchmark_state as data_state
from lexigraft.evaluation.learned.checkpoint import learned_kind, state
from lexigraft.evaluation.task_kinds import versions_of
from lexigraft.plugins import with_digests
from lexigraft.settings import plain
from workflow.cost import cost_model
from workflow.inputs.corpus import task_inputs
from workflow.inputs.rule import Output, Wildcards, output
from workflow.inputs.source import sentence_encoder
from workflow.study import Study, in_repository, once

# Queues limit the time of a job; the next attempt goes on with the first incomplete run.
_MOST_MINUTES = 24 * 60

# ---- tasks on cells -----------------------------------------------------------------------------
#
# A job runs tasks on one model; those that other jobs on the machine would distort run `alone`.
# With the wildcard `checkpoint`, the model is a checkpoint from the training of the cell.


def tasks(study: Study, wildcards: Wildcards, alone: bool = False) -> dict[str, Any]:
    """The description of each task that a job runs, without its inputs."""
    names = _task_names(study, wildcards, alone)
    return {task: _task(study, wildcards["language"], task) for task in names}


def texts(study: Study, wildcards: Wildcards, alone: bool = False) -> dict[str, Any]:
    """The texts that each of these tasks reads."""
    names = _task_names(study, wildcards, alone)
    return {task: task_inputs(study, wildcards["language"], task) for task in names}


def minutes(study: Study, wildcards: Wildcards, alone: bool = False) -> int:
    """Minutes of these tasks."""
    resources, model = study.sources[wildcards["source"]].resources, cost_model(study)
    names = _task_names(study, wildcards, alone)
    runs = sum(study.run_tasks[task].runs for task in names)
    estimate = model.minutes(
        resources, "evaluation_minutes", lambda: model.evaluation(wildcards, names), runs
    )
    return min(max(_MOST_MINUTES, resources.evaluation_minutes or 0), estimate)


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
    tasks = study.tasks_of(cell)
    for number in sorted({n for task in tasks for n in study.checkpoints(task, cell.strategy)}):
        yield output(study, "evaluate_checkpoint", cell.wildcards | {"checkpoint": number})


def _task_names(study: Study, wildcards: Wildcards, alone: bool) -> list[str]:
    """The tasks of a job."""
    cell = cell_of(wildcards)
    names = study.tasks_of(cell)
    if "checkpoint" in wildcards:
        number = int(wildcards["checkpoint"])
        return [task for task in names if number in study.checkpoints(task, cell.strategy)]
    return [task for task in names if study.task_kind(task).runs_alone == alone]


@once
def _task(study: Study, cells_language: str, task: str) -> dict[str, Any]:
    """The description of a task on cells of a language, without its inputs."""
    entry, language = plain(study.tasks[task]), study.tested_language(task, cells_language)
    # Earlier rules read these keys, which define the texts.
    left_out = ("language", "examples", "harness", "data")
    has_test_sets = study.task_kind(task).generates and study.example_parts(task, cells_language)
    return {
        "settings": {key: value for key, value in entry.items() if key not in left_out},
        "language": study.languages[language].code,
        "language_name": study.languages[language].name,
        **({"tested": study.tests(task, cells_language)} if has_test_sets else {}),
        "runs": study.run_tasks[task].runs,
        # The same examples for every cell: draws depend only on the task and the run.
        "seed": [study.settings.seed, "evaluation", language, task],
        "versions": with_digests(versions_of(entry["kind"], study.task_settings(task))),
    }


# ---- benchmarks of lm-evaluation-harness --------------------------------------------------------


def benchmark_settings(study: Study, wildcards: Wildcards) -> dict[str, Any]:
    """A task of the harness: its name, the folder of its definition, and its data."""
    settings = next(
        settings for _, name, settings in study.benchmarks() if name == wildcards["benchmark"]
    )
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
    return {key: getattr(study.metrics[wildcards["metric"]], key) for key in keys}


def metric_state(study: Study, wildcards: Wildcards) -> Any:
    """Which files of a checkpoint are there: it is prepared again when there are more."""
    folder = output(study, "prepare_metric", wildcards).path
    return state(plain(study.metrics[wildcards["metric"]]), study.metrics_python, folder)


def predictions(study: Study, wildcards: Wildcards) -> list[Output]:
    """The evaluations whose predictions a metric scores."""
    return [evaluation for evaluation, *_ in _scored(study, wildcards)]


def scored_cells(study: Study, wildcards: Wildcards) -> list[list[Any]]:
    """Path of each cell or checkpoint, and the tasks that a metric scores, with numbers of runs."""
    return [[path, runs] for _, path, runs in _scored(study, wildcards)]


def metric_card(study: Study, wildcards: Wildcards) -> Output:
    """The card of the prepared metric, which its script reads."""
    return output(study, "prepare_metric", wildcards).file("card.json")


def metric_versions(study: Study, wildcards: Wildcards) -> dict[str, int]:
    """The version of the kind of a metric."""
    kind = study.metrics[wildcards["metric"]].kind
    return {f"metric {kind}": learned_kind(kind).VERSION}


def scoring_minutes(study: Study, wildcards: Wildcards) -> int:
    """Minutes of a metric on all predictions."""
    model, scored = cost_model(study), [*_scored(study, wildcards)]
    tasks = [(task, wildcards["language"]) for *_, runs in scored for task in runs]
    minutes = model.minutes(
        study.metrics[wildcards["metric"]].resources,
        "scoring_minutes",
        lambda: model.metric(wildcards["metric"], tasks),
        sum(sum(runs.values()) for *_, runs in scored),
    )
    return min(_MOST_MINUTES, minutes)


def _scored(study: Study, wildcards: Wildcards) -> Iterator[tuple[Output, str, dict[str, int]]]:
    """Evaluations of cells and checkpoints, with their path and the tasks that a metric scores.

    Each task has its number of runs.
    """
    axes = (wildcards["source"], wildcards["language"])
    for cell in (cell for cell in study.cells if (cell.source, cell.language) == axes):
        tasks = {task: study.run_tasks[task] for task in study.tasks_of(cell)}
        metric = wildcards["metric"]
        runs = {task: run.runs for task, run in tasks.items() if metric in run.learned_metrics}
        if runs:
            yield output(study, "evaluate", cell.wildcards), cell.path, runs
        numbers = {task: study.checkpoints(task, cell.strategy) for task in runs}
        for number in sorted({number for of_task in numbers.values() for number in of_task}):
            evaluation = cell.wildcards | {"checkpoint": number}
            of_checkpoint = {task: runs[task] for task in runs if number in numbers[task]}
            path = f"{cell.path}/checkpoint-{number}"
            yield output(study, "evaluate_checkpoint", evaluation), path, of_checkpoint


# ---- tokenizers and initializers, without a trained model ---------------------------------------


def alignment_encoder(study: Study, wildcards: Wildcards) -> dict[str, str] | None:
    """The sentence encoder that compares tokens."""
    encoder = study.settings.alignment.encoder
    return sentence_encoder(study, encoder) if encoder else None
