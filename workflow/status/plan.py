"""A summary of what a run of a study would do: jobs by kind, hours, missing files, downloads."""

from collections import Counter
from collections.abc import Iterator, Mapping

from lexigraft.cells import AXES
from lexigraft.errors import UserError
from workflow.config.checks import check_local_files
from workflow.stages import STAGES, Job, Study
from workflow.status.cost import Cost, costs
from workflow.status.estimates import finished_in
from workflow.status.replacements import notice
from workflow.status.results_folder import sizes
from workflow.status.states import DONE, FAILED, STALE, State, states
from workflow.status.summary import aligned, duration

_PLURALS = {
    "source": ("source model", "source models"),
    "language": ("language", "languages"),
    "vocabulary": ("vocabulary", "vocabularies"),
    "initializer": ("initializer", "initializers"),
    "strategy": ("strategy", "strategies"),
    "seed": ("seed", "seeds"),
}
_MARKS = {
    "≈": "≈ is estimated by the cost model",
    "≤": "≤ is a time limit, since no similar job has finished; most jobs take far less",
}


def as_text(study: Study, file: str) -> str:
    """The plan for a terminal; `file` is the study's file."""
    jobs = study.jobs()
    found = states(study, jobs)
    todo = {card: job for card, job in jobs.items() if found[card].name != DONE}
    lines = [_headline(study), ""]
    if not todo:
        return "\n".join([*lines, f"Nothing to do: all {len(jobs)} jobs are done and up to date."])
    known = finished_in(study, sizes(study.results))
    by_rule = costs(study, todo.values(), known)
    lines += [*_table(jobs, todo, by_rule), ""]
    lines += _facts(found, by_rule, known.planning_device(study))
    lines += _downloads(study, todo, file)
    if replaced := notice(study, [job.output for job in todo.values()]):
        lines += ["", replaced]
    try:
        check_local_files(study.config)
    except UserError as error:
        return "\n".join([*lines, "", f"Missing, and needed before the first job: {error}"])
    return "\n".join([*lines, "", f"To run it: lexigraft run {file}"])


def _headline(study: Study) -> str:
    title = f" ({study.config['title']})" if study.config["title"] else ""
    if not study.cells:
        return f"{study.name}{title}: tokenizers only, no cells"
    parts = []
    for axis in AXES:
        count = len({getattr(cell, axis) for cell in study.cells})
        parts.append(f"{count} {_PLURALS[axis][count > 1]}")
    count = len(study.cells)
    return f"{study.name}{title}: {count} cell{'s' * (count > 1)} of {', '.join(parts)}"


def _table(
    jobs: Mapping[str, Job], todo: Mapping[str, Job], by_rule: Mapping[str, Cost]
) -> list[str]:
    """A line for each kind of job, with its output."""
    every = Counter(job.rule for job in jobs.values())
    left = Counter(job.rule for job in todo.values())
    rows = [("", "to do", "of", "time")]
    total = Cost()
    for rule, cost in by_rule.items():
        total.add(cost)
        rows.append((rule, str(left[rule]), str(every[rule]), _time(cost)))
    rows.append(("all", str(len(todo)), str(len(jobs)), _time(total)))
    made = ["", *(STAGES[rule].what for rule in by_rule), ""]
    return [f"{row}  {what}".rstrip() for row, what in zip(aligned(rows), made, strict=True)]


def _time(cost: Cost) -> str:
    """Estimated time, plus the time limits of jobs without an estimate."""
    parts = []
    if cost.job_hours:
        parts.append(("≈ " if cost.modelled else "") + duration(cost.job_hours))
    if cost.most_job_hours:
        parts.append(f"≤ {duration(cost.most_job_hours)}")
    return " + ".join(parts) or "·"


def _facts(found: Mapping[str, State], by_rule: Mapping[str, Cost], device: str) -> Iterator[str]:
    shown = "".join(map(_time, by_rule.values()))
    marks = [text for mark, text in _MARKS.items() if mark in shown]
    if marks:
        yield (
            f"Times are for running the jobs one after another on {device} (set LEXIGRAFT_DEVICE "
            f"for another device): {'; '.join(marks)}."
        )
    names = Counter(state.name for state in found.values())
    changed = "finished, but something has changed since"
    for name, why in ((STALE, changed), (FAILED, "failed before")):
        if count := names[name]:
            yield f"{count} of these jobs {why}; `lexigraft explain` shows the details."


def _downloads(study: Study, todo: Mapping[str, Job], file: str) -> Iterator[str]:
    """Packages and source models to download, and the command that lists the rest."""
    packages = [
        job.output.rsplit("/", 1)[-1] for job in todo.values() if job.rule == "fetch_package"
    ]
    sources = (job.output.wildcards for job in todo.values() if job.rule == "prepare_source")
    entries = (study.config["sources"][wildcards["source"]] for wildcards in sources)
    hub = [entry["hub"] for entry in entries if entry.get("hub")]
    if packages:
        yield f"Downloads packages: {', '.join(packages)}."
    if hub:
        yield (
            f"Downloads source models from the Hugging Face hub: {', '.join(hub)}. To check data "
            f"sets and other models: lexigraft doctor --study {file}"
        )
