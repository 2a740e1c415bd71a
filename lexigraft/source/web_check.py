"""Check the files and packages of a study that are not on the hub; nothing is downloaded."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from lexigraft.addresses import without_secrets
from lexigraft.errors import UserError
from lexigraft.source.download import RefusedError, Remote, ask_file
from lexigraft.source.hub_check import GATED, MISSING, NO_ANSWER, OK, UNUSABLE, HubAnswer
from lexigraft.source.packages import npm_address

CHANGED = "changed"
_PYPI = "https://pypi.org/simple"
_JSON = "application/vnd.pypi.simple.v1+json"
_SECONDS = 20.0  # timeout of an answer


def ask_web(url: str, recorded: Remote | None = None) -> HubAnswer:
    """Query a server for a file; `recorded` is its answer at the download, if it was fetched."""
    try:
        found = ask_file(url)
    except RefusedError as error:
        if error.status in (401, 403):
            return HubAnswer(GATED, f"the server denies access ({error.status})")
        return HubAnswer(MISSING, f"the server returned status {error.status}")
    except UserError as error:
        return HubAnswer(NO_ANSWER, str(error).removeprefix(f"{without_secrets(url)}: "))
    pairs = ((recorded.bytes, found.bytes), (recorded.etag, found.etag)) if recorded else ()
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return HubAnswer(
            CHANGED, "the file on the server differs from the downloaded one", found.bytes
        )
    return HubAnswer(OK, "", found.bytes)


def ask_package(settings: Mapping[str, Any]) -> HubAnswer:
    """Query a registry for the pinned version of a package in `config/packages.yaml`."""
    name, version = settings["name"], settings["version"]
    try:
        if settings["registry"] == "npm":
            return ask_web(npm_address(name, version))
        return _ask_pypi(name, version, settings["sha256"])
    except UserError as error:
        return HubAnswer(NO_ANSWER, str(error))


def _ask_pypi(name: str, version: str, sha256: str) -> HubAnswer:
    import requests

    project = re.sub("[-_.]+", "-", name).lower()
    address = f"{_index()}/{project}/"
    try:
        answer = requests.get(address, headers={"Accept": f"{_JSON}, */*"}, timeout=_SECONDS)
    except requests.RequestException as error:
        return HubAnswer(NO_ANSWER, f"PyPI cannot be reached ({type(error).__name__})")
    if answer.status_code == 404:
        return HubAnswer(MISSING, "PyPI has no such package")
    if not answer.ok:
        return HubAnswer(NO_ANSWER, f"PyPI returned status {answer.status_code}")
    if not answer.headers.get("Content-Type", "").startswith(_JSON):  # HTML, as from old mirrors
        found = sha256 in answer.text
        return HubAnswer(OK) if found else HubAnswer(MISSING, f"no pinned file of {version}")
    for file in answer.json()["files"]:
        if file["hashes"].get("sha256") == sha256:
            return HubAnswer(OK, "", file.get("size"))
    named = [file for file in answer.json()["files"] if f"-{version}-" in file["filename"]]
    if named:
        return HubAnswer(UNUSABLE, f"no file of {version} has the pinned SHA-256")
    return HubAnswer(MISSING, f"PyPI has no version {version}")


def _index() -> str:
    """The URL of the index that pip uses."""
    address = os.environ.get("PIP_INDEX_URL")
    if not address:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        address = asked.stdout.strip() if asked.returncode == 0 else ""
    return (address or _PYPI).rstrip("/")
