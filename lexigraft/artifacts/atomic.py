"""Write outputs atomically: under a temporary name in the same folder, which is then renamed."""

import fcntl
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Prefix of temporary names. What a killed process leaves under them is deleted by the next one.
PARTIAL = ".partial-"
LOCK = ".lock"  # held by the process that works in a folder; created before any other file
logger = logging.getLogger(__name__)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, which replaces `path` on success.

    The temporary name keeps the suffix of `path`, since some writers infer the format from it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{PARTIAL}{path.stem}-"
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        # mkstemp creates private files; results get the permissions that the umask allows.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path`, which replaces the whole of `path` on success."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{PARTIAL}{path.name}-"
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    old = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        # Moved aside first: a kill during the deletion must not leave a partial folder at `path`.
        if path.exists():
            path.replace(old)
        temporary.replace(path)
    finally:
        for folder in (temporary, old):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel releases when the process ends for any reason."""
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process is working on %s; waiting for it to finish", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def clear_partial(folder: str | Path) -> None:
    """Delete what killed processes left in and next to an output folder that this process holds.

    Subfolders that belong to other jobs are left alone.
    """
    folder = Path(folder)
    temporary = re.compile(re.escape(f"{PARTIAL}{folder.name}-") + r"[a-z0-9_]{8}")  # of tempfile
    paths = [path for path in folder.parent.glob(f"{PARTIAL}*") if temporary.fullmatch(path.name)]
    for parent, folders, files in os.walk(folder):
        # Checked after the folder was listed: a process that writes there has locked it before.
        if Path(parent) != folder and Path(parent, LOCK).exists():
            folders.clear()
            continue
        paths += [Path(parent, name) for name in (*folders, *files) if name.startswith(PARTIAL)]
        folders[:] = [name for name in folders if not name.startswith(PARTIAL)]
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def link_or_copy(file: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system does not support hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(file)
    except OSError:
        with replacing(target) as temporary:
            shutil.copyfile(file, temporary)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented UTF-8 JSON, with keys in the given order."""
    with replacing(path) as temporary:
        text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write one text per line in UTF-8; each line ends with a single line feed."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def write_jsonl(path: str | Path, rows: list[dict]) -> None:
    """Write one JSON object per line in UTF-8."""
    write_lines(path, [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows])


def read_jsonl(path: Path) -> list[Any]:
    """Read JSON lines, without an incomplete last line; an empty list if there is no file."""
    *lines, _ = path.read_text("utf-8").split("\n") if path.exists() else [""]
    return [json.loads(line) for line in lines]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
