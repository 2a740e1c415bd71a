"""The states of a study's jobs, as texts for `status`, `plan`, `explain` and before a run.

Snakemake says which jobs exist (`workflow.jobs`). Whether a job is done is decided by its
completion record (`lexigraft.artifacts.completion`), as the job itself would decide.
"""

import fcntl
import json
import os
import re
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from lexigraft.artifacts.cards import leaves, read_record, record_file
from lexigraft.artifacts.completion import (
    changed_inputs,
    fingerprint,
    input_checksum,
    is_held,
    keeps_replaced,
)
from lexigraft.cells import AXES, PLURALS
from lexigraft.errors import UserError
from lexigraft.training.progress import describe_progress
from lexigraft.usage import DONE as SUCCEEDED
from lexigraft.usage import USAGE, read_usage
from workflow.config.checks import check_local_files
from workflow.cost import CostModel, JobCosts, aligned, costs_by_rule
from workflow.jobs import Job
from workflow.study import Study

DONE, RUNNING, QUEUED, FAILED, STALE = "done", "running", "queued", "failed", "stale"
STATES = (DONE, RUNNING, QUEUED, FAILED, STALE)
# How Snakemake names the log of a failed job.
_FAILED = re.compile(r"^Error in rule \w+:.*?^\s+log: ([^\n]+?)(?: \(check|$)", re.M | re.S)
_ERROR = "error: "  # prefix of the one-line error in a job's log
_LISTED, _NAMED = 20, 3  # maximum numbers of jobs in a list, and of cells in a sentence
_CHANGES = 6  # maximum number of changes per job, and of examples per reason
_LONGEST, _WIDTH = 72, 92  # characters of a value, and of a line
_NOT_RUN = "has not run yet"
_TOO_LONG = ("study", "sha256", "members")  # settings that `explain` leaves out


@dataclass(frozen=True)
class State:
    """The state of a job.

    `done`: complete and up to date. `running`: a process has locked its folder. `failed`: started
    with its current description, and ended without its output. `stale`: complete, but something it
    depends on has changed since. `queued`: everything else.

    `since` is the time in seconds at which it was completed or, for others, started. `usage` has a
    line for each attempt (`lexigraft.usage`). `record` is the completion record, if there is one.
    """

    name: str
    since: float | None
    usage: list[dict[str, Any]]
    record: dict[str, Any] | None = None


def states(jobs: Mapping[str, Job]) -> dict[str, State]:
    """Card -> state of each job; a job's inputs must come before it in `jobs`."""
    known: dict[str, State] = {}
    checksum = cache(input_checksum)  # many jobs read the same outputs
    for card, job in jobs.items():
        record = read_record(card)
        if record is None:
            known[card] = _unfinished(job)
            continue
        inputs = [path for path in job.inputs if path in known]
        since = record_file(card).stat().st_mtime
        is_done = all(known[path].name == DONE for path in inputs)
        if is_done and record.get("finds_inputs"):
            # Only its script knows all of its inputs; reading them takes as long as the job.
            newest = max((known[path].since or 0.0 for path in inputs), default=0.0)
            is_done = newest <= since and not _has_changed(job, record)
        elif is_done and all(map(os.path.exists, inputs)):
            # A plan has the checksums of the user's files, and remembers those of missing ones.
            checksums = job.description.get("contents", {})

            def content(path: str, checksums: Mapping[str, str] = checksums) -> str:
                return checksums.get(path) or checksum(path)

            current = fingerprint(job.description, content)
            is_done = current == record["fingerprint"]
        elif is_done:  # Snakemake has deleted a card, which the job that wrote it will restore
            is_done = not _has_changed(job, record)
        known[card] = State(DONE if is_done else STALE, since, read_usage(job.folder), record)
    return known


def _has_changed(job: Job, record: Mapping[str, Any]) -> bool:
    return any(differences(record["card"].get("job", {}), job.description))


def _unfinished(job: Job) -> State:
    """The state of a job without a completion record."""
    started, usage = _modified(f"{job.folder}/job.json"), read_usage(job.folder)
    if is_held(job.folder):
        return State(RUNNING, started, usage)
    # A job may also end before it records anything.
    is_refused = any(line.startswith(_ERROR) for line in _lines(job.log))
    if started is None:
        return State(FAILED if is_refused else QUEUED, None, usage)
    was_killed = (_modified(f"{job.folder}/{USAGE}") or 0.0) < started or not usage
    if is_refused or was_killed or usage[-1]["ended"] != SUCCEEDED:
        # If it was started with another description, it is still queued.
        with suppress(OSError, ValueError):
            description = Path(job.folder, "job.json").read_text(encoding="utf-8")
            if json.loads(description) == job.description:
                return State(FAILED, started, usage)
    return State(QUEUED, started, usage)


