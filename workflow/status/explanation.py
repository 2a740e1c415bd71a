"""Text that explains why a job would run, and how a cell is computed."""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workflow.stages import STAGES, Job, Study
from workflow.status.states import DONE, FAILED, QUEUED, RUNNING, STALE, State, reason, states

_LONGEST, _WIDTH = 72, 92  # characters of a value, and of a line
_MOST = 6  # maximum number of changes per job, and of examples per reason
_NOT_THERE = "has not run yet"
_LEFT_OUT = ("study", "sha256", "members")  # settings that are too long to show


def explain_study(study: Study, jobs: Mapping[str, Job]) -> str:
    """Why each unfinished job would run: the reasons, and the jobs of each."""
    found = states(study, jobs)
    by_reason: dict[tuple[str, str], list[Job]] = {}
    for card, job in jobs.items():
        if found[card].name != DONE:
            for why in _reasons(study, job, found) or [found[card].name]:
                by_reason.setdefault((job.rule, why), []).append(job)
    if not by_reason:
        return f"{study.name}: all {len(jobs)} jobs are done and up to date."
    lines = [f"{study.name}: what would run, and why", ""]
    for (rule, why), own in by_reason.items():
        lines.append(f"{rule} ({len(own)} of {_count(jobs, rule)}): {why}")
        if why != _NOT_THERE:
            lines += [f"    {_name(study, job)}" for job in own[:_MOST]]
            lines += [f"    … and {len(own) - _MOST} more"] if len(own) > _MOST else []
    return "\n".join(lines)


def explain_job(study: Study, jobs: Mapping[str, Job], card: str) -> str:
    """How an output is computed, step by step, and whether each step is done or why not."""
    found = states(study, jobs)
    job = jobs[card]
    lines = [f"{_name(study, job)}: {STAGES[job.rule].what}", ""]
    for number, step in enumerate(_steps(jobs, card), start=1):
        own = jobs[step]
        described = study.described(own.rule, own.output.wildcards)
        lines.append(f"{number}. {_name(study, own)}: {STAGES[own.rule].what}")
        lines += [f"     {text}" for text in _told(described, own)]
        state = found[step].name
        why = "" if state == DONE else ": " + "; ".join(_reasons(study, own, found))
        lines.append(f"     {state}{why}")
    return "\n".join(lines)


def _steps(jobs: Mapping[str, Job], card: str) -> list[str]:
    """The cards of all jobs that an output depends on, its own last."""
    wanted, waiting = set(), [card]
    while waiting:
        one = waiting.pop()
        if one in jobs and one not in wanted:
            wanted.add(one)
            waiting += jobs[one].needs
    # `jobs` is ordered by stage; within a stage, an input may come later.
    ordered: dict[str, None] = {}

    def visit(one: str) -> None:
        for need in jobs[one].needs:
            if need in wanted and need not in ordered:
                visit(need)
        ordered[one] = None

    for one in jobs:
        if one in wanted and one not in ordered:
            visit(one)
    return list(ordered)


def _told(described: Mapping[str, Any], job: Job) -> Iterator[str]:
    """A job's settings and the user's files that it reads."""
    settings = [
        f"{key}: {_short(value)}"
        for key, value in described["settings"].items()
        if value not in (None, "", [], {}, False) and key not in _LEFT_OUT
    ]
    yield from textwrap.wrap("; ".join(settings), _WIDTH)
    if job.files:
        yield f"reads {', '.join(job.files[:_MOST])}"


def _reasons(study: Study, job: Job, found: Mapping[str, State]) -> list[str]:
    """Why a job is not done, as predicates without a subject."""
    state = found[job.output.card]
    if state.name == RUNNING:
        return ["is running"]
    if state.name == FAILED:
        return [f"failed: {reason(job)} (log: {job.log})"]
    if state.name == QUEUED:
        return [_NOT_THERE]
    why = _changes(study, job)
    since = state.since or 0.0
    for card in job.needs:
        if card not in found:
            continue
        read = found[card]
        if read.name == STALE:
            why.append(f"reads {_folder(study, card)}, which is itself stale")
        elif read.name != DONE:
            why.append(f"reads {_folder(study, card)}, which is {read.name}")
        elif (read.since or 0.0) > since:
            why.append(f"reads {_folder(study, card)}, which has been recomputed since")
    more = [f"and {len(why) - _MOST} more changes"] if len(why) > _MOST else []
    return [*why[:_MOST], *more] or [state.name]


def _changes(study: Study, job: Job) -> list[str]:
    """How a job's description differs from that with which its output was created."""
    try:
        stored = json.loads(Path(job.output.card).read_text(encoding="utf-8")).get("job")
    except (OSError, ValueError, AttributeError):
        return ["has a card that cannot be read"]
    if stored is None:
        return []
    described = json.loads(json.dumps(study.described(job.rule, job.output.wildcards)))
    return list(_differences(stored, described))


def _differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    if old == new:
        return
    if key == "code":  # of results of lexigraft 0.2, which have no versions
        yield "was computed by lexigraft 0.2"
    elif key == "contents":
        for path in new:
            if (old or {}).get(path) != new[path]:
                yield f"reads {path}, whose content has changed"
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*new, *old]):
            where = f"{key}.{name}" if key else name
            yield from _differences(old.get(name), new.get(name), where)
    elif old is None:
        yield f"{key} is now {_short(new)}"
    elif new is None:
        yield f"{key} is no longer {_short(old)}"
    else:
        yield f"{key} was {_short(old)} and is now {_short(new)}"


def _short(value: Any) -> str:
    if isinstance(value, str | float):
        text = value if isinstance(value, str) else f"{value:g}"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _name(study: Study, job: Job) -> str:
    return job.output.removeprefix(f"{study.results}/")


def _folder(study: Study, card: str) -> str:
    return str(Path(card).parent).removeprefix(f"{study.results}/")


def _count(jobs: Mapping[str, Job], rule: str) -> int:
    return sum(job.rule == rule for job in jobs.values())
