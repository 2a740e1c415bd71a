"""Wheels (zip) and npm tarballs (tar.gz): unpack selected members as plain files, read licences."""

import gzip
import json
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from lexigraft.errors import UserError

# A package of text and quantized weights unpacks to a few times its size. An archive that claims
# more than this factor is a decompression bomb.
_FACTOR = 100
_ALWAYS = 100 << 20  # bytes that are unpacked whatever the factor


@dataclass(frozen=True)
class Member:
    """One file of an archive; `open` reads its content, never more than `size` bytes."""

    name: str
    size: int
    is_link: bool
    open: Callable[[], IO[bytes] | None]


@contextmanager
def opened(archive: str | Path) -> Iterator[list[Member]]:
    """The files and links of a `.whl` or `.tgz` in order, while the archive is open.

    Raises
    ------
    UserError
        The file is not such an archive, is damaged, or would unpack to far more than its size.
    """
    archive = Path(archive)
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                yield _bounded(archive, (_of_wheel(wheel, info) for info in wheel.infolist()))
        else:
            with tarfile.open(archive, "r:gz") as tarball:
                # One by one, since listing what follows a member decompresses the whole member.
                yield _bounded(archive, (_of_tarball(tarball, entry) for entry in tarball))
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"package {archive.name}: the file is damaged ({error})") from None


def unpack(archive: str | Path, members: Sequence[str], folder: str | Path) -> None:
    """Unpack the members whose path matches a shell pattern; `*` also matches `/`.

    Raises
    ------
    UserError
        The archive is damaged, a pattern matches nothing, or a matching member is a link or
        would be written outside `folder`.
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


def licence_of(archive: Path) -> str:
    """The licence that a package declares, or "not stated".

    For a wheel, the core metadata: a licence expression, the first line of a licence text, or a
    classifier. For a tarball, the `license` field of `package.json`.
    """
    with opened(archive) as files:
        if archive.suffix == ".whl":
            return _wheel_licence(_read_text(files, "*.dist-info/METADATA")) or "not stated"
        return _tarball_licence(_read_text(files, "*/package.json")) or "not stated"


def _wheel_licence(text: str) -> str | None:
    metadata = HeaderParser().parsestr(text)
    classifiers = metadata.get_all("Classifier", [])
    texts = [metadata.get("License-Expression"), metadata.get("License")]
    texts += [line.split("::")[-1] for line in classifiers if line.startswith("License ::")]
    return next((text.strip().splitlines()[0] for text in texts if text and text.strip()), None)


def _tarball_licence(text: str) -> str | None:
    try:
        licence = json.loads(text or "{}").get("license")
    except (ValueError, AttributeError):
        return None
    # Old packages have {"type": "MIT", "url": …}.
    licence = licence.get("type") if isinstance(licence, dict) else licence
    return str(licence) if licence else None


def _read_text(files: Sequence[Member], pattern: str) -> str:
    """The first file whose path matches at the pattern's own depth; empty if there is none."""
    for file in files:
        same_depth = file.name.count("/") == pattern.count("/")
        if same_depth and not file.is_link and fnmatchcase(file.name, pattern):
            content = file.open()
            if content is not None:
                with content:
                    return content.read().decode("utf-8", "replace")
    return ""


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
    limit, total = max(_ALWAYS, _FACTOR * archive.stat().st_size), 0
    bounded = []
    for member in members:
        if member is not None:
            bounded.append(member)
            total += member.size
            if total > limit:
                raise UserError(
                    f"package {archive.name}: refused, it unpacks to more than {limit >> 20} MB, "
                    f"{_FACTOR} times its size"
                )
    return bounded


def _safe_path(file: Member, archive: str) -> Path:
    path = PurePosixPath(file.name)
    leads_out = path.is_absolute() or ".." in path.parts
    if file.is_link or leads_out or "\\" in file.name or ":" in file.name:
        raise UserError(
            f"package {archive}: refused, its member '{file.name}' is a link or leads outside "
            "the folder"
        )
    return Path(*path.parts)