def failure(log: str) -> str:
    """Why a job failed: the error in its log, or the last line of a traceback."""
    lines = _lines(log)
    if errors := [line for line in lines if line.startswith(_ERROR)]:
        return errors[-1].removeprefix(_ERROR)
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return "it stopped without a message: killed, out of memory or out of time"


def failures(output: str) -> list[str]:
    """Why jobs failed, from what Snakemake wrote: each error in their logs once, with a log."""
    logs: dict[str, dict[str, None]] = {}
    for files in _FAILED.findall(output):
        log = files.partition(", ")[0]  # the job's own; Slurm's follows
        logs.setdefault(failure(log), {})[log] = None
    counts = {error: f"{len(each)} jobs, " * (len(each) > 1) for error, each in logs.items()}
    return [f"{error} ({counts[error]}see {Path(min(logs[error])).resolve()})" for error in logs]


def _lines(log: str) -> list[str]:
    """The non-empty lines of a log; none if it does not exist."""
    try:
        text = Path(log).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.split("\n") if line.strip()]


def _modified(file: str) -> float | None:
    with suppress(OSError):
        return Path(file).stat().st_mtime
    return None


def status_text(study: Study, jobs: Mapping[str, Job], device: str) -> str:
    """How far a study is, for a terminal; the time left is estimated for `device`.

    Resources used so far include failed attempts, but not killed ones, which are not recorded.
    """
    now, known = time.time(), states(jobs)
    model = CostModel(study, device, jobs.values())
    counts: dict[str, Counter[str]] = {}
    for card, job in jobs.items():
        counts.setdefault(job.rule, Counter())[known[card].name] += 1
    rows: list[Sequence[str]] = [("", *STATES, "all")]
    for rule, count in counts.items():
        rows.append((rule, *(str(count[state] or "·") for state in STATES), str(count.total())))
    unfinished = [job for card, job in jobs.items() if known[card].name != DONE]
    lines = [headline(study, unfinished), "", *aligned(rows), ""]
    visible = "No run of this study is visible from this machine."
    lines.append("Snakemake is running this study." if is_at_work(study) else visible)
    attempts = [line for state in known.values() for line in state.usage]
    size = sum(map(_bytes_in, {job.folder for job in jobs.values()}))
    lines.append(f"So far: {_hours(attempts)}, {size / 1e9:.1f} GB.")
    running, failed = [], []
    for card, job in jobs.items():
        state, name = known[card], _name(study, job.folder)
        if state.name == RUNNING:
            since = state.since or now
            # An older log is from an earlier attempt, which has not been resumed yet.
            logs = Path(job.folder).glob("checkpoints/*/log.jsonl")
            current = [log for log in logs if (_modified(str(log)) or 0.0) >= since]
            progress = describe_progress(current[0]) if current else ""
            running.append((now - since, name, f"\n    {progress}" if progress else ""))
        elif state.name == FAILED:
            failed.append(f"  {name}: {failure(job.log)}\n    {job.log}")
    total = sum(costs_by_rule(model, unfinished).values(), JobCosts())
    hours = duration((total.job_hours + total.most_job_hours) / (len(running) or 1))
    at_a_time = f"{len(running)} at a time" if running else "one after another"
    to_do = f"To do: {len(unfinished)} job{'s' * (len(unfinished) > 1)}, about {hours} {at_a_time}."
    lines.append(to_do if unfinished else "Nothing to do.")
    listed = [
        f"  {name}, {duration(age / 3600)}{progress}"
        for age, name, progress in sorted(running, reverse=True)
    ]
    for title, entries in (("Running:", listed), ("Failed:", failed)):
        if entries:
            lines += ["", title, *entries[:_LISTED]]
            lines += [f"  … and {len(entries) - _LISTED} more"] * (len(entries) > _LISTED)
    return "\n".join(lines)


