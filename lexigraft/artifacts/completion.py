"""The completion record of a job: the one answer to whether its work is done.

The hidden file next to a card has a copy of the card and a fingerprint of the job: settings,
versions, seeds and the content of everything that it read. A job that finds an equal fingerprint
and intact files restores the card and ends. `workflow/state.py` compares the same fingerprints.
Standard library only: a finished job ends without slow imports.
"""

import fcntl
import hashlib
import json
import logging
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any

from lexigraft.artifacts.atomic import LOCK_FILE, write_json
from lexigraft.artifacts.cards import (
    CARD,
    INPUTS,
    SEAL,
    cards_of,
    describe_file,
    fault_of,
    folder_of,
    leaves,
    listed,
    listed_at,
    read_card,
    read_record,
    record_file,
    relative_paths,
    sealed,
)
from lexigraft.artifacts.checksums import file_checksum, files_at
from lexigraft.errors import UserError
from lexigraft.usage import USAGE

# Facts about the machine and the run in a card, which differ between two equal runs.
CIRCUMSTANCES = (
    "versions", "seconds", "tokens_per_second", "share_of_peak", "peak_memory_bytes",
    "resumed_from_step", "device", "threads", "document_start_bits_per_byte",
)  # fmt: skip
# Keys of a card that do not describe the content of its files.
_NOT_CONTENT = ("job", SEAL, "files", INPUTS, *CIRCUMSTANCES)
# Keys of a job with paths, which do not matter; the content of its inputs does.
PATH_KEYS = ("inputs", "outputs", "folders", "contents")
REPLACED = "replaced"  # folder of a results folder, see `move_replaced`
# Times differ between two equal trainings; the path of a source model is not part of its content.
_NOT_COMPARED = ("log.jsonl", "source.json")
Job = Mapping[str, Any]
logger = logging.getLogger(__name__)


# ---- fingerprints and records -------------------------------------------------------------------


def fingerprint(job: Job, checksum: Callable[[Any], str] | None = None) -> str:
    """Digest of a job and of the content of its inputs, independent of their paths.

    `checksum` may be a cached `input_checksum`, for many jobs with the same inputs.
    """

    def checksums(inputs: Any) -> Any:
        if isinstance(inputs, Mapping):
            return {key: checksums(value) for key, value in inputs.items()}
        if isinstance(inputs, list | tuple):
            return [checksums(value) for value in inputs]
        return None if inputs is None else (checksum or input_checksum)(inputs)

    description = {key: value for key, value in job.items() if key not in PATH_KEYS}
    return _digest([description, checksums(job["inputs"])])


def card_of(job: Job) -> Path:
    """The card that a job writes: the one output that Snakemake knows."""
    outputs = job["outputs"]
    return Path(outputs.get("card") or Path(outputs["folder"], CARD))


def is_complete(job: Job) -> bool:
    """Whether the outputs of a job are intact and come from an equal job with equal inputs."""
    file, record = record_file(card_of(job)), read_record(card_of(job))
    with suppress(OSError, ValueError, KeyError, TypeError, UserError):
        if record is not None and record["fingerprint"] == fingerprint(job):
            since, files = file.stat().st_mtime_ns, listed(file.parent, record["card"])
            return not any(fault_of(path, described, since) for path, described in files)
    return False


def begin(job: Job) -> str:
    """Mark the outputs of a job as unfinished; returns its fingerprint at the start."""
    record_file(card_of(job)).unlink(missing_ok=True)
    return fingerprint(job)


def complete(
    job: Job, at_start: str, files: list[str] | None = None, finds_inputs: bool = False
) -> None:
    """Record that a job is complete, as its last step, after its card was written.

    `at_start` is its fingerprint at the start (`begin`). For a job without a card, `files` are the
    names of its outputs. `finds_inputs`: the fingerprint covers inputs that only the script knows.
    """
    if files is None:
        card = json.loads(card_of(job).read_text("utf-8"))
    else:
        folder = Path(job["outputs"]["folder"])
        card = {
            "files": {name: describe_file(folder / name) for name in sorted(files)},
            INPUTS: relative_paths(output_checksums(job["inputs"]), folder),
        }
    record = {"fingerprint": at_start, "card": card}
    write_json(record_file(card_of(job)), record | ({"finds_inputs": True} if finds_inputs else {}))


