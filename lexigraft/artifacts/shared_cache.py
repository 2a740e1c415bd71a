"""A cache of outputs shared by checkouts, results folders and users, in `LEXIGRAFT_CACHE`.

Snakemake's own caching (`cache: True`, `--cache`) cannot replace it. It stores the outputs that a
rule declares, here the card alone; it names entries by the rule's parameters, which hold paths of
the results folder; and it restores files without checking them.

An entry is named after a rule and the fingerprint of a job (`lexigraft.artifacts.completion`) and
holds the job's files with their card. Entries are written atomically and never change; files are
hard-linked from and to the cache where the file system supports it. A damaged entry counts as
missing, and a cache that cannot be read or written does not make a job fail.
"""

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import atomic_file, atomic_folder, write_json
from lexigraft.artifacts.cards import (
    CARD,
    INPUTS,
    SEAL,
    fault_of,
    listed,
    read_card,
    relative_paths,
    sealed,
)
from lexigraft.artifacts.completion import card_of, fingerprint, output_checksums
from lexigraft.errors import UserError

VARIABLE = "LEXIGRAFT_CACHE"
logger = logging.getLogger(__name__)


def fetch(job: Mapping[str, Any], at_start: str) -> bool:
    """Put the cached output of an equal job into the folder of this job, the card last.

    `at_start` is the fingerprint of the job. Returns whether the cache has it. Raises a UserError
    if the path of the cache is not absolute.
    """
    entry = _entry(job, at_start)
    try:
        if not (entry and (card := _intact_card(entry))):
            return False
        for file, _ in listed(entry, card):
            _link_or_copy(file, Path(job["outputs"]["folder"], file.relative_to(entry)))
    except OSError as error:
        logger.warning("%s cannot be used: %s", entry, error)
        return False
    # Equal jobs differ only in paths; the card gets this job's paths, which status compares.
    content = {key: value for key, value in card.items() if key != SEAL}
    read = relative_paths(output_checksums(job["inputs"]), card_of(job).parent)
    write_json(card_of(job), sealed({**content, "job": job, INPUTS: read}))
    logger.info("taken from %s", entry)
    return True


def store(job: Mapping[str, Any], at_start: str) -> None:
    """Put a job's output into the cache, unless it is there or the job's inputs have changed."""
    entry = _entry(job, at_start)
    if entry is None or fingerprint(job) != at_start:
        return
    try:
        if _intact_card(entry):
            return
        entry.parent.mkdir(parents=True, exist_ok=True)
        folder, access = Path(job["outputs"]["folder"]), entry.parent.stat().st_mode & 0o7777
        with atomic_folder(entry) as temporary:
            for file in (*(file for file, _ in listed(folder, read_card(folder))), folder / CARD):
                _link_or_copy(file, temporary / file.relative_to(folder))
        # Users who may write to the cache may also replace its entries.
        for path in (entry, *(path for path in entry.rglob("*") if path.is_dir())):
            path.chmod(access)
    except OSError as error:
        logger.warning("%s is not stored: %s", entry, error)


def _entry(job: Mapping[str, Any], at_start: str) -> Path | None:
    """The folder of a job's output in the cache; None if there is no cache."""
    if not (cache := os.environ.get(VARIABLE)):
        return None
    if not Path(cache).is_absolute():
        raise UserError(f"{VARIABLE}: {cache} must be an absolute path")
    return Path(cache, f"{job['rule']}-{at_start}")


def _intact_card(entry: Path) -> dict[str, Any] | None:
    """The card of an entry if all its files match the card, otherwise None."""
    if not (entry / CARD).is_file():
        return None
    try:
        card = read_card(entry)
        for file, described in listed(entry, card):
            if ".." in file.parts or not file.is_relative_to(entry):
                raise UserError(f"{file}: outside its folder")
            if fault := fault_of(file, described):
                raise UserError(f"{file}: {fault}")
    except (UserError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s is ignored: %s", entry, error)
        return None
    return card


def _link_or_copy(file: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system does not support hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(file)
    except OSError:
        with atomic_file(target) as temporary:
            shutil.copyfile(file, temporary)
