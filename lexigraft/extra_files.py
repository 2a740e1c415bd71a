"""Copies of the files that only some outputs of a kind have, in one archive that all outputs have.

Snakemake must know the files of a job by name before the job runs, and its cache between workflows
restores only those. Whether a tokenizer has a `tokenizer.model` or a chat template depends on the
source model. Such files are therefore also packed into `extra_files.zip`, and restored from it
where they are missing.
"""

import zipfile
from collections.abc import Iterable
from pathlib import Path

from lexigraft.atomic import replacing
from lexigraft.errors import UserError

EXTRA_FILES = "extra_files.zip"
_DATE = (1980, 1, 1, 0, 0, 0)  # fixed, so that equal files give equal bytes


def pack(folder: str | Path, names: Iterable[str]) -> str:
    """Write `extra_files.zip` with these files of `folder` (possibly none) and return its name."""
    folder = Path(folder)
    with replacing(folder / EXTRA_FILES) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(names):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, (folder / name).read_bytes())
    return EXTRA_FILES


def unpack(folder: str | Path) -> None:
    """Extract the files of the folder's `extra_files.zip` that the folder lacks.

    Raises
    ------
    UserError
        The archive is damaged, or names a file outside the folder.
    """
    file = Path(folder) / EXTRA_FILES
    if not file.is_file():
        return
    try:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if Path(name).name != name or name in ("", ".", ".."):
                    raise UserError(f"{file}: names a file outside its folder, {name!r}")
                if not (file.parent / name).exists():
                    content = archive.read(name)
                    with replacing(file.parent / name) as temporary:
                        temporary.write_bytes(content)
    except zipfile.BadZipFile:
        raise UserError(f"{file}: damaged; delete {folder} and run again") from None
