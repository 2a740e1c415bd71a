"""Files that only some outputs of a kind have, once more in one archive that all of them have.

Snakemake must know the files of a job by name before the job runs, and its cache between workflows
brings back those alone. Whether a tokenizer has a `tokenizer.model` or a chat template depends on
the source model. So such files go into `others.zip`, too, and come out of it where they lack.
"""

import zipfile
from collections.abc import Iterable
from pathlib import Path

from lexigraft.atomic import replacing
from lexigraft.errors import UserError

OTHERS = "others.zip"
_DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is written


def pack(folder: str | Path, names: Iterable[str]) -> str:
    """Write `others.zip` of these files in `folder`, of none too; returns its name."""
    folder = Path(folder)
    with replacing(folder / OTHERS) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(names):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, (folder / name).read_bytes())
    return OTHERS


def unpack(folder: str | Path) -> None:
    """Put the files of the folder's `others.zip` beside it that are not there.

    Raises
    ------
    UserError
        The archive is damaged, or names a file that would lie elsewhere.
    """
    file = Path(folder) / OTHERS
    if not file.is_file():
        return
    try:
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if Path(name).name != name or name in ("", ".", ".."):
                    raise UserError(f"{file}: names a file outside of its folder, {name!r}")
                if not (file.parent / name).exists():
                    content = archive.read(name)
                    with replacing(file.parent / name) as temporary:
                        temporary.write_bytes(content)
    except zipfile.BadZipFile:
        raise UserError(f"{file}: damaged; delete {folder} and run again") from None
