"""What the jobs of a study read from outside: from the hub, and from the user's own files.

It is found in the descriptions of the jobs, so that nothing is read that is not checked.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.completion import leaves
from lexigraft.source.hub import is_folder
from lexigraft.source.hub_check import HubAsset
from workflow.stages.stage import STAGES, Output
from workflow.stages.study import Study

_FORMATS = ("text", "json", "csv", "parquet")  # `datasets` reads files of these, of no data set
_ADDRESS = re.compile("hf://datasets/(?P<name>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?/(?P<files>.+)")


def hub_assets(study: Study) -> list[HubAsset]:
    """What a study reads from the hub, each revision of each once, with what it is read for.

    A tokenizer of a model that is read as well is not listed by itself.
    """
    readers: dict[tuple[str, str, str | None], list[str]] = {}
    files: dict[tuple[str, str, str | None], list[tuple[str, ...]]] = {}
    for job in study.jobs().values():
        rule, wildcards = job.output.rule, job.output.wildcards
        if rule == "build_report":
            continue  # whose settings repeat the study
        settings = STAGES[rule].describe(study, **wildcards)["settings"]
        reader = next((wildcards[axis] for axis in _NAMES if axis in wildcards), rule)
        for one in _assets(settings, rule):
            key = (one.kind, one.name, one.revision)
            readers.setdefault(key, []).append(reader)
            files.setdefault(key, []).append(one.files)
    found = []
    for (kind, name, revision), named in readers.items():
        if kind == "tokenizer" and ("model", name, revision) in readers:
            continue
        patterns = files[kind, name, revision]
        # Where one reader takes what there is, the patterns of the others say too little.
        every = {pattern for some in patterns for pattern in some} if all(patterns) else ()
        where = ", ".join(dict.fromkeys(named))
        found.append(HubAsset(kind, name, revision, tuple(sorted(every)), where))  # type: ignore[arg-type]
    return found


def missing_files(study: Study) -> list[str]:
    """The user's files that jobs of a study read and that are not there, each once."""
    found: dict[str, None] = {}
    for job in study.jobs().values():
        inputs = STAGES[job.output.rule].describe(study, **job.output.wildcards)["inputs"]
        for one in leaves(inputs):
            if isinstance(one, str) and not isinstance(one, Output) and not Path(one).exists():
                found[one] = None
    return [one for one in found if one != study.metrics_python]


# Wildcards by which a reader knows a job.
_NAMES = ("metric", "initializer", "task", "benchmark", "vocabulary", "tokenizer", "language",
          "source")  # fmt: skip


_OF_HUB = {"prepare_source": "model", "encode_tokens": "encoder"}


def _assets(settings: Any, rule: str) -> Iterator[HubAsset]:
    """Every mention of the hub in settings, by the keys that name one."""
    if isinstance(settings, list | tuple):
        for one in settings:
            yield from _assets(one, rule)
    if not isinstance(settings, Mapping):
        return
    kinds = {
        "hub": _OF_HUB.get(rule, "tokenizer"),
        "tokenizer": "tokenizer",
        "rouge_tokenizer": "tokenizer",
        "model": "model",
        "hypernetwork": "hypernetwork",
        "checkpoint": "metric",
        "encoder": "encoder",
    }
    if settings.get("loader") == "datasets":
        yield from _data_set(settings)
    for key, kind in kinds.items():
        name = settings.get(key)
        if isinstance(name, str) and _is_hub_name(key, name, settings):
            revision = settings.get("encoder_revision" if key == "encoder" else "revision")
            yield HubAsset(kind, name, revision)  # type: ignore[arg-type]
    for key, value in settings.items():
        if key == "encoder" and isinstance(value, Mapping) and "hub" in value:
            yield HubAsset("encoder", value["hub"], value.get("revision"))
        else:
            yield from _assets(value, rule)


def _is_hub_name(key: str, name: str, settings: Mapping[str, Any]) -> bool:
    if key == "model" and settings.get("kind") == "fasttext":
        return False  # its training objective
    return not is_folder(name)


def _data_set(text: Mapping[str, Any]) -> Iterator[HubAsset]:
    name, files = text["name"], text.get("data_files") or ()
    patterns = (files,) if isinstance(files, str) else tuple(files)
    if name in _FORMATS:  # whose files may be on the hub all the same
        for found in filter(None, map(_ADDRESS.fullmatch, patterns)):
            yield HubAsset("data set", found["name"], found["revision"], (found["files"],))
    elif not is_folder(name) and not Path(name).exists():
        yield HubAsset("data set", name, text.get("revision"), patterns)
