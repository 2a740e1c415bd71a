"""Write outputs atomically: under a temporary name in the same folder, which is then renamed."""

import fcntl
import json
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

# Prefix of temporary names. What a killed process leaves under them is deleted by the next one.
TEMPORARY_PREFIX = ".partial-"
LOCK_FILE = ".lock"  # held by the process that works in a folder; created before any other file
logger = logging.getLogger(__name__)


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, with its suffix, which replaces `path` on success."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_path(path, path.stem, path.suffix)
    temporary.touch(exist_ok=False)
    access = temporary.stat().st_mode
    try:
        yield temporary
        temporary.chmod(access)  # safetensors replaces the file with a private one
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path`, which replaces the whole of `path` on success."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _temporary_path(path, path.name), _temporary_path(path, path.name)
    temporary.mkdir()
    try:
        yield temporary
        # Moved aside first: a kill during the deletion must not leave a partial folder at `path`.
        if path.exists():
            path.replace(old)
        temporary.replace(path)
    finally:
        for folder in (temporary, old):
            shutil.rmtree(folder, ignore_errors=True)


def _temporary_path(path: Path, stem: str, suffix: str = "") -> Path:
    # Not from tempfile, whose files are private: results have the permissions of the umask.
    return path.with_name(f"{TEMPORARY_PREFIX}{stem}-{uuid4().hex[:8]}{suffix}")


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel releases when the process ends for any reason."""
    with (folder / LOCK_FILE).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process is working on %s; waiting for it to finish", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def delete_leftovers(folder: str | Path) -> None:
    """Delete what killed processes left in and next to a folder that this process has locked."""
    folder = Path(folder)
    # The whole name: the folder `run-1-more` also has leftovers that begin like those of `run-1`.
    replacement = re.compile(re.escape(f"{TEMPORARY_PREFIX}{folder.name}-") + r"\w{8}")
    siblings = folder.parent.glob(f"{TEMPORARY_PREFIX}*")
    leftovers = [path for path in siblings if replacement.fullmatch(path.name)]
    for parent, folders, files in os.walk(folder):
        # Checked after the folder was listed: a process that writes there has locked it before.
        if Path(parent) != folder and Path(parent, LOCK_FILE).exists():
            folders.clear()
            continue
        names = [name for name in (*folders, *files) if name.startswith(TEMPORARY_PREFIX)]
        leftovers += [Path(parent, name) for name in names]
        folders[:] = [name for name in folders if name not in names]
    for path in leftovers:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented UTF-8 JSON, with keys in the given order."""
    with atomic_file(path) as temporary:
        text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write one text per line in UTF-8; each line ends with a single line feed."""
    with (
        atomic_file(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(line + "\n" for line in lines)


def write_jsonl(path: str | Path, rows: list[dict]) -> None:
    """Write one JSON object per line in UTF-8."""
    write_lines(path, [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows])
