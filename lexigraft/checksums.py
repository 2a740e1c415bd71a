"""Checksums of the user's files and folders, by content; those of large files are remembered.

A plan needs the checksum of every file that a study reads, and each job of a run plans again. Large
files are therefore hashed once: the user's cache folder remembers a checksum by inode, size, and
the times of the last modification and of the last change in nanoseconds. The last, which no program
can set, also shows a file that was replaced by one of the same size and date. Standard library
only: the Snakefile computes these checksums each time it is parsed.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from glob import glob, has_magic
from pathlib import Path

from lexigraft.provenance import sha256_of

_LARGE = 1 << 20  # bytes; hashing a smaller file takes about as long as looking it up
_SHOWN = 1 << 30  # bytes; hashing a larger file takes seconds, so that a bar is shown
# File systems count time in steps of up to two seconds: a file that has just changed may change
# again without another time.
_SETTLED = 3 * 10**9
_MOST = 20_000  # lines of the cache; then the older half is dropped
_LINE = re.compile(r"(\d+ \d+ \d+ \d+) ([0-9a-f]{64})")


def file_checksum(path: str | Path) -> str:
    """SHA-256 of a file; a file that has not changed since is not read again."""
    path = Path(path)
    before = path.stat()
    key, known = _key(before), _known()
    if key in known:
        return known[key]
    checksum = _sha256(path, before.st_size)
    if time.time_ns() - before.st_ctime_ns > _SETTLED and _key(path.stat()) == key:
        known[key] = checksum
        if before.st_size > _LARGE:
            # Appended: jobs that run at once do not lose each other's lines.
            with suppress(OSError, RuntimeError), _memory().open("a") as memory:
                memory.write(f"{key} {checksum}\n")
    return checksum


def files_at(path: str | Path) -> list[Path]:
    """The files at a path: a file itself, those in a folder (`files_in`), or those of a pattern."""
    place = Path(path)
    if place.is_dir():
        return [file for file in files_in(place) if file.is_file()]
    if place.is_file() or not has_magic(str(path)):
        return [place] if place.is_file() else []
    # Path.glob takes no absolute pattern.
    matching = map(Path, sorted(glob(str(path), recursive=True)))  # noqa: PTH207
    return [file for file in matching if file.is_file()]


def files_in(
    folder: str | Path, onerror: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """The files of a folder and its subfolders, linked ones included, but hidden ones.

    Hidden files are not content: the tokens of a corpus, metadata of git and hubs. Each folder is
    entered once, so that links in a circle end. `onerror` is called for a folder that cannot be
    read; by default it is skipped.
    """
    entered: set[str] = set()
    for place, folders, names in os.walk(folder, onerror=onerror, followlinks=True):
        real = os.path.realpath(place)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def _key(found: os.stat_result) -> str:
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _sha256(path: Path, size: int) -> str:
    if size < _SHOWN:
        return sha256_of(path)
    from tqdm import tqdm

    digest, name = hashlib.sha256(), f"hash {path.name}"
    with (
        path.open("rb") as file,
        tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=None) as bar,
    ):
        while block := file.read(_LARGE):
            digest.update(block)
            bar.update(len(block))
    return digest.hexdigest()


@cache
def _known() -> dict[str, str]:
    """State of a file -> its checksum, of this process and of those before it."""
    with suppress(OSError, RuntimeError, UnicodeDecodeError):
        memory = _memory()
        lines = memory.read_text("ascii").splitlines()
        if len(lines) > _MOST:
            lines = lines[-_MOST // 2 :]
            with suppress(OSError):
                part = memory.with_name(f"{memory.name}-{os.getpid()}")
                part.write_text("\n".join(lines) + "\n", "ascii")
                part.replace(memory)
        found = (_LINE.fullmatch(line) for line in lines)
        return {line[1]: line[2] for line in found if line}  # damaged lines are skipped
    return {}


def _memory() -> Path:
    """The file of remembered checksums; an OSError if others could write to its folder."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lexigraft"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    access = folder.lstat()
    if access.st_uid != os.getuid() or access.st_mode & 0o022:
        raise PermissionError(f"{folder}: others can write to it")
    return folder / "checksums"
