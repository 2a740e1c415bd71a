"""Checksums of the user's files and folders, by content; those of large files are remembered.

A plan needs the checksum of every file that a study reads, and each job of a run plans again. Large
files are therefore hashed once: the user's cache folder remembers a checksum by path, device,
inode, size, and the times of the last modification and of the last change in nanoseconds. The last,
which no program can set, also shows a file that was replaced by one of the same size and date.
Standard library only: the Snakefile computes these checksums each time it is parsed.
"""

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from glob import glob, has_magic
from pathlib import Path

from lexigraft.artifacts.cards import MODEL_FILES, SMALL, TEXT_FILES, folder_of, sha256_of

_LARGE = 1 << 20  # bytes; hashing a smaller file takes about as long as looking it up
_SHOWN = 1 << 30  # bytes; hashing a larger file takes seconds, so that a bar is shown
# File systems count time in steps of up to two seconds: a file that has just changed may change
# again without another time.
_SETTLED = 3 * 10**9
_MOST = 20_000  # lines of the cache; then the older half is dropped
_LINE = re.compile(r"([0-9a-f]{32} \d+ \d+ \d+ \d+ \d+) ([0-9a-f]{64})")
MODEL_ENDINGS = tuple(f".{ending}" for ending in MODEL_FILES[4:-1].split(","))
# Names of files that are read from a folder of texts.
TEXT_NAME = re.compile(r".*\.(parquet|(txt|jsonl)(\.(gz|xz|bz2|zst))?)")
logger = logging.getLogger(__name__)


def file_checksum(path: str | Path) -> str:
    """SHA-256 of a file; a file that has not changed since is not read again."""
    path = Path(path)
    before = path.stat()
    key, known = _key(path, before), _known()
    if key in known:
        return known[key]
    checksum = _sha256(path, before.st_size)
    if time.time_ns() - before.st_ctime_ns > _SETTLED and _key(path, path.stat()) == key:
        known[key] = checksum
        if before.st_size > _LARGE:
            try:  # appended: jobs that run at once do not lose each other's lines
                with _memory().open("a") as memory:
                    memory.write(f"{key} {checksum}\n")
            except (OSError, RuntimeError) as error:
                if before.st_size > SMALL:
                    _warn_of(str(error))
    return checksum


def state_of(path: str | Path) -> tuple[int, ...] | None:
    """What differs if a file is changed or replaced; None if that cannot be told.

    It cannot of a folder, nor of a file that has changed a moment ago.
    """
    path = Path(path)
    if not path.is_file():
        return None
    found = path.stat()
    is_settled = time.time_ns() - found.st_ctime_ns > _SETTLED
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return state if is_settled else None


def files_at(path: str | Path) -> list[Path]:
    """The files at a path: a file itself, those in a folder (`files_in`), or those of a pattern.

    Of a folder that ends in `MODEL_FILES` or `TEXT_FILES`, those that are read of a model or texts.
    """
    place = Path(folder_of(path))
    if place != Path(path):
        if str(path).endswith(TEXT_FILES):
            return [file for file in files_at(place) if TEXT_NAME.fullmatch(file.name)]
        beside = sorted(place.iterdir()) if place.is_dir() else []
        return [file for file in beside if file.suffix in MODEL_ENDINGS and file.is_file()]
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

    Hidden files are not content: the tokens of a corpus, metadata of git and hubs. Neither is
    Python's compiled code, which whoever runs a program writes next to it. Each folder is
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
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def _key(path: Path, found: os.stat_result) -> str:
    # In images of file systems, all files may have equal times, and two images equal inodes.
    real = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
    times = f"{found.st_mtime_ns} {found.st_ctime_ns}"
    return f"{real} {found.st_dev} {found.st_ino} {found.st_size} {times}"


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
    access = folder.stat()
    # A link of another user could be led elsewhere at any time.
    if {access.st_uid, folder.lstat().st_uid} != {os.getuid()} or access.st_mode & 0o022:
        raise PermissionError(f"{folder}: others can write to it")
    return folder / "checksums"


@cache
def _warn_of(reason: str) -> None:
    logger.warning(
        "checksums of large files cannot be remembered, so that each job and each plan reads the "
        "files again: %s",
        reason,
    )
