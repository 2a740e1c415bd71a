"""The kinds of learned metrics, and the files of a metric on this machine or on the hub.

The Snakefile imports this module each time it is parsed: huggingface_hub, which takes long, is
imported where the hub is asked.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lexigraft.artifacts.cards import describe_file
from lexigraft.artifacts.checksums import file_checksum
from lexigraft.declarations import load_file
from lexigraft.errors import UserError, first_line

logger = logging.getLogger(__name__)

# A separate file, since Snakemake deletes the card before it rebuilds it.
STATE = "state.json"

_FOLDER = Path(__file__).resolve().parent / "kinds"
_REGISTERED: dict[str, Path] = {}


# ---- kinds -------------------------------------------------------------------------------------


def learned_kinds() -> list[str]:
    """Every kind of learned metric, sorted."""
    bundled = (file.stem for file in _FOLDER.glob("*.py") if file.stem != "__init__")
    return sorted({*bundled, *_REGISTERED})


def register_learned_kind(file: str | Path) -> None:
    """Add a kind of learned metric whose module is outside this package; its name is the file's.

    Raises `UserError` if another kind has its name.
    """
    path = Path(file).resolve()
    if path.stem in learned_kinds() and _REGISTERED.get(path.stem) != path:
        raise UserError(f"{file}: the kind of learned metric '{path.stem}' exists already; rename")
    _REGISTERED[path.stem] = path


def learned_kind(name: str) -> ModuleType:
    """The module of a kind of learned metric, see `kinds`."""
    return load_file(_REGISTERED.get(name, _FOLDER / f"{name}.py"))


# ---- files -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One folder that a metric is loaded from."""

    key: str  # its key in config/metrics.yaml: `checkpoint`, or COMET's `encoder`
    name: str | None  # a folder or a hub name; None if the registry names none
    revision: str | None  # a commit, tag or branch of a hub name
    # Groups of file names; one file of each group must exist, and the first that exists is used.
    needs: tuple[tuple[str, ...], ...]
    optional: tuple[str, ...] = ()  # names of files that are used if they exist

    @property
    def is_local(self) -> bool:
        """Whether the name is a path: it begins with `/`, `.` or `~`, which no hub name does."""
        return self.name is not None and self.name.startswith(("/", ".", "~"))

    def folder(self) -> Path | None:
        """The folder itself, or its snapshot in the hub cache if there is one."""
        if self.name is None:
            return None
        if self.is_local:
            return Path(self.name).expanduser()
        repository = hub_cache() / f"models--{self.name.replace('/', '--')}"
        revision = self.revision or "main"
        reference = repository / "refs" / revision
        commit = reference.read_text("utf-8").strip() if reference.is_file() else revision
        snapshot = repository / "snapshots" / commit
        return snapshot if snapshot.is_dir() else None

    def files(self) -> dict[tuple[str, ...], Path | None]:
        """Group of names -> the file that is used; None if there is none."""
        folder = self.folder()
        files: dict[tuple[str, ...], Path | None] = {}
        for group in (*self.needs, *((name,) for name in self.optional)):
            paths = (folder / name for name in group) if folder else ()
            files[group] = next((path for path in paths if path.is_file()), None)
        return files

    def missing(self) -> tuple[str, ...] | None:
        """The first group of which no file exists; None if the part is complete."""
        files = self.files()
        return next((group for group in self.needs if not files[group]), None)


def parts(settings: Mapping[str, Any]) -> list[Part]:
    """The folders that a metric in config/metrics.yaml is loaded from."""
    kind = learned_kind(settings["kind"])
    return [
        Part(
            key,
            settings[key],
            settings["revision" if key == "checkpoint" else f"{key}_revision"],
            groups,
            kind.OPTIONAL_FILES.get(key, ()),
        )
        for key, groups in kind.FILES.items()
    ]


