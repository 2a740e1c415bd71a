"""Outputs appear whole or not at all: written under a temporary name beside them, then renamed."""

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

# How temporary names begin. What a killed process left under them, the next one deletes.
PARTIAL = ".partial-"
LOCK = ".lock"  # of the process that works in a folder; it is there before anything else
logger = logging.getLogger(__name__)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes the place of `path` on success.

    The temporary name keeps the suffix of `path`, since some writers choose a format by it.
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
        # mkstemp makes files private; results are shared with the group as the umask says.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, which takes the place of all of `path` on success."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{PARTIAL}{path.name}-"
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    old = Path(tempfile.mkdtemp(prefix=prefix, dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        # Moved aside first: a kill while it is deleted must not leave a part of it in its place.
        if path.exists():
            path.replace(old)
        temporary.replace(path)
    finally:
        for folder in (temporary, old):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel releases when the process ends, however it ends."""
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process works on %s; waiting until it ends", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def clear_partial(folder: str | Path) -> None:
    """Delete what killed processes left in and beside an output folder that this process holds.

    Folders below it that have a job of their own are left alone.
    """
    folder = Path(folder)
    beside = re.compile(re.escape(f"{PARTIAL}{folder.name}-") + r"[a-z0-9_]{8}")  # tempfile's names
    left = [path for path in folder.parent.glob(f"{PARTIAL}*") if beside.fullmatch(path.name)]
    for place, folders, files in os.walk(folder):
        # Asked for after the folder was listed: who writes there had locked it before.
        if Path(place) != folder and Path(place, LOCK).exists():
            folders.clear()
            continue
        left += [Path(place, name) for name in (*folders, *files) if name.startswith(PARTIAL)]
        folders[:] = [name for name in folders if not name.startswith(PARTIAL)]
    for path in left:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def link_or_copy(file: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(file)
    except OSError:
        with replacing(target) as temporary:
            shutil.copyfile(file, temporary)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented UTF-8 JSON, keys in the order given."""
    with replacing(path) as temporary:
        text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write one text a line, UTF-8, each line ended by a single line feed."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def write_jsonl(path: str | Path, rows: list[dict]) -> None:
    """Write one JSON object a line, UTF-8."""
    write_lines(path, [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows])


def read_jsonl(path: Path) -> list[Any]:
    """What such lines hold, without a last one that is cut off; nothing where there is no file."""
    *lines, _ = path.read_text("utf-8").split("\n") if path.exists() else [""]
    return [json.loads(line) for line in lines]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