def restore(job: Job) -> None:
    """Restore the card of a complete job, with this job, which may read the same from elsewhere."""
    card = json.loads(record_file(card_of(job)).read_text("utf-8"))["card"]
    if "job" in card:
        card = sealed({key: card[key] for key in card if key != SEAL} | {"job": job})
    write_json(card_of(job), card)


def move_replaced(job: Job) -> Path | None:
    """Move aside the complete outputs of another job that this job will replace.

    Returns their new folder, or None if nothing was moved. Jobs request this with
    `outputs.replaced`, the folder `replaced` of the results folder. `<replaced>/<time>/` has the
    layout of the results folder, with links to the inputs whose content has not changed since.
    """
    archive, record = job["outputs"].get("replaced"), read_record(card_of(job))
    if not archive or record is None or not keeps_replaced():
        return None
    if record["fingerprint"] == fingerprint(job):
        return None  # the same outputs, damaged
    results, folder = Path(archive).parent, Path(job["outputs"]["folder"])
    time_of_move = time.strftime("%Y-%m-%dT%H-%M-%S")
    for name in chain([time_of_move], (f"{time_of_move}-{number}" for number in count(2))):
        with suppress(FileExistsError):
            (top := Path(archive, name)).mkdir(parents=True)
            break
    moved = top / folder.relative_to(results)
    moved.mkdir(parents=True)
    for relative, checksum in record["card"].get(INPUTS, {}).items():
        path = Path(os.path.normpath(folder / relative))
        if path.is_dir() and path.is_relative_to(results) and card_checksum(path) == checksum:
            link = top / path.relative_to(results)
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.path.relpath(path, link.parent))
    for entry in sorted(folder.iterdir()):
        if entry.name == USAGE:  # copied: it still counts towards the usage of the folder
            shutil.copy2(entry, moved)
        elif entry.name != LOCK_FILE:
            shutil.move(entry, moved / entry.name)
    write_json(moved / card_of(job).name, record["card"])  # Snakemake has deleted it
    return moved


def keeps_replaced() -> bool:
    """Whether `move_replaced` keeps anything: not with LEXIGRAFT_KEEP_REPLACED=0."""
    return os.environ.get("LEXIGRAFT_KEEP_REPLACED") != "0"


def is_held(folder: str | Path) -> bool:
    """Whether a process is working in a folder, see `lexigraft.job.run`."""
    with suppress(OSError), Path(folder, LOCK_FILE).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


# ---- the content of inputs ----------------------------------------------------------------------


def input_checksum(path: Any) -> str:
    """Digest of one input: of its card if it has one, otherwise of its content.

    Anything that is not a path, such as the name of a model on a hub, is returned unchanged.
    """
    location = Path(folder_of(path)) if isinstance(path, str | Path) else None
    if location is None or not location.exists():
        matching = [] if location is None else files_at(location)  # of a pattern
        checksums = [[file.name, file_checksum(file)] for file in matching]
        return _digest(checksums) if checksums else str(path)
    if checksum := card_checksum(location):
        return checksum
    if location.is_file():
        return file_checksum(location)
    known = {file: described["sha256"] for _, file, described in listed_at(location)}
    return _digest(
        {
            str(file.relative_to(location)): known.get(file) or file_checksum(file)
            for file in files_at(path)
        }
    )


def card_checksum(path: Path) -> str | None:
    """Digest of a folder, its card or a listed file, as cards describe it; None without a card."""
    folder = path.parent if path.name == CARD else path
    if not (folder / CARD).is_file():
        hashes = (described["sha256"] for _, file, described in listed_at(path) if file == path)
        return next(hashes, None)
    card = read_card(folder)
    hashes_of_files = {
        name: described["sha256"] if isinstance(described, dict) else described
        for name, described in card.get("files", {}).items()
        if name not in _NOT_COMPARED
    }
    facts = {key: value for key, value in card.items() if key not in _NOT_CONTENT}
    return _digest([hashes_of_files, facts])


