"""Find the assets that settings read from the hub, and replace their branches by commits.

A study is opened with the commits that its results folder locks (`lexigraft.source.revision_lock`),
so that they are part of the description and card of every job that reads them.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.corpus.local_files import FORMATS
from lexigraft.settings import Settings
from lexigraft.source.hub_check import HubAsset, is_folder

# Key that names an asset on the hub -> its kind, and the key of its revision. The kind of `hub`
# depends on its reader.
_KEYS = {
    "hub": ("", "revision"),
    "tokenizer": ("tokenizer", "revision"),
    "rouge_tokenizer": ("pieces", "rouge_revision"),
    "model": ("model", "revision"),
    "hypernetwork": ("hypernetwork", "revision"),
    "checkpoint": ("metric", "revision"),
    "encoder": ("encoder", "encoder_revision"),
}
_ADDRESS = re.compile("hf://datasets/(?P<name>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?/(?P<files>.+)")
Commit = Callable[[HubAsset], str | None]


def with_commits(settings: Any, locked: Mapping[str, str]) -> Any:
    """Settings in which locked commits replace branches, tags and missing revisions."""
    if not locked:
        return settings
    return with_revisions(settings, lambda asset: locked.get(asset.key))


def assets_in(settings: Any, hub: str = "model") -> list[HubAsset]:
    """All assets that settings read from the hub; `hub` is the kind of those under a key `hub`."""
    found: list[HubAsset] = []
    with_revisions(settings, found.append, hub)
    return found


def with_revisions(settings: Any, revision_of: Commit, hub: str = "model") -> Any:
    """Settings in which each asset on the hub has the revision that a function returns.

    If it returns None, the revision is kept.
    """
    if isinstance(settings, Settings):
        values = settings.given()
        revised = with_revisions(values, revision_of, hub)
        update = {key: value for key, value in revised.items() if value != values.get(key)}
        return settings.model_copy(update=update) if update else settings
    if isinstance(settings, list | tuple):
        return type(settings)(with_revisions(value, revision_of, hub) for value in settings)
    if not isinstance(settings, Mapping):
        return settings
    changed = {
        key: with_revisions(value, revision_of, "encoder" if key == "encoder" else hub)
        for key, value in settings.items()
    }
    if settings.get("loader") == "datasets":
        changed |= _of_data_set(settings, revision_of)
    for key, (kind, revision_key) in _KEYS.items():
        name = settings.get(key)
        if not isinstance(name, str) or is_folder(name):
            continue
        if key == "model" and settings.get("kind") == "fasttext":
            continue  # its training objective
        asset = HubAsset(kind or hub, name, settings.get(revision_key))
        if revision := revision_of(asset):
            changed[revision_key] = revision
    return changed


def _of_data_set(text: Mapping[str, Any], revision_of: Commit) -> dict[str, Any]:
    """The keys of a text that contain the revision of its data set, with the new revision."""
    name, files = text["name"], text.get("data_files") or ()
    patterns = (files,) if isinstance(files, str) else tuple(files)
    if name not in FORMATS:
        if is_folder(name) or Path(name).exists():
            return {}
        revision = revision_of(HubAsset("data set", name, text.get("revision"), patterns))
        return {"revision": revision} if revision else {}
    addresses = []
    for pattern in patterns:  # the files may still be on the hub
        if found := _ADDRESS.fullmatch(pattern):
            asset = HubAsset("data set", found["name"], found["revision"], (found["files"],))
            if revision := revision_of(asset):
                pattern = f"hf://datasets/{asset.name}@{revision}/{found['files']}"
        addresses.append(pattern)
    return {"data_files": addresses[0] if isinstance(files, str) else addresses} if files else {}
