"""How far each job of a study is, by what lies on disk: while Snakemake runs, and afterwards."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexigraft.completion import completed, fingerprint, is_held
from lexigraft.usage import DONE as ENDED_WELL
from lexigraft.usage import USAGE, read_usage
from workflow.stages import Job, Study

DONE, RUNNING, QUEUED, FAILED, STALE = "done", "running", "queued", "failed", "stale"
_ERROR = "error: "  # how the one-line error of a job's log begins
STATES = (DONE, RUNNING, QUEUED, FAILED, STALE)


@dataclass(frozen=True)
class State:
    """How far a job is, what each attempt took, and since when.

    `done`: complete and up to date. `running`: a process holds its folder. `failed`: begun as it is
    to be done now, and ended without its output. `stale`: complete, but its settings, its code or
    something that it reads has changed since. `queued`: all else. `since` is when the card was
    written, in seconds; of others when they began.
    """

    name: str
    since: float | None
    usage: list[dict[str, Any]]


def states(study: Study, jobs: Mapping[str, Job]) -> dict[str, State]:
    """Card -> state of each job; what a job reads must come before it."""
    found: dict[str, State] = {}
    for card, job in jobs.items():
        found[card] = _state(study, job, found)
    return found


def reason(job: Job) -> str:
    """Why a job failed: the error in its log, or its last line."""
    lines = _log(job)
    if errors := [line for line in lines if line.startswith(_ERROR)]:
        return errors[-1].removeprefix(_ERROR)
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return "it stopped without a message: killed, out of memory or out of time"


def _log(job: Job) -> list[str]:
    """The lines of a job's log that say anything."""
    try:
        lines = Path(job.log).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()]


def _state(study: Study, job: Job, found: Mapping[str, State]) -> State:
    folder, card = job.output, job.output.card
    written, begun = _changed(card), _changed(f"{folder}/job.json")
    usage = read_usage(folder) if written is not None or begun is not None else []
    if written is None:
        if is_held(folder):
            return State(RUNNING, begun, usage)
        # Also of a job that ended before it noted anything.
        refused = any(line.startswith(_ERROR) for line in _log(job))
        if begun is None:
            return State(FAILED if refused else QUEUED, None, usage)
        ended = _changed(f"{folder}/{USAGE}") or 0
        tried = ended < begun or not usage or usage[-1]["ended"] != ENDED_WELL or refused
        # Begun with other settings, it is still to be begun.
        failed = tried and _same(study, job, f"{folder}/job.json")
        return State(FAILED if failed else QUEUED, begun, usage)
    read = [found[card] for card in job.needs if card in found]
    fresh = (
        all(state.name == DONE for state in read)
        and _newest(state.since for state in read) <= written
        and _same(study, job, card)
    )
    if fresh and _newest(map(_changed, job.files)) > written:
        # As after `git clone`: they may say the same.
        described = study.described(job.rule, job.output.wildcards)
        found_there = completed(described)
        fresh = found_there is not None and found_there["fingerprint"] == fingerprint(described)
    return State(DONE if fresh else STALE, written, usage)


def _same(study: Study, job: Job, file: str) -> bool:
    """Whether a job was begun as it is to be done now.

    A package's card names no job: its version is in the folder's name.
    """
    try:
        stored = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if file.endswith("job.json"):
        stored = {"job": stored}
    described = study.described(job.rule, job.output.wildcards)
    return "job" not in stored or stored["job"] == json.loads(json.dumps(described))


def _changed(file: str) -> float | None:
    """When a file was changed, as Snakemake sees it: of a link, the link itself."""
    try:
        return Path(file).lstat().st_mtime
    except OSError:
        return None


def _newest(times: Iterable[float | None]) -> float:
    return max((time for time in times if time is not None), default=0.0)