def plan_text(study: Study, file: str, jobs: Mapping[str, Job], device: str) -> str:
    """What a run of the study in a file would do, for a terminal."""
    known = states(jobs)
    unfinished = {card: job for card, job in jobs.items() if known[card].name != DONE}
    lines = [headline(study), ""]
    if not unfinished:
        return "\n".join([*lines, f"Nothing to do: all {len(jobs)} jobs are done and up to date."])
    model = CostModel(study, device, jobs.values())
    costs = costs_by_rule(model, unfinished.values())
    totals = Counter(job.rule for job in jobs.values())
    rows: list[Sequence[str]] = [("", "to do", "of", "time")]
    for rule, cost in costs.items():
        rows.append((rule, str(cost.jobs), str(totals[rule]), _time(cost)))
    total = sum(costs.values(), JobCosts())
    rows.append(("all", str(total.jobs), str(len(jobs)), _time(total)))
    lines += [*aligned(rows), ""]
    marks = ["≈ is estimated"] * bool(total.job_hours)
    marks += ["≤ is a time limit; most jobs take far less"] * bool(total.most_job_hours)
    if marks:
        lines.append(
            f"Times are for running the jobs one after another on {device} (set LEXIGRAFT_DEVICE "
            f"for another device): {'; '.join(marks)}."
        )
    counts = Counter(state.name for state in known.values())
    changed = "finished, but something has changed since"
    lines += [
        f"{counts[state]} of these jobs {predicate}; `lexigraft explain` shows the details."
        for state, predicate in ((STALE, changed), (FAILED, "failed before"))
        if counts[state]
    ]
    named = [(job.rule, *job.wildcards.values()) for job in unfinished.values()]
    if packages := [names[0] for rule, *names in named if rule == "fetch_package"]:
        lines.append(f"Downloads packages: {', '.join(packages)}.")
    sources = [study.sources[names[0]] for rule, *names in named if rule == "prepare_source"]
    if models := [source.hub for source in sources if source.hub]:
        lines.append(
            f"Downloads source models from the Hugging Face hub: {', '.join(models)}."
            f" To check data sets and other models: lexigraft doctor --study {file}"
        )
    if notice := replacement_notice(study, unfinished):
        lines += ["", notice]
    try:
        check_local_files(study)
    except UserError as error:
        return "\n".join([*lines, "", f"Missing, and needed before the first job: {error}"])
    return "\n".join([*lines, "", f"To run it: lexigraft run {file}"])


def _time(cost: JobCosts) -> str:
    """Estimated time, plus the time limits of jobs without an estimate."""
    parts = [f"≈ {duration(cost.job_hours)}"] * bool(cost.job_hours)
    parts += [f"≤ {duration(cost.most_job_hours)}"] * bool(cost.most_job_hours)
    return " + ".join(parts) or "·"


def headline(study: Study, unfinished: Sequence[Job] | None = None) -> str:
    """The study and the number of its cells, or of those of which no job is unfinished."""
    title = study.name + (f" ({study.settings.title})" if study.settings.title else "")
    cells = [cell.wildcards for cell in study.cells]
    if not cells:
        return f"{title}: tokenizers only, no cells"
    if unfinished is not None:
        names = {tuple(job.wildcards.get(axis) for axis in AXES) for job in unfinished}
        finished = sum(tuple(cell[axis] for axis in AXES) not in names for cell in cells)
        return f"{title}: {finished} of {len(cells)} cells finished"
    parts = []
    for axis, plural in PLURALS.items():
        count = len({cell[axis] for cell in cells})
        noun = plural if count > 1 else axis
        parts.append(f"{count} {noun.replace('source', 'source model')}")
    return f"{title}: {len(cells)} cell{'s' * (len(cells) > 1)} of {', '.join(parts)}"


def duration(hours: float) -> str:
    """Hours as text, in minutes, hours or days."""
    if hours < 1:
        minutes = max(1, round(hours * 60))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def _hours(attempts: Sequence[Mapping[str, Any]]) -> str:
    job_hours = sum(line["seconds"] for line in attempts) / 3600
    gpu_hours = sum(line["seconds"] * line.get("gpus", 0) for line in attempts) / 3600
    return f"{gpu_hours:.1f} GPU-hours and {job_hours:.1f} job-hours"


