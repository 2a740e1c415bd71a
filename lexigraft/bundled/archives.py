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
from typing import Any

from lexigraft.errors import UserError

# A package of text and quantized weights unpacks to a few times its size. An archive that claims
# more than this factor is a decompression bomb.
_LARGEST_FACTOR = 100
_ALWAYS_ALLOWED = 100 << 20  # bytes that are unpacked regardless of the factor
# Name, size, whether it is neither a link nor a device, and how it is opened; the stream has at
# most that size.
_Member = tuple[str, int, bool, Callable[[], Any]]


def unpack(archive: Path, patterns: Sequence[str], folder: Path) -> None:
    """Unpack the members of a wheel (zip) or npm tarball (tar.gz) that match a shell pattern.

    Raises `UserError` if the archive is damaged or would unpack to far more than its size, a
    pattern matches nothing, or a matching member is a link or would be written outside `folder`.
    """
    with _open_archive(archive) as members:
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name, *_ in members):
                raise UserError(
                    f"package {archive.name}: no file matches '{pattern}'; correct members in "
                    "config/packages.yaml"
                )
        for name, _, is_plain, open_member in members:
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                continue
            path = PurePosixPath(name)
            leads_out = path.is_absolute() or ".." in path.parts
            if not is_plain or leads_out or "\\" in name or ":" in name:
                raise UserError(
                    f"package {archive.name}: refused, its member '{name}' is a link or leads "
                    "outside the folder"
                )
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_member() as content, target.open("wb") as out:
                shutil.copyfileobj(content, out)


def licence_of(archive: Path) -> str:
    """The licence that a package declares, or "not stated".

    For a wheel, the core metadata: a licence expression, the first line of a licence text, or a
    classifier. For a tarball, the `license` field of `package.json`.
    """
    is_wheel = archive.suffix == ".whl"
    file = re.compile(r"[^/]*\.dist-info/METADATA" if is_wheel else r"[^/]*/package\.json")
    text = ""
    with _open_archive(archive) as members:
        for name, _, is_plain, open_member in members:
            if is_plain and file.fullmatch(name):
                with open_member() as content:
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


@contextmanager
def _open_archive(archive: Path) -> Iterator[list[_Member]]:
    """The files and links of a `.whl` or `.tgz` in order, while the archive is open."""
    limit, total = max(_ALWAYS_ALLOWED, _LARGEST_FACTOR * archive.stat().st_size), 0
    is_wheel, members = archive.suffix == ".whl", []
    try:
        with zipfile.ZipFile(archive) if is_wheel else tarfile.open(archive, "r:gz") as opened:
            # Checked while listing: to list the next member of a tarball decompresses this one.
            for member in _zipped(opened) if is_wheel else _tarred(opened):
                members.append(member)
                total += member[1]
                if total > limit:
                    raise UserError(
                        f"package {archive.name}: refused, it unpacks to more than "
                        f"{limit >> 20} MB, {_LARGEST_FACTOR} times its size"
                    )
            yield members
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"package {archive.name}: the file is damaged ({error})") from None


def _zipped(wheel: Any) -> Iterator[_Member]:
    for entry in wheel.infolist():
        if not entry.is_dir():
            is_link = stat.S_ISLNK(entry.external_attr >> 16)
            yield entry.filename, entry.file_size, not is_link, partial(wheel.open, entry)


def _tarred(tarball: Any) -> Iterator[_Member]:
    for entry in tarball:
        if not entry.isdir():
            yield entry.name, entry.size, entry.isfile(), partial(tarball.extractfile, entry)
