"""Score the predictions of many runs with a learned metric, in the metrics environment.

A job loads the checkpoint of the metric once. Each run has its own record and fingerprint
(`lexigraft.artifacts.completion`), so that only new or changed predictions are scored.
"""

import json
import logging
import math
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import write_json
from lexigraft.artifacts.completion import begin, complete, is_complete
from lexigraft.artifacts.records import read_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.learned.checkpoint import learned_kind

Job = dict[str, Any]
Row = dict[str, Any]
logger = logging.getLogger(__name__)

SCORER = Path(__file__).with_name("scorer.py")
UNIT = "as the checkpoint gives it, higher is better, about 0 to 1; papers often print 100 times it"
TEXTS = ("source", "output", "reference")


def with_predictions(job: Job) -> Job:
    """Add the predictions that a job scores to its inputs.

    To keep command lines short, a job names them by `cells` (the path of each, and its tasks with
    their number of runs) and the folder `outputs.records`.
    """
    files = [
        f"{job['outputs']['records']}/{cell}/{task}/run-{run}/predictions.jsonl"
        for cell, tasks in job["cells"]
        for task, runs in tasks.items()
        for run in range(runs)
    ]
    return {**job, "inputs": {**job["inputs"], "predictions": files}}


def score_predictions(job: Job) -> list[str]:
    """Score predictions with a learned metric; each record is written as soon as it is scored.

    Records are next to the predictions, in `learned/<metric>.json`: in `metrics` the mean, in
    `scores` one number for each of `ids`. If nothing could be scored, `not_scored` says why and
    what to do: an unavailable metric does not stop a study.

    Keys that are read: `inputs`: `predictions` (files with a `record.json` next to each), `metric`
    (the card of `prepare_metric`) and `python` (of the metrics environment); and `settings`: the
    metric's entry in config/metrics.yaml. Returns the records, relative to `outputs.folder`.
    """
    runs = [_run_job(job, Path(file)) for file in job["inputs"]["predictions"]]
    unfinished = [run for run in runs if not is_complete(run)]
    logger.info("%d of %d runs are scored", len(runs) - len(unfinished), len(runs))
    card = json.loads(Path(job["inputs"]["metric"]).read_text("utf-8"))
    pending: list[tuple[Job, str, list[Row]]] = []  # run, its fingerprint and its predictions
    for run in unfinished:
        begun = begin(run)
        try:
            if not card["available"]:
                raise UserError(card["why"])
            pending.append((run, begun, _read_predictions(Path(run["inputs"]["predictions"]))))
        except UserError as reason:
            _write(run, {"not_scored": str(reason)}, begun)
    try:
        if pending:
            _score(job, card, pending)
    except UserError as reason:
        # Not marked as complete: the error of the scorer may not occur again.
        for run, *_ in pending:
            _write(run, {"not_scored": str(reason)}, None)
    folder = job["outputs"]["folder"]
    return [os.path.relpath(run["outputs"]["record"], folder) for run in runs]


def _run_job(job: Job, predictions: Path) -> Job:
    """The job of one record, whose fingerprint determines whether it is complete."""
    folder, metric = predictions.parent / "learned", job["metric"]
    return {
        **{key: job[key] for key in ("rule", "settings", "metric", "versions") if key in job},
        "inputs": {"predictions": str(predictions), "metric": job["inputs"]["metric"]},
        "outputs": {
            "folder": str(folder),
            "record": str(folder / f"{metric}.json"),
            "card": str(folder / f"card-{metric}.json"),  # never written; names the fingerprint
        },
    }


