"""Evaluate a cell: all runs of all tasks in one process, which loads the model once.

Each run has its own folder, record and fingerprint (`lexigraft.artifacts.completion`): complete
runs are not repeated, and if all are complete, no model is loaded.
"""

import gc
import importlib.util
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import delete_leftovers, lock_folder, write_json
from lexigraft.artifacts.cards import check_inputs, versions
from lexigraft.artifacts.completion import begin, check_origins, complete, is_complete
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import Measurement, task_kind
from lexigraft.hardware import autocast, device, precision
from lexigraft.inference.vllm_model import VllmModel, engine_name
from lexigraft.machine import setting
from lexigraft.source.document_start import DOCUMENT_START, document_start
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.training.export import write_merged
from lexigraft.training.store import load_cell, read_card, reference

Job = dict[str, Any]
logger = logging.getLogger(__name__)

TRANSFORMERS, VLLM = "transformers", "vllm"


class Opening(NamedTuple):
    """How a model is opened: the engine, and the precision of computation.

    Without `autocast`, the weights have this precision too; with it, they are those of training:
    float32, except that linear layers are rounded beforehand.
    """

    engine: str
    dtype: torch.dtype
    autocast: bool = False


def evaluate_cell(job: Job) -> list[str]:
    """Evaluate a cell, or a checkpoint, on all tasks of a job, see `run_jobs`.

    The model is loaded once for each engine and precision; no task changes its weights. Returns the
    files of all runs, relative to `outputs.folder`. Raises `UserError` if the cell cannot be read;
    or, after all other tasks have run, naming the tasks that failed.
    """
    runs = run_jobs(job)
    unfinished = [run for run in runs if not is_complete(run)]
    logger.info("%d of %d runs are complete", len(runs) - len(unfinished), len(runs))
    failures: dict[str, str] = {}  # task -> reason
    for task in sorted({run["task"] for run in unfinished}):
        try:
            check_inputs(job["inputs"]["read"][task])
            check_origins([job["inputs"]["cell"], job["inputs"]["read"][task]])
        except UserError as error:
            logger.error("%s cannot be evaluated: %s", task, error)
            failures[task] = str(error)
    groups: dict[Opening, list[Job]] = {}
    for run in (run for run in unfinished if run["task"] not in failures):
        benchmarks = run["inputs"].get("benchmarks", {}).values()
        cards = [json.loads(Path(folder, "card.json").read_text("utf-8")) for folder in benchmarks]
        missing = [card["why"] for card in cards if not card["available"]]
        if missing:
            # One language without data is enough: means over fewer would not be comparable.
            with _locked(run) as begun:
                Path(run["outputs"]["predictions"]).unlink(missing_ok=True)
                not_scored = {"not_scored": "; ".join(dict.fromkeys(missing))}
                _finish(run, record(run, Measurement({})) | not_scored, begun)
        else:
            groups.setdefault(_opening(run["settings"]), []).append(run)
    # vLLM last: it reserves most of the memory.
    for opening, group in sorted(groups.items(), key=lambda item: item[0].engine == VLLM):
        _evaluate_group(job, opening, group, failures)
        # Free the model before loading that of the next group.
        gc.collect()
        torch.cuda.empty_cache()
    if failures:
        reasons = "; ".join(f"{task}: {reason}" for task, reason in failures.items())
        tasks = {run["task"] for run in runs}
        raise UserError(f"{len(failures)} of {len(tasks)} tasks failed: {reasons}")
    return [file for run in runs for file in _files(run, job["outputs"]["folder"])]


def run_jobs(job: Job) -> list[Job]:
    """The job of each run, whose fingerprint determines whether its record is complete.

    Keys that are read: `inputs.cell`, a folder; `tasks`: name -> `settings` (an entry of
    config/tasks.yaml), `language` (its code), `language_name`, `tested` (test set -> code), `runs`,
    `seed` and `versions`; `inputs.read`: name -> `corpus`, and if the task has them `prompts`,
    `examples`, `test_sets`, `benchmarks`; `outputs.records`, by default `outputs.folder`.
    """
    cell = job["inputs"]["cell"]
    records = job["outputs"].get("records") or job["outputs"]["folder"]
    card = read_card(Path(cell))
    parts = {name: str(reference(Path(cell), card, name)) for name in ("source", "tokenizer")}
    of_cell = {key: job[key] for key in ("rule", "cell", "checkpoint") if key in job}
    runs = []
    for name, task in job["tasks"].items():
        of_task = {key: value for key, value in task.items() if key != "runs"}
        of_task["versions"] = {**job.get("versions", {}), **task.get("versions", {})}
        of_task["inputs"] = {**job["inputs"]["read"][name], "cell": cell, **parts}
        for run in range(task["runs"]):
            folder = f"{records}/{name}/run-{run}"
            files = {"record": "record.json", "predictions": "predictions.jsonl"}
            outputs = {key: f"{folder}/{file}" for key, file in files.items()} | {"folder": folder}
            redraws = task["settings"].get("redraw", True)
            seed = [*task["seed"], run if redraws else 0]
            of_run = {"outputs": outputs, "task": name, "run": run, "seed": seed}
            runs.append(of_cell | of_task | of_run)
    return runs


