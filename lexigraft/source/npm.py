"""Packages of the npm registry, over HTTPS: neither node nor npm need be installed."""

import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.source.archives import opened, read_text

DEFAULT_REGISTRY = "https://registry.npmjs.org"

_NAME = re.compile(r"(@[A-Za-z0-9_-][A-Za-z0-9._-]*/)?[A-Za-z0-9_-][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+-]*")
_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without a byte


def download_tarball(name: str, version: str, folder: Path) -> Path:
    """Download one package into `folder`: `name` may have a scope (`@scope/name`).

    Raises
    ------
    UserError
        The registry cannot be reached, wants a login, or has no such version.
    """
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        raise UserError(f"package {name}@{version}: not a package name and version")
    file = folder / f"{name.split('/')[-1]}-{version}.tgz"
    # Every registry lays its tarballs out like this; asking it for the address would be a second
    # request, whose answer may name a host that a mirror's user cannot reach.
    address = f"{registry_of(name)}/{name}/-/{file.name}"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as answer, file.open("wb") as out:
            size = int(answer.headers.get("Content-Length") or 0)
            with tqdm(
                total=size or None, unit="B", unit_scale=True, desc=name, disable=None
            ) as progress:
                while chunk := answer.read(_CHUNK):
                    out.write(chunk)
                    progress.update(len(chunk))
        if file.stat().st_size < size:
            raise UserError(f"package {name}@{version}: the download broke off; try again")
    except urllib.error.HTTPError as error:
        reason = {
            401: "the npm registry asks for a login, which is not supported; use another registry",
            403: "the npm registry refuses it; check npm_config_registry",
            404: "the npm registry has no such package or version",
        }.get(error.code, f"the npm registry answers {error.code} ({error.reason})")
        raise UserError(f"package {name}@{version}: {reason}") from None
    except OSError as error:
        raise UserError(
            f"package {name}@{version}: the npm registry cannot be reached ({error}); check the "
            "network or npm_config_registry"
        ) from None
    return file


def registry_of(name: str) -> str:
    """Address of the registry for a package, as npm itself would choose it.

    `npm_config_registry` of the environment, else the scope's or the general `registry` of the
    user's `.npmrc`, else the public one.

    Raises
    ------
    UserError
        It is no http(s) address, or has a login in it.
    """
    settings = _npmrc()
    scope = f"{name.split('/')[0]}:registry" if name.startswith("@") else ""
    environment = {key.lower(): value for key, value in os.environ.items()}
    address = (
        settings.get(scope)
        or environment.get("npm_config_registry")
        or settings.get("registry")
        or DEFAULT_REGISTRY
    )
    if "@" in address.partition("://")[2].partition("/")[0]:
        # Not repeated: the message goes into logs.
        raise UserError("npm registry: its address has a login in it, which is not supported")
    if not re.match(r"https?://", address):
        raise UserError(f"npm registry {address!r}: not an http:// or https:// address")
    return address.rstrip("/")


def tarball_licence(tarball: Path) -> str:
    """The licence that `package.json` names."""
    with opened(tarball) as files:
        text = read_text(files, "*/package.json")
    try:
        licence = json.loads(text or "{}").get("license")
    except (ValueError, AttributeError):
        licence = None
    # Old packages hold {"type": "MIT", "url": …}.
    licence = licence.get("type") if isinstance(licence, dict) else licence
    return str(licence) if licence else "not stated"


def _npmrc() -> dict[str, str]:
    """Keys of the user's npm configuration; `${NAME}` stands for an environment variable."""
    environment = {key.lower(): value for key, value in os.environ.items()}
    file = Path(environment.get("npm_config_userconfig") or Path.home() / ".npmrc")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith((";", "#")):
            value = value.strip().strip("\"'")
            found[key.strip()] = re.sub(
                r"\$\{([^}]+)\}", lambda match: os.environ.get(match[1], ""), value
            )
    return found
