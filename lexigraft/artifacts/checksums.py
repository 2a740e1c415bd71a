"""Checksums of the user's files and folders, by content; those of large files are remembered.

Each job of a run plans again, so the user's cache folder remembers a checksum by path, device,
inode, size and times. Standard library only: the Snakefile computes checksums when it is parsed.
"""

import hashlib
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from glob import glob, has_magic
from pathlib import Path

from lexigraft.artifacts.atomic import atomic_file
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
    key, remembered = _key(path, before), _remembered()
    if key in remembered:
        return remembered[key]
    checksum = _sha256(path, before.st_size)
    if time.time_ns() - before.st_ctime_ns > _SETTLED and _key(path, path.stat()) == key:
        remembered[key] = checksum
        if before.st_size > _LARGE:
            try:  # appended: jobs that run at once do not lose each other's lines
                with _cache_file().open("a") as file:
                    file.write(f"{key} {checksum}\n")
            except (OSError, RuntimeError) as error:
                if before.st_size > SMALL:
                    _warn_of(str(error))
    return checksum


def state_of(path: str | Path) -> tuple[int, ...] | None:
    """Facts about a file that change if it is changed or replaced.

    None for a folder, and for a file that has changed a moment ago: it may change again unnoticed.
    """
    facts = Path(path).stat() if Path(path).is_file() else None
    if facts is None or time.time_ns() - facts.st_ctime_ns <= _SETTLED:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def is_private(folder: Path, allow_link: bool = False) -> bool:
    """Whether a folder belongs to this user, and nobody else can write to it.

    A link is refused, or with `allow_link` must be the user's: others could lead theirs elsewhere.
    """
    access, link = folder.stat(), folder.lstat()
    return (
        stat.S_ISDIR(access.st_mode)
        and access.st_uid == link.st_uid == os.getuid()
        and not access.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and (allow_link or not stat.S_ISLNK(link.st_mode))
    )


def files_at(path: str | Path) -> list[Path]:
    """The files at a path: a file itself, those in a folder (`files_in`), or those of a pattern.

    Of a folder that ends in `MODEL_FILES` or `TEXT_FILES`, those that are read of a model or texts.
    """
    location = Path(folder_of(path))
    if str(path).endswith(TEXT_FILES):
        return [file for file in files_at(location) if TEXT_NAME.fullmatch(file.name)]
    if str(path).endswith(MODEL_FILES):
        files = sorted(location.iterdir()) if location.is_dir() else []
        return [file for file in files if file.suffix in MODEL_ENDINGS and file.is_file()]
    if location.is_dir():
        return [file for file in files_in(location) if file.is_file()]
    if location.is_file() or not has_magic(str(path)):
        return [location] if location.is_file() else []
    # Path.glob takes no absolute pattern.
    matching = map(Path, sorted(glob(str(path), recursive=True)))  # noqa: PTH207
    return [file for file in matching if file.is_file()]


def files_in(
    folder: str | Path, onerror: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """The files of a folder and its subfolders, with linked ones, without hidden ones.

    Hidden files and compiled code are not content. Each folder is entered once, so that links in a
    circle end. `onerror` is called for a folder that cannot be read; by default it is skipped.
    """
    entered: set[str] = set()
    for parent, folders, names in os.walk(folder, onerror=onerror, followlinks=True):
        real_path = os.path.realpath(parent)
        if real_path in entered:
            folders.clear()
            continue
        entered.add(real_path)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def _key(path: Path, facts: os.stat_result) -> str:
    # In images of file systems, all files may have equal times, and two images equal inodes.
    real_path = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
    times = f"{facts.st_mtime_ns} {facts.st_ctime_ns}"
    return f"{real_path} {facts.st_dev} {facts.st_ino} {facts.st_size} {times}"


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
def _remembered() -> dict[str, str]:
    """Key of a file -> its checksum, of this process and of those before it."""
    with suppress(OSError, RuntimeError, UnicodeDecodeError):
        cache_file = _cache_file()
        lines = cache_file.read_text("ascii").splitlines()
        if len(lines) > _MOST:
            lines = lines[-_MOST // 2 :]
            with suppress(OSError), atomic_file(cache_file) as temporary:
                temporary.write_text("\n".join(lines) + "\n", "ascii")
        matches = map(_LINE.fullmatch, lines)
        return {match[1]: match[2] for match in matches if match}  # damaged lines are skipped
    return {}


def _cache_file() -> Path:
    """The file of remembered checksums; an OSError if others could write to its folder."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lexigraft"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(folder, allow_link=True):
        raise PermissionError(f"{folder}: others can write to it")
    return folder / "checksums"


@cache
def _warn_of(reason: str) -> None:
    logger.warning(
        "checksums of large files cannot be remembered, so that each job and each plan reads the "
        "files again: %s",
        reason,
    )