def state(settings: Mapping[str, Any], python: str, folder: str) -> str:
    """Digest of what a metric's preparation depends on: it is stale when the digest changes.

    It changes when something appears that a failed preparation lacked (the environment, a file,
    access to the hub), and when a file was replaced. It does not change when something disappears:
    existing scores are kept. `settings` are the metric's entry in config/metrics.yaml, `python` is
    that of the metrics environment; `state.json` in the metric's `folder` records what the last
    preparation observed.
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
    folders = parts(settings)
    missing = [part for part in folders if part.missing()]
    has_environment = Path(python).exists()
    # `make metrics` finished; environments built in another way do not have its marker.
    is_finished = (Path(python).parent.parent / "main").exists()
    files = [(part, file) for part in folders for file in part.files().values() if file]
    observation = {
        "environment": [has_environment, is_finished],
        "hub": is_offline() if any(part.name and not part.is_local for part in missing) else None,
        # A commit on the hub never changes.
        "files": [
            [part.key, file.name, file_checksum(file) if part.is_local else None]
            for part, file in files
        ],
    }
    return digest_of(observation), has_environment and not missing


def digest_of(observation: Mapping[str, Any]) -> str:
    """Digest of what was observed on this machine."""
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
    """Find or fetch a metric's checkpoint; the hub is only asked for missing files.

    `settings` are the entry of the metric `name` in config/metrics.yaml. Nothing is fetched without
    the metrics environment's `python`. Returns `available`, `why` (what is missing and what to do,
    or None), and for each part, `checkpoint` and possibly `encoder`: its name, revision, folder and
    files with their SHA-256.
    """
    facts: dict[str, Any] = {"available": True, "why": None}
    try:
        if not Path(python).exists():
            raise UserError(f"{python} is missing: run `make metrics`, then this study again")
        for part in parts(settings):
            where = f"metrics.{name}.{part.key}"
            if part.name is None:
                raise UserError(
                    f"{where}: none is specified; give a hub name or a folder, written with a /"
                )
            if part.missing() and not part.is_local:
                _fetch(where, part, part.name)
            folder, missing = part.folder(), part.missing()
            if folder is None or missing:
                raise UserError(
                    f"{where}: {folder or part.name} has no {' or '.join(missing or ())}; add it "
                    "or specify another folder"
                )
            logger.info("%s: %s", where, folder)
            facts[part.key] = {
                "name": part.name,
                "revision": None if part.is_local else folder.name,
                "folder": str(folder),
                "files": {
                    str(file.relative_to(folder)): describe_file(file)
                    for file in part.files().values()
                    if file
                },
            }
    except UserError as reason:
        logger.warning("%s cannot be scored: %s", name, reason)
        return {"available": False, "why": str(reason)}
    return facts


def _fetch(where: str, part: Part, name: str) -> None:
    """Fetch the files of a part that are used into the hub cache."""
    at = f"{where}: {name} at revision {part.revision or 'main'}"
    command = f"`hf download {name} --revision {part.revision or 'main'}`"
    if is_offline():
        raise UserError(
            f"{at} is not in the hub cache and HF_HUB_OFFLINE forbids fetching it; run {command} "
            "on a machine with network access, or specify a folder"
        )
    from huggingface_hub import errors, snapshot_download

    preferred = [*(group[0] for group in part.needs), *part.optional]
    alternatives = [file for group in part.needs for file in group[1:]]
    try:
        for files in (preferred, preferred + alternatives):
            snapshot_download(name, revision=part.revision, allow_patterns=files)
            if not part.missing():
                break
        return
    except errors.GatedRepoError:
        reason = "accept its terms on the hub and run `hf auth login`, then this study again"
    except errors.LocalEntryNotFoundError:
        reason = f"the hub cannot be reached; run {command} on a machine with network access"
    except (errors.HTTPError, errors.HFValidationError, OSError) as error:
        reason = first_line(error)
    raise UserError(f"{at} cannot be fetched: {reason}")
