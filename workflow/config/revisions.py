"""Find the assets that settings read from the hub, and replace their branches by commits.

A study is opened with the commits that its results folder locks (`lexigraft.source.revision_lock`),
so that they are part of the description and card of every job that reads them.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.corpus.local_files import FORMATS
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
    if isinstance(settings, list | tuple):
        return [with_revisions(one, revision_of, hub) for one in settings]
    if not isinstance(settings, Mapping):
        return settings
    changed = {
        key: with_revisions(value, revision_of, "encoder" if key == "encoder" else hub)
        for key, value in settings.items()
    }
    if settings.get("loader") == "datasets":
        changed |= _of_data_set(settings, revision_of)
    for key, (kind, revision) in _KEYS.items():
        name = settings.get(key)
        if isinstance(name, str) and _is_hub_name(key, name, settings):
            asset = HubAsset(kind or hub, name, settings.get(revision))  # type: ignore[arg-type]
            changed |= _given(revision, revision_of(asset))
    return changed


def _given(key: str, revision: str | None) -> dict[str, str]:
    return {} if revision is None else {key: revision}


def _is_hub_name(key: str, name: str, settings: Mapping[str, Any]) -> bool:
    if key == "model" and settings.get("kind") == "fasttext":
        return False  # its training objective
    return not is_folder(name)


def _of_data_set(text: Mapping[str, Any], revision_of: Commit) -> dict[str, Any]:
    """The keys of a text that contain the revision of its data set, with the new revision."""
    name, files = text["name"], text.get("data_files") or ()
    patterns = (files,) if isinstance(files, str) else tuple(files)
    if name in FORMATS:  # the files may still be on the hub
        addresses = [_with_revision(pattern, revision_of) for pattern in patterns]
        return (
            {"data_files": addresses[0] if isinstance(files, str) else addresses} if files else {}
        )
    if is_folder(name) or Path(name).exists():
        return {}
    asset = HubAsset("data set", name, text.get("revision"), patterns)
    return _given("revision", revision_of(asset))


def _with_revision(address: str, revision_of: Commit) -> str:
    found = _ADDRESS.fullmatch(address)
    if not found:
        return address
    asset = HubAsset("data set", found["name"], found["revision"], (found["files"],))
    revision = revision_of(asset)
    return f"hf://datasets/{asset.name}@{revision}/{found['files']}" if revision else address
