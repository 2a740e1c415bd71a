"""Find or fetch the files of a learned metric, and record them or what is missing."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import describe_file
from lexigraft.errors import UserError, first_line
from lexigraft.evaluation.learned.checkpoint import Part, is_offline, parts

logger = logging.getLogger(__name__)


def prepare_metric(name: str, settings: Mapping[str, Any], python: str) -> dict[str, Any]:
    """Find or fetch a metric's checkpoint; the hub is only asked for missing files.

    `settings` are the entry of the metric `name` in config/metrics.yaml: kind, checkpoint, encoder
    and their revisions. Nothing is fetched without the metrics environment's `python`.

    Returns `available`, `why` (what is missing and what to do, or None), and for each part,
    `checkpoint` and possibly `encoder`: its name, revision, folder and files with their SHA-256.
    """
    try:
        if not Path(python).exists():
            raise UserError(f"{python} is missing: run `make metrics`, then this study again")
        described = {part.key: _describe(name, part) for part in parts(settings)}
    except UserError as reason:
        logger.warning("%s cannot be scored: %s", name, reason)
        return {"available": False, "why": str(reason)}
    return {"available": True, "why": None, **described}


def _describe(metric: str, part: Part) -> dict[str, Any]:
    where = f"metrics.{metric}.{part.key}"
    if part.name is None:
        raise UserError(
            f"{where}: none is specified; give a hub name or a folder, written with a /"
        )
    if part.missing() and not part.is_local:
        _fetch(where, part, part.name)
    folder, missing = part.folder(), part.missing()
    if folder is None or missing:
        raise UserError(
            f"{where}: {folder or part.name} has no {' or '.join(missing or ())}; add it or "
            "specify another folder"
        )
    logger.info("%s: %s", where, folder)
    return {
        "name": part.name,
        "revision": None if part.is_local else folder.name,
        "folder": str(folder),
        "files": {str(file.relative_to(folder)): describe_file(file) for file in part.files()},
    }


def _fetch(where: str, part: Part, name: str) -> None:
    """Fetch the files of a part that are used into the hub cache."""
    named = f"{where}: {name} at revision {part.revision or 'main'}"
    command = f"`hf download {name} --revision {part.revision or 'main'}`"
    if is_offline():
        raise UserError(
            f"{named} is not in the hub cache and HF_HUB_OFFLINE forbids fetching it; run "
            f"{command} on a machine with network access, or specify a folder"
        )
    from huggingface_hub import errors, snapshot_download

    preferred = [*(group[0] for group in part.needs), *part.optional]
    others = [name for group in part.needs for name in group[1:]]
    try:
        for wanted in (preferred, preferred + others):
            snapshot_download(name, revision=part.revision, allow_patterns=wanted)
            if not part.missing():
                return
    except errors.GatedRepoError:
        reason = "accept its terms on the hub and run `hf auth login`, then this study again"
    except errors.LocalEntryNotFoundError:
        reason = f"the hub cannot be reached; run {command} on a machine with network access"
    except (errors.HTTPError, errors.HFValidationError, OSError) as error:
        reason = first_line(error)
    else:
        return
    raise UserError(f"{named} cannot be fetched: {reason}")
