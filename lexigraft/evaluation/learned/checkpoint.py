"""The kinds of learned metrics, and the files of a metric on this machine or on the hub.

The Snakefile imports this module each time it is parsed: huggingface_hub, which takes long, is
imported where the hub is asked.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from lexigraft.artifacts.cards import describe_file
from lexigraft.artifacts.checksums import file_checksum
from lexigraft.declarations import load_file
from lexigraft.errors import UserError, first_line
from lexigraft.registry import Registry

logger = logging.getLogger(__name__)

# A separate file, since Snakemake deletes the card before it rebuilds it.
STATE = "state.json"


# ---- kinds -------------------------------------------------------------------------------------


LEARNED: Registry[ModuleType] = Registry(
    "lexigraft.evaluation.learned.kinds", None, "kind of learned metric"
)
learned_kinds = LEARNED.names
learned_kind = LEARNED.get


def register_learned_kind(file: str | Path) -> None:
    """Add a kind of learned metric in a file, which names it; a UserError if the name is taken."""
    path = Path(file).resolve()
    LEARNED.register(path.stem, load_file(path), str(path))


# ---- files -------------------------------------------------------------------------------------


class Part(NamedTuple):
    """One folder that a metric is loaded from, as it is on this machine."""

    key: str  # its key in config/metrics.yaml: `checkpoint`, or COMET's `encoder`
    name: str | None  # a folder or a hub name; None if the registry names none
    revision: str | None  # a commit, tag or branch of a hub name
    is_local: bool  # whether the name is a path
    folder: Path | None  # the folder itself, or its snapshot in the hub cache if there is one
    files: list[Path]  # the existing files that are used
    missing: str | None  # the first file that is missing, or several of which one must exist


def find_part(settings: Mapping[str, Any], key: str) -> Part:
    """Find a part of a metric in config/metrics.yaml: the `checkpoint`, or the `encoder`."""
    kind, name = learned_kind(settings["kind"]), settings[key]
    revision = settings["revision" if key == "checkpoint" else f"{key}_revision"]
    is_local = name is not None and name.startswith(("/", ".", "~"))  # as no hub name does
    folder = None
    if is_local:
        folder = Path(name).expanduser()
    elif name is not None:
        repository = hub_cache() / f"models--{name.replace('/', '--')}"
        reference = repository / "refs" / (revision or "main")
        commit = reference.read_text("utf-8").strip() if reference.is_file() else revision or "main"
        snapshot = repository / "snapshots" / commit
        folder = snapshot if snapshot.is_dir() else None
    needed, optional = kind.FILES[key], kind.OPTIONAL_FILES.get(key, ())
    found = {
        group: [folder / file for file in group if (folder / file).is_file()] if folder else []
        for group in (*needed, *((name,) for name in optional))
    }
    files = [file for existing in found.values() for file in existing[:1]]
    missing = next((" or ".join(group) for group in needed if not found[group]), None)
    return Part(key, name, revision, is_local, folder, files, missing)


def state(settings: Mapping[str, Any], python: str, folder: str) -> str:
    """Digest of what a metric's preparation depends on: it is stale when the digest changes.

    It changes when something appears that a failed preparation lacked (the environment, a file,
    access to the hub), and when a file was replaced. It does not change when something disappears:
    existing scores are kept. `state.json` in the metric's `folder` has what was observed last.
    """
    digest, is_complete = observed(settings, python)
    try:
        last = json.loads(Path(folder, STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return digest
    is_same = digest == last["found"] or (last["available"] and not is_complete)
    return str(last["state"]) if is_same else digest


def observed(settings: Mapping[str, Any], python: str) -> tuple[str, bool]:
    """Digest of what this machine has for a metric, and whether that is complete."""
    parts = [find_part(settings, key) for key in learned_kind(settings["kind"]).FILES]
    missing = [part for part in parts if part.missing]
    has_environment = Path(python).exists()
    # `make metrics` finished; environments built in another way do not have its marker.
    is_finished = (Path(python).parent.parent / "main").exists()
    observation = {
        "environment": [has_environment, is_finished],
        "hub": is_offline() if any(part.name and not part.is_local for part in missing) else None,
        # A commit on the hub never changes.
        "files": [
            [part.key, file.name, file_checksum(file) if part.is_local else None]
            for part in parts
            for file in part.files
        ],
    }
    return digest_of(observation), has_environment and not missing


def digest_of(observation: Mapping[str, Any]) -> str:
    """Digest of an observation of this machine."""
    return hashlib.sha256(json.dumps(observation).encode()).hexdigest()[:16]


def hub_cache() -> Path:
    """The hub cache of huggingface_hub, which is not imported because that takes long."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{home}/huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()