def _bytes_in(folder: str) -> int:
    """Bytes of the files in an output folder, without subfolders of other jobs and links."""
    size = 0
    for parent, folders, files in os.walk(folder):
        if parent != folder and "job.json" in files:
            folders.clear()
            continue
        for name in files:
            path = Path(parent, name)
            with suppress(OSError):  # just deleted, such as a temporary file
                size += 0 if path.is_symlink() else path.stat().st_size
    return size


def explain_study(study: Study, jobs: Mapping[str, Job]) -> str:
    """Why each unfinished job would run: the reasons, and the jobs of each."""
    known = states(jobs)
    by_reason: dict[tuple[str, str], list[Job]] = {}
    for card, job in jobs.items():
        if known[card].name != DONE:
            for reason in _reasons(study, job, known):
                by_reason.setdefault((job.rule, reason), []).append(job)
    if not by_reason:
        return f"{study.name}: all {len(jobs)} jobs are done and up to date."
    totals = Counter(job.rule for job in jobs.values())
    lines = [f"{study.name}: what would run, and why", ""]
    for (rule, reason), affected in by_reason.items():
        lines.append(f"{rule} ({len(affected)} of {totals[rule]}): {reason}")
        if reason != _NOT_RUN:
            lines += [f"    {_name(study, job.folder)}" for job in affected[:_CHANGES]]
            more = len(affected) - _CHANGES
            lines += [f"    … and {more} more"] if more > 0 else []
    return "\n".join(lines)


def explain_job(study: Study, jobs: Mapping[str, Job], card: str) -> str:
    """How an output is computed, step by step, and whether each step is done or why not."""
    needed = {card}
    for step in reversed(list(jobs)):  # inputs come before the jobs that read them
        if step in needed:
            needed.update(jobs[step].inputs)
    jobs = {step: job for step, job in jobs.items() if step in needed}
    known = states(jobs)
    lines = [f"{_name(study, jobs[card].folder)}: {jobs[card].message or jobs[card].rule}", ""]
    for number, (step, job) in enumerate(jobs.items(), start=1):
        lines.append(f"{number}. {_name(study, job.folder)}: {job.message or job.rule}")
        settings = [
            f"{key}: {_short(value)}"
            for key, value in job.description.get("settings", {}).items()
            if value not in (None, "", [], {}, False) and key not in _TOO_LONG
        ]
        lines += [f"     {text}" for text in textwrap.wrap("; ".join(settings), _WIDTH)]
        if files := list(job.description.get("contents", ())):
            lines.append(f"     reads {', '.join(files[:_CHANGES])}")
        state = known[step].name
        reasons = "" if state == DONE else ": " + "; ".join(_reasons(study, job, known))
        lines.append(f"     {state}{reasons}")
    return "\n".join(lines)


def _reasons(study: Study, job: Job, known: Mapping[str, State]) -> list[str]:
    """Why a job is not done, as predicates without a subject."""
    state = known[job.card]
    if state.name == RUNNING:
        return ["is running"]
    if state.name == FAILED:
        return [f"failed: {failure(job.log)} (log: {job.log})"]
    if state.name == QUEUED or state.record is None:
        return [_NOT_RUN]
    reasons = list(differences(state.record["card"].get("job", {}), job.description))
    for card in job.inputs:
        if card in known and known[card].name != DONE:
            name = known[card].name
            reasons.append(f"reads {_name(study, str(Path(card).parent))}, which is {name}")
    for path in changed_inputs(state.record["card"], Path(job.folder)):
        reasons.append(f"reads {_name(study, path)}, whose content has changed since")
    more = len(reasons) - _CHANGES
    reasons = reasons[:_CHANGES] + ([f"and {more} more changes"] if more > 0 else [])
    return reasons or ["reads something that has changed since"]


def differences(recorded: Any, planned: Any, key: str = "") -> Iterator[str]:
    """How the description of a job differs from that with which its output was created."""
    if recorded == planned or key in ("inputs", "outputs"):
        return  # inputs are compared by content
    if key == "code":
        yield "was computed by lexigraft 0.2, whose results have no versions"
    elif key == "contents":
        for path, checksum in planned.items():
            if (recorded or {}).get(path) != checksum:
                yield f"reads {path}, whose content has changed"
    elif isinstance(recorded, Mapping) and isinstance(planned, Mapping):
        for name in dict.fromkeys([*planned, *recorded]):
            path = f"{key}.{name}" if key else name
            yield from differences(recorded.get(name), planned.get(name), path)
    elif recorded is None:
        yield f"{key} is now {_short(planned)}"
    elif planned is None:
        yield f"{key} is no longer {_short(recorded)}"
    else:
        yield f"{key} was {_short(recorded)} and is now {_short(planned)}"


