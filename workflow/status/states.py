"""The state of each job of a study, from the files on disk, during or after a run."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexigraft.artifacts.completion import is_held
from lexigraft.usage import DONE as ENDED_WELL
from lexigraft.usage import USAGE, read_usage
from workflow.stages import Job, Study

DONE, RUNNING, QUEUED, FAILED, STALE = "done", "running", "queued", "failed", "stale"
_ERROR = "error: "  # prefix of the one-line error in a job's log
STATES = (DONE, RUNNING, QUEUED, FAILED, STALE)


@dataclass(frozen=True)
class State:
    """The state of a job, its start or end time, and the usage of each attempt.

    `done`: complete and up to date. `running`: a process has locked its folder. `failed`: started
    with its current settings, and ended without its output. `stale`: complete, but its settings,
    its code or one of its inputs has changed since. `queued`: everything else. `since` is the time
    when the card was written, in seconds; for jobs without a card, when they started.
    """

    name: str
    since: float | None
    usage: list[dict[str, Any]]


def states(study: Study, jobs: Mapping[str, Job]) -> dict[str, State]:
    """Card -> state of each job; a job's inputs must come before it in `jobs`."""
    found: dict[str, State] = {}
    for card, job in jobs.items():
        found[card] = _state(study, job, found)
    return found


def reason(job: Job) -> str:
    """Why a job failed: the error in its log, or the last line of a traceback."""
    lines = _log(job)
    if errors := [line for line in lines if line.startswith(_ERROR)]:
        return errors[-1].removeprefix(_ERROR)
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return "it stopped without a message: killed, out of memory or out of time"


def _log(job: Job) -> list[str]:
    """The non-empty lines of a job's log."""
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
        # This also covers a job that ended before it recorded anything.
        refused = any(line.startswith(_ERROR) for line in _log(job))
        if begun is None:
            return State(FAILED if refused else QUEUED, None, usage)
        ended = _changed(f"{folder}/{USAGE}") or 0
        tried = ended < begun or not usage or usage[-1]["ended"] != ENDED_WELL or refused
        # If it was started with other settings, it is still queued.
        failed = tried and _same(study, job, f"{folder}/job.json")
        return State(FAILED if failed else QUEUED, begun, usage)
    read = [found[card] for card in job.needs if card in found]
    fresh = (  # the description holds the checksums of the user's files
        all(state.name == DONE for state in read)
        and _newest(state.since for state in read) <= written
        and _same(study, job, card)
    )
    return State(DONE if fresh else STALE, written, usage)


def _same(study: Study, job: Job, file: str) -> bool:
    """Whether a job was started with its current description.

    A package's card contains no job: its version is in the folder's name.
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
    """The modification time of a file as Snakemake sees it: for a link, that of the link itself."""
    try:
        return Path(file).lstat().st_mtime
    except OSError:
        return None


def _newest(times: Iterable[float | None]) -> float:
    return max((time for time in times if time is not None), default=0.0)