def is_offline() -> bool:
    """Whether the environment forbids access to the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


# ---- preparation ---------------------------------------------------------------------------


def prepare_metric(name: str, settings: Mapping[str, Any], python: str) -> dict[str, Any]:
    """Find a metric's checkpoint, or fetch it if the metrics environment's `python` exists.

    `settings` are the entry of the metric `name` in config/metrics.yaml. Returns `available`, `why`
    (what is missing and what to do, or None), and for each part, `checkpoint` and possibly
    `encoder`: its name, revision, folder and files with their SHA-256.
    """
    facts: dict[str, Any] = {"available": True, "why": None}
    try:
        if not Path(python).exists():
            raise UserError(f"{python} is missing: run `make metrics`, then this study again")
        for key in learned_kind(settings["kind"]).FILES:
            where, part = f"metrics.{name}.{key}", find_part(settings, key)
            if part.name is None:
                raise UserError(
                    f"{where}: none is specified; give a hub name or a folder, written with a /"
                )
            if part.missing and not part.is_local:
                part = _fetch(where, settings, part, part.name)
            if part.folder is None or part.missing:
                raise UserError(
                    f"{where}: {part.folder or part.name} has no {part.missing}; add it or specify "
                    "another folder"
                )
            files = {str(file.relative_to(part.folder)): describe_file(file) for file in part.files}
            revision = None if part.is_local else part.folder.name
            described = {"name": part.name, "revision": revision, "folder": str(part.folder)}
            facts[key] = {**described, "files": files}
    except UserError as reason:
        logger.warning("%s cannot be scored: %s", name, reason)
        return {"available": False, "why": str(reason)}
    return facts


def _fetch(where: str, settings: Mapping[str, Any], part: Part, name: str) -> Part:
    """Fetch the files of a part that are used into the hub cache."""
    revision, kind = part.revision or "main", learned_kind(settings["kind"])
    command = f"`hf download {name} --revision {revision}`"
    if is_offline():
        raise UserError(
            f"{where}: {name} at revision {revision} is not in the hub cache and HF_HUB_OFFLINE "
            f"forbids fetching it; run {command} on a machine with network access, or specify a "
            "folder"
        )
    from huggingface_hub import errors, snapshot_download

    needed, optional = kind.FILES[part.key], kind.OPTIONAL_FILES.get(part.key, ())
    files = [*(group[0] for group in needed), *optional]
    try:
        # First without alternatives, such as a pickle of the same weights.
        for alternatives in ([], [file for group in needed for file in group[1:]]):
            snapshot_download(name, revision=part.revision, allow_patterns=files + alternatives)
            part = find_part(settings, part.key)
            if not part.missing:
                break
        return part
    except errors.GatedRepoError:
        reason = "accept its terms on the hub and run `hf auth login`, then this study again"
    except errors.LocalEntryNotFoundError:
        reason = f"the hub cannot be reached; run {command} on a machine with network access"
    except (errors.HTTPError, errors.HFValidationError, OSError) as error:
        reason = first_line(error)
    raise UserError(f"{where}: {name} at revision {revision} cannot be fetched: {reason}")
