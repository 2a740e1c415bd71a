"""How far each work of a study is, by what lies on disk: while Snakemake runs, and afterwards."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexigraft.usage import DONE as ENDED_WELL
from lexigraft.usage import USAGE, read_usage
from workflow.at_work import is_held
from workflow.grid import Study
from workflow.jobs import described
from workflow.stages import Work

DONE, RUNNING, QUEUED, FAILED, STALE = "done", "running", "queued", "failed", "stale"
STATES = (DONE, RUNNING, QUEUED, FAILED, STALE)


@dataclass(frozen=True)
class State:
    """How far a work is.

    Attributes
    ----------
    name
        `done`: whole and up to date. `running`: a process holds its folder. `failed`: begun as it
        is to be done now, and ended without its output. `stale`: whole, but its settings, its code
        or something that it reads has changed since. `queued`: all else.
    since
        When the file that is written last was changed, in seconds; of others when they began.
    usage
        What each attempt took.
    """

    name: str
    since: float | None
    usage: list[dict[str, Any]]


def states(study: Study, works: Mapping[str, Work]) -> dict[str, State]:
    """Folder -> state of each work; what a work reads must come before it."""
    found: dict[str, State] = {}
    for folder, work in works.items():
        found[folder] = _state(study, work, found)
    return found


def reason(work: Work) -> str:
    """Why a work failed: the error in its log, or its last line."""
    if errors := _errors(work):
        return errors[-1]
    lines = _log(work)
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return "it stopped without a word: killed, out of memory or out of time"


def _errors(work: Work) -> list[str]:
    """The one-line errors in a work's log."""
    start = "error: "
    return [line.removeprefix(start) for line in _log(work) if line.startswith(start)]


def _log(work: Work) -> list[str]:
    """The lines of a work's log that say anything."""
    try:
        lines = Path(work.log).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()]


def _state(study: Study, work: Work, found: Mapping[str, State]) -> State:
    whole, begun = _changed(work.whole), _changed(f"{work.folder}/job.json")
    usage = read_usage(work.folder) if whole is not None or begun is not None else []
    if whole is None:
        if is_held(f"{work.folder}/.lock"):
            return State(RUNNING, begun, usage)
        refused = bool(_errors(work))  # also of a job that ended before it noted anything
        if begun is None:
            return State(FAILED if refused else QUEUED, None, usage)
        ended = _changed(f"{work.folder}/{USAGE}") or 0
        tried = ended < begun or not usage or usage[-1]["ended"] != ENDED_WELL or refused
        # Begun with other settings, it is still to be begun.
        failed = tried and _same(study, work, f"{work.folder}/job.json")
        return State(FAILED if failed else QUEUED, begun, usage)
    read = [found[folder] for folder in work.needs if folder in found]
    fresh = (
        all(state.name == DONE for state in read)
        and _newest(state.since for state in read) <= whole
        and _newest(map(_changed, work.files)) <= whole
        and _same(study, work, f"{work.folder}/job.json", f"{work.folder}/card.json")
    )
    return State(DONE if fresh else STALE, whole, usage)


def _same(study: Study, work: Work, *files: str) -> bool:
    """Whether a work was begun as it is to be done now, by the first of these files that is there.

    One that is there without them, such as a copy, counts as the same: nothing says otherwise.
    """
    for file in files:
        try:
            stored = json.loads(Path(file).read_text(encoding="utf-8"))
        except OSError:
            continue
        except ValueError:
            return False
        job = json.loads(json.dumps(described(study, work.rule, work.wildcards)))
        return stored.get("job", stored) == job
    return True


def _changed(file: str) -> float | None:
    """When a file was changed, as Snakemake sees it: of a link into a cache, the link itself."""
    try:
        return Path(file).lstat().st_mtime
    except OSError:
        return None


def _newest(times: Iterable[float | None] | Iterator[float | None]) -> float:
    return max((time for time in times if time is not None), default=0.0)