def output_checksums(inputs: Any) -> dict[str, str]:
    """The checksums of the outputs of other jobs among the inputs of a job, by path."""
    checksums = {str(path): card_checksum(path) for path in _paths(inputs) if path.exists()}
    return {path: checksum for path, checksum in checksums.items() if checksum}


def changed_inputs(card: Mapping[str, Any], folder: Path) -> list[str]:
    """The outputs of other jobs that a card's job read and whose content has changed since."""
    changed = []
    for relative, checksum in card.get(INPUTS, {}).items():
        path = Path(os.path.normpath(folder / relative))
        with suppress(UserError):  # a damaged card
            if path.exists() and card_checksum(path) == checksum:
                continue
        changed.append(str(path))
    return changed


def date_inputs(job: Job) -> None:
    """Set modification times of a job's inputs that are in the future to the current time.

    Snakemake discards an output that is older than an input. That happens if the clock of one
    machine is ahead of another's, or was set back.
    """
    now = time.time_ns()
    files: set[Path] = set()  # files, and the cards of folders and of files in them
    for path in _paths(job["inputs"]):
        card = (path if path.is_dir() else path.parent) / CARD
        files.update(file for file in (path, card) if file.is_file())
        if not (card.is_file() or path.is_file()):
            files.update(files_at(path))
    for file in files:
        if file.stat().st_mtime_ns > now:
            logger.warning("%s has a modification time in the future; setting it to now", file)
            with suppress(PermissionError):
                os.utime(file, ns=(now, now))


def check_contents(job: Job) -> None:
    """Raise a UserError if a file of the user has changed since its job was described.

    A description from a file may be old; the card would name another content than was read.
    """
    for path, checksum in job.get("contents", {}).items():
        if checksum and files_at(path) and input_checksum(path) != checksum:
            raise UserError(f"{path}: has changed since this job was planned; run the study again")


def check_origins(
    inputs: Any, cards: Iterable[tuple[Path, Mapping[str, Any]]] | None = None
) -> None:
    """Check that the inputs of a job belong together: none was made from an earlier other one.

    An output refers to others by their paths, where something else may be today. `cards` are the
    folders and cards to check; by default all cards of folders, and those that list an input file.
    A UserError names what has changed; what was rebuilt with the same content passes.
    """
    paths = [path for path in _paths(inputs) if path.exists()]

    @cache  # a report reads the same few outputs through thousands of cards
    def output_of(path: Path) -> Path:
        return (path.parent if path.name == CARD else path).resolve()

    path_of = {output_of(path): path for path in paths}
    checksums: dict[Path, str | None] = {}
    for folder, card in _cards_of_inputs(paths) if cards is None else cards:
        names = {path: name for name, path in card.get("references", {}).items()}
        for relative, recorded in card.get(INPUTS, {}).items():
            path = Path(os.path.normpath(folder / relative))
            output = output_of(path)
            if output not in checksums:
                is_input = output in path_of
                checksums[output] = card_checksum(path_of[output]) if is_input else recorded
            if checksums[output] != recorded:
                raise UserError(
                    f"{folder}: its {names.get(relative, 'input')} {path} has changed since "
                    f"{folder.name} was made; run the study again, or restore the earlier "
                    f"{path.name}; if the run starts no job, delete {folder} first"
                )


def check_references(folder: Path, card: Mapping[str, Any]) -> None:
    """Check that what a cell is loaded with is what it was trained with; see `check_origins`."""
    parts = [path for name, path in card["references"].items() if path and name != "corpus"]
    check_origins([os.path.normpath(folder / path) for path in parts], [(folder, card)])


def _cards_of_inputs(paths: Iterable[Path]) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """The cards that describe inputs, each with its folder."""
    inputs_in: dict[Path, set[Path]] = defaultdict(set)
    for path in paths:
        inputs_in[path if path.is_dir() else path.parent].add(path)
    for folder, inputs in inputs_in.items():
        for card in cards_of(folder):
            # Others beside an input file may describe what this job does not read.
            is_read = any(
                "job" in card if path.name == CARD else path.name in card.get("files", {})
                for path in inputs
            )
            if folder in inputs or is_read:
                yield folder, card


def _paths(inputs: Any) -> list[Path]:
    return [Path(path) for path in leaves(inputs) if isinstance(path, str | Path)]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