def record(job: Job, measured: Measurement) -> dict[str, Any]:
    """The evaluation record of one run, ready for JSON."""
    names = ("task", "cell", "run", "checkpoint", "settings", "seed")
    return {
        "kind": job["settings"]["kind"],
        **{name: job[name] for name in names if name in job},
        "metrics": measured.metrics,
        "details": measured.details,
        "versions": versions(),
    }


@contextmanager
def open_cell(
    cell: str | Path, opening: Opening, folder: str | Path
) -> Iterator[tuple[Any, PreTrainedTokenizerFast]]:
    """The model of a cell, a `PreTrainedModel` or `VllmModel`, and its tokenizer.

    vLLM reads plain folders: the cell is exported to `exported` in `folder` meanwhile. Raises
    `UserError` if the cell is damaged, or if vLLM is requested but not installed.
    """
    logger.info("loading %s for %s in %s", cell, opening.engine, opening.dtype)
    if opening.autocast:
        # Autocast would round linear layers in the same way: this only saves memory.
        loaded = load_cell(cell, torch.float32, device(), linear_dtype=torch.bfloat16)
        with autocast():
            yield loaded
        return
    if opening.engine != VLLM:
        yield load_cell(cell, opening.dtype, device())
        return
    engine_name()  # fails without vLLM, before gigabytes are written
    exported = Path(folder) / "exported"
    shutil.rmtree(exported, ignore_errors=True)  # left by a killed process
    exported.mkdir(parents=True)
    try:
        write_merged(Path(cell), exported)
        with closing(VllmModel(exported, opening.dtype)) as model:
            yield model, load_tokenizer(exported)
    finally:
        shutil.rmtree(exported, ignore_errors=True)


def _opening(settings: dict[str, Any]) -> Opening:
    """The engine and precision for a task.

    A task whose number training also measures computes as training does. Tasks that fine-tune use
    float32. So do tasks that generate on a CPU, unless the user chose a precision: in bfloat16, the
    text may depend on the batch (with SmolLM2, one of six did), and it saves at most a third of the
    time.
    """
    kind, engine = task_kind(settings["kind"]), TRANSFORMERS
    if kind.generates:
        engine = settings.get("engine", "auto")
        if engine == "auto":
            engine = TRANSFORMERS if settings.get("beams", 1) > 1 else setting("engine") or "auto"
        if engine == "auto":
            has_vllm = device().type == "cuda" and importlib.util.find_spec("vllm")
            engine = VLLM if has_vllm else TRANSFORMERS
    generates_on_cpu = kind.generates and engine != VLLM and device().type == "cpu"
    if kind.fine_tunes or (generates_on_cpu and setting("precision") is None):
        return Opening(engine, torch.float32)
    return Opening(engine, precision(), kind.measured_in_training and precision() == torch.bfloat16)


def _evaluate_group(job: Job, opening: Opening, group: list[Job], failures: dict[str, str]) -> None:
    """Evaluate the runs with the same engine and precision; adds failed tasks and their reasons.

    The model must not outlive this function: exceptions, which would reference it, are not stored.
    """
    try:
        with open_cell(job["inputs"]["cell"], opening, job["outputs"]["folder"]) as opened:
            for run in group:
                logger.info("evaluating %s, run %d", run["task"], run["run"])
                kind = task_kind(run["settings"]["kind"])
                with _locked(run) as begun:
                    try:
                        written = record(run, kind.evaluate(*opened, run))
                    except UserError as error:
                        logger.error("%s failed: %s", run["task"], error)
                        failures.setdefault(run["task"], str(error))
                        continue
                    # lm-evaluation-harness and encoders read what the tokenizer itself adds.
                    if kind.tests != "benchmark" and not kind.fine_tunes:
                        written[DOCUMENT_START] = document_start(opened[1])
                    _finish(run, written, begun)
    except UserError as error:  # the model cannot be loaded in this way
        for run in group:
            failures.setdefault(run["task"], str(error))


@contextmanager
def _locked(run: Job) -> Iterator[str]:
    """Lock the folder of a run, which the cell's other job then skips; yields `begin`'s digest."""
    folder = Path(run["outputs"]["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        delete_leftovers(folder)
        yield begin(run)


def _finish(run: Job, written: dict[str, Any], begun: str) -> None:
    write_json(run["outputs"]["record"], written)
    complete(run, begun, _files(run, run["outputs"]["folder"]))


def _files(run: Job, folder: str) -> list[str]:
    """The existing files of a run, relative to a folder."""
    outputs = (Path(run["outputs"][name]) for name in ("record", "predictions"))
    return [os.path.relpath(path, folder) for path in outputs if path.is_file()]
