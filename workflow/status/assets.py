"""External assets that the jobs of a study read: from the hub, and the user's own files.

They are collected from the descriptions of the jobs, so that everything read is checked.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import folder_of
from lexigraft.artifacts.checksums import files_at
from lexigraft.source.hub_check import HubAsset
from lexigraft.source.revision_lock import lock
from workflow.config.revisions import assets_in
from workflow.stages.stage import STAGES, Output
from workflow.stages.study import Study


def hub_assets(study: Study, outputs: Iterable[Output] | None = None) -> list[HubAsset]:
    """What jobs read from the hub, each revision of each asset once, with its readers.

    `outputs` are those of the jobs, by default all jobs of the study. The tokenizer of a model that
    is read as well is not listed separately.
    """
    if outputs is None:
        outputs = (job.output for job in study.jobs().values())
    readers: dict[tuple[str, str, str | None], list[str]] = {}
    files: dict[tuple[str, str, str | None], list[tuple[str, ...]]] = {}
    for output in outputs:
        for reader, settings in _settings(study, output):
            for one in assets_in(settings, _OF_HUB.get(output.rule, "tokenizer")):
                key = (one.kind, one.name, one.revision)
                readers.setdefault(key, []).append(reader)
                files.setdefault(key, []).append(one.files)
    found = []
    for (kind, name, revision), named in readers.items():
        if kind == "tokenizer" and ("model", name, revision) in readers:
            continue
        patterns = files[kind, name, revision]
        # If one reader has no patterns, it may read any file.
        every = {pattern for some in patterns for pattern in some} if all(patterns) else ()
        where = ", ".join(dict.fromkeys(named))
        found.append(HubAsset(kind, name, revision, tuple(sorted(every)), where))  # type: ignore[arg-type]
    return found


def lock_revisions(study: Study, planned: Iterable[Output]) -> str:
    """Lock the commits of what planned jobs read from the hub; return a warning about unknown ones.

    The study's settings then contain these commits. Data sets of lm-evaluation-harness are locked
    by the jobs that copy them.
    """
    assets = [one for one in hub_assets(study, planned) if not one.is_pinned]
    if not assets:
        return ""
    locked = lock(study.results, assets)
    study.take_commits()
    left = sorted({one.name for one in assets if one.key not in locked})
    if not left:
        return ""
    return (
        f"no commit is known for {', '.join(left)}: the hub did not report one. Jobs read the "
        "version that they find; the next run that finds a commit repeats them"
    )


def web_files(study: Study) -> dict[str, str]:
    """URL of each file on the web that jobs of a study read -> its readers."""
    readers: dict[str, dict[str, None]] = {}
    for job in study.jobs().values():
        for reader, settings in _settings(study, job.output):
            for address in _addresses(settings):
                readers.setdefault(address, {})[reader] = None
    return {address: ", ".join(named) for address, named in readers.items()}


def local_files(study: Study) -> list[str]:
    """The user's files, folders and patterns that jobs of a study read, each once."""
    found: dict[str, None] = {}
    for job in study.jobs().values():
        found |= dict.fromkeys(map(folder_of, job.files))
    return [*found]


def missing_files(study: Study) -> list[str]:
    """The files among them that do not exist, and patterns that match none."""
    return [one for one in local_files(study) if not (Path(one).exists() or files_at(one))]


def _addresses(settings: Any) -> Iterator[str]:
    """The URLs among the files of data sets in settings."""
    if isinstance(settings, list | tuple):
        for one in settings:
            yield from _addresses(one)
    elif isinstance(settings, Mapping):
        files = settings.get("data_files") or ()
        for file in [files] if isinstance(files, str) else files:
            if file.startswith(("https://", "http://")):
                yield file
        for value in settings.values():
            yield from _addresses(value)


def _settings(study: Study, output: Output) -> Iterator[tuple[str, Any]]:
    """The name of a job as a reader, and its settings; for an evaluation also each task's."""
    if output.rule == "build_report":
        return  # its settings repeat the study
    described = STAGES[output.rule].describe(study, **output.wildcards)
    axes = (output.wildcards[axis] for axis in _NAMES if axis in output.wildcards)
    yield next(axes, output.rule), described["settings"]
    for task, own in described.get("tasks", {}).items():
        yield task, own["settings"]


# Wildcards that name a job for the user: its metric, initializer, task …; otherwise its rule.
_NAMES = ("metric", "initializer", "task", "benchmark", "vocabulary", "tokenizer", "language",
          "source")  # fmt: skip
_OF_HUB = {"prepare_source": "model", "encode_tokens": "encoder"}  # other rules read tokenizers