def _short(value: Any) -> str:
    if isinstance(value, str | float):
        text = value if isinstance(value, str) else f"{value:g}"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _name(study: Study, path: str) -> str:
    return path.removeprefix(f"{study.results}/")


def replaced_jobs(jobs: Mapping[str, Job]) -> dict[str, State]:
    """Card -> state of the finished jobs among planned ones that a run will compute again.

    An upper bound: an input may be recomputed with the same content. Excluded are jobs without
    resources, which take seconds, and jobs whose scripts find their inputs: they only score new
    predictions.
    """
    known = states(jobs)
    return {
        card: state
        for card, state in known.items()
        if state.name == STALE
        and state.record is not None
        and jobs[card].memory_mb
        and not state.record.get("finds_inputs")
        and not _only_adds_runs(jobs[card], state.record, known)
    }


def replacement_notice(study: Study, jobs: Mapping[str, Job]) -> str:
    """What a run will compute again, and what that took, in two lines; empty if it is nothing."""
    replaced = replaced_jobs(jobs)
    if not replaced:
        return ""
    attempts: list[dict[str, Any]] = []
    for card, state in replaced.items():
        # Those that made the output: the successful attempt, and failed ones before it. Attempts of
        # an evaluation complement each other.
        usage = state.usage
        if "tasks" not in jobs[card].description:
            ended = [number for number, line in enumerate(usage, 1) if line["ended"] == SUCCEEDED]
            usage = usage[max((number for number in ended if number < len(usage)), default=0) :]
        attempts += usage
    rules = Counter(jobs[card].rule for card in replaced).items()
    lines = [
        f"Settings, versions or texts have changed: this run replaces up to {len(replaced)} "
        f"finished jobs, which took {_hours(attempts)} "
        f"({', '.join(f'{rule}: {count}' for rule, count in rules)})."
    ]
    cells = [card for card in replaced if "replaced" in jobs[card].description["outputs"]]
    if cells:
        names = ", ".join(_name(study, jobs[card].folder) for card in cells[:_NAMED])
        more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
        size = sum(_bytes_in(jobs[card].folder) for card in cells) / 1e9
        kept = f"are moved to {study.results}/replaced ({size:.1f} GB)"
        lines.append(
            f"Cells that are trained again {kept if keeps_replaced() else 'are not kept'}: "
            f"{names}{more}. See docs/status.md."
        )
    return "\n".join(lines)


def _only_adds_runs(job: Job, record: Mapping[str, Any], known: Mapping[str, State]) -> bool:
    """Whether an evaluation only gets tasks and runs that it did not have."""
    old, new = record["card"].get("job", {}).get("tasks", {}), job.description.get("tasks", {})
    common = [task for task in new if task in old]
    if not common or any(new[task] | {"runs": 0} != old[task] | {"runs": 0} for task in common):
        return False
    read = [job.description["inputs"]["cell"]]
    read += [job.description["inputs"]["read"][task] for task in common]
    folders = {Path(card).parent for card, state in known.items() if state.name != DONE}
    paths = [Path(path) for path in leaves(read)]
    return not any(path in folders or path.parent in folders for path in paths)


def check_writable(results: str) -> None:
    """Create the results folder if necessary; a UserError if files cannot be created in it."""
    try:
        Path(results).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=results).close()
    except OSError as error:
        raise UserError(
            f"{results}: results cannot be written there ({error.strerror}); existing ones are "
            "unchanged"
        ) from None


_held: list[IO[str]] = []  # open until the process ends


def hold(study: Study) -> None:
    """Show, until this process ends, that it works on the study, by the lock of a file.

    The kernel releases the lock when the process ends for any reason. Without locks, nothing is
    shown; if the results folder cannot be written, the run itself reports it.
    """
    path = _lock_file(study)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
        _held.append(file)
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def is_at_work(study: Study) -> bool:
    """Whether a process works on the study, as far as this machine can see."""
    try:
        # Opened for writing too: otherwise NFS grants no exclusive lock.
        with _lock_file(study).open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _lock_file(study: Study) -> Path:
    return Path(study.results) / "status" / f"{study.name}.lock"
