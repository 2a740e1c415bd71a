"""Unpack selected files of wheels and npm tarballs, and read the licence that they declare.

Members of both are checked in the same way: tarfile's filter would accept links inside the folder,
and zipfile has no filter.
"""

import gzip
import json
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from lexigraft.errors import UserError

# A package of text and quantized weights unpacks to a few times its size. An archive that claims
# more than this factor is a decompression bomb.
_LARGEST_FACTOR = 100
_ALWAYS_ALLOWED = 100 << 20  # bytes that are unpacked regardless of the factor


def unpack(archive: Path, patterns: Sequence[str], folder: Path) -> None:
    """Unpack the members of a wheel (zip) or npm tarball (tar.gz) that match a shell pattern.

    Raises `UserError` if the archive is damaged or would unpack to far more than its size, a
    pattern matches nothing, or a matching member is a link or would be written outside `folder`.
    """
    with _open_archive(archive) as members:
        for pattern in patterns:
            if not any(fnmatchcase(member.name, pattern) for member in members):
                raise UserError(
                    f"package {archive.name}: no file matches '{pattern}'; correct members in "
                    "config/packages.yaml"
                )
        for member in members:
            if not any(fnmatchcase(member.name, pattern) for pattern in patterns):
                continue
            path = PurePosixPath(member.name)
            leads_out = path.is_absolute() or ".." in path.parts
            if not member.is_plain or leads_out or "\\" in member.name or ":" in member.name:
                raise UserError(
                    f"package {archive.name}: refused, its member '{member.name}' is a link or "
                    "leads outside the folder"
                )
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with member.open() as content, target.open("wb") as out:
                shutil.copyfileobj(content, out)


def licence_of(archive: Path) -> str:
    """The licence that a package declares, or "not stated".

    For a wheel, the core metadata: a licence expression, the first line of a licence text, or a
    classifier. For a tarball, the `license` field of `package.json`.
    """
    is_wheel = archive.suffix == ".whl"
    name = re.compile(r"[^/]*\.dist-info/METADATA" if is_wheel else r"[^/]*/package\.json")
    text = ""
    with _open_archive(archive) as members:
        for member in members:
            if member.is_plain and name.fullmatch(member.name):
                with member.open() as content:
                    text = content.read().decode("utf-8", "replace")
                break
    if not is_wheel:
        try:
            licence = json.loads(text or "{}").get("license")
        except (ValueError, AttributeError):
            return "not stated"
        # Old packages have {"type": "MIT", "url": …}.
        return str((licence.get("type") if isinstance(licence, dict) else licence) or "not stated")
    metadata = HeaderParser().parsestr(text)
    classifiers = metadata.get_all("Classifier", [])
    licences = [metadata.get("License-Expression"), metadata.get("License")]
    licences += [line.split("::")[-1] for line in classifiers if line.startswith("License ::")]
    first_lines = (licence.strip().partition("\n")[0].strip() for licence in licences if licence)
    # Old tools write "UNKNOWN" for a package without a licence.
    return next((line for line in first_lines if line not in ("", "UNKNOWN")), "not stated")


class _Member(NamedTuple):
    """A file of an archive; the stream that `open` returns has at most `size` bytes."""

    name: str
    size: int
    is_plain: bool  # neither a link nor a device
    open: Callable[[], Any]


@contextmanager
def _open_archive(archive: Path) -> Iterator[list[_Member]]:
    """The files and links of a `.whl` or `.tgz` in order, while the archive is open."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                yield _check_size(archive, _wheel_members(wheel))
        else:
            with tarfile.open(archive, "r:gz") as tarball:
                yield _check_size(archive, _tarball_members(tarball))
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"package {archive.name}: the file is damaged ({error})") from None


def _wheel_members(wheel: zipfile.ZipFile) -> Iterator[_Member]:
    for info in wheel.infolist():
        if not info.is_dir():
            is_link = stat.S_ISLNK(info.external_attr >> 16)
            yield _Member(info.filename, info.file_size, not is_link, partial(wheel.open, info))


def _tarball_members(tarball: tarfile.TarFile) -> Iterator[_Member]:
    for entry in tarball:
        if not entry.isdir():
            content = partial(tarball.extractfile, entry)
            yield _Member(entry.name, entry.size, entry.isfile(), content)


def _check_size(archive: Path, members: Iterator[_Member]) -> list[_Member]:
    """The members; raises a UserError if together they are far larger than their archive."""
    limit, total = max(_ALWAYS_ALLOWED, _LARGEST_FACTOR * archive.stat().st_size), 0
    checked = []
    # Checked while listing: to list the next member of a tarball decompresses the current one.
    for member in members:
        checked.append(member)
        total += member.size
        if total > limit:
            raise UserError(
                f"package {archive.name}: refused, it unpacks to more than {limit >> 20} MB, "
                f"{_LARGEST_FACTOR} times its size"
            )
    return checked