def _score(job: Job, card: dict[str, Any], pending: list[tuple[Job, str, list[Row]]]) -> None:
    """Score runs, and remove them from `pending`; a UserError if the scorer ended before."""
    settings = job["settings"]
    folders: dict[str, Any] = {key: card[key] for key in ("checkpoint", "encoder") if key in card}
    options = {
        "kind": learned_kind(settings["kind"]).__file__,
        "batch_size": settings["batch_size"],
        "uses_source": settings["uses_source"],
        **{key: described["folder"] for key, described in folders.items()},
    }
    answers = _run_scorer(job, options, [predictions for *_, predictions in pending])
    conditions = next(answers)
    for answer in answers:
        run, begun, predictions = pending[0]
        scores = answer["scores"]
        if len(scores) == len(predictions) and all(map(math.isfinite, scores)):
            record = {
                "metrics": {settings["metric"]: sum(scores) / len(scores)},
                "unit": UNIT,
                "ids": [row["id"] for row in predictions],
                "scores": scores,
                **folders,
                **conditions,
                "seconds": answer["seconds"],
            }
        else:
            record = {
                "not_scored": f"{options['checkpoint']}: its scores are not one finite number per "
                "prediction; check the origin of the checkpoint"
            }
        _write(run, record, begun)
        del pending[0]


def _write(run: Job, record: dict[str, Any], begun: str | None) -> None:
    """Write the record of a run, with what describes its evaluation; `begun` completes the run."""
    if "not_scored" in record:
        logger.warning("not scored: %s", record["not_scored"])
    file = Path(run["outputs"]["record"])
    predictions = Path(run["inputs"]["predictions"])
    evaluated = json.loads(predictions.with_name("record.json").read_text("utf-8"))
    keys = ("task", "kind", "cell", "checkpoint", "run")
    described = {key: evaluated[key] for key in keys if key in evaluated}
    described |= {"learned_metric": run["metric"], "metrics": {}, "settings": run["settings"]}
    write_json(file, described | record)
    if begun is not None:
        complete(run, begun, [file.name])


def _read_predictions(file: Path) -> list[Row]:
    rows = read_jsonl(file)
    if not rows:
        raise UserError(f"{file}: contains no predictions; evaluate this run again")
    missing = sorted({key for row in rows for key in ("id", *TEXTS) if key not in row})
    if missing:
        raise UserError(f"{file}: has no {missing[0]}")
    return rows


def _run_scorer(job: Job, options: dict[str, Any], runs: list[list[Row]]) -> Iterator[Row]:
    """Run the scorer; yields its device and versions, then `scores` and `seconds` of each run.

    Raises `UserError` if it cannot be run, ended before all was scored, or reports a failure.
    """
    python, answers = job["inputs"]["python"], 0
    # Isolated (-I): packages and paths of this environment do not affect the other one.
    command = [python, "-I", str(SCORER), json.dumps(options)]
    streams: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    try:
        process: Any = subprocess.Popen(command, **streams, env=_environment())
    except OSError as error:
        reason = f"{python}: cannot be run ({error.strerror}); run `make metrics`"
        raise UserError(reason) from None
    with process:
        try:
            with suppress(BrokenPipeError), process.stdin as texts:
                for number, predictions in enumerate(runs):
                    for row in predictions:
                        text = {"run": number, **{key: row[key] for key in TEXTS}}
                        texts.write(json.dumps(text) + "\n")
            for line in process.stdout:
                if not line.endswith("\n"):  # the process was killed while it wrote
                    break
                answer = json.loads(line)
                if "failed" in answer:
                    raise UserError(answer["failed"])
                yield answer
                answers += 1
        except BaseException:
            process.kill()
            raise
    if process.returncode or answers < 1 + len(runs):
        killed = "; it was killed, possibly because it ran out of memory"
        raise UserError(
            f"the scoring program exited with status {process.returncode}"
            f"{killed if process.returncode < 0 else ''}; see its log. Delete this record to score "
            "the run again"
        )


def _environment() -> dict[str, str]:
    """The scorer's environment: no hub, and only tensors are unpickled, in all libraries."""
    safe = {"HF_HUB_OFFLINE": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
    return {**os.environ, **safe, "TOKENIZERS_PARALLELISM": "false"}
