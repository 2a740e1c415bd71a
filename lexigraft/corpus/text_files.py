"""The user's files and folders of text, as settings of the readers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lexigraft.corpus.local_files import check_file
from lexigraft.errors import UserError

FIELD = "text"  # of JSON lines and of Parquet, unless the user names another
_COMPRESSED = (".gz", ".xz", ".zst")
# Suffix -> loader; of a folder, files with other names are left alone.
_LOADERS = {".txt": "text", ".jsonl": "jsonl", ".parquet": "parquet"}


def text_settings(places: Sequence[str | Path], field: str = FIELD) -> dict[str, Any]:
    """The `text` of a language (see `readers.read_sentences`) in some files and folders.

    A folder stands for the text files in it and below it; a file with an unknown suffix is read as
    plain text. `field` is the key of JSON lines, or the column of Parquet. Paths are absolute.
    Raises a `UserError` if a file is missing or empty, a folder has no text, or the files are of
    several formats.
    """
    files = [file for place in places for file in _files(Path(place).expanduser().resolve())]
    loaders = {_loader(file) or "text" for file in files}
    if len(loaders) > 1:
        raise UserError(
            f"text: {', '.join(str(place) for place in places)} hold several formats "
            f"({', '.join(sorted(loaders))}); give files of one format"
        )
    (loader,) = loaders
    for file in files:
        check_file(file, "text")
    paths = [str(file) for file in files]
    if loader == "text":
        return {"loader": "text", "paths": paths}
    key = "field" if loader == "jsonl" else "column"
    if len(paths) == 1:
        return {"loader": loader, "path": paths[0], key: field}
    format_name = "json" if loader == "jsonl" else "parquet"
    return {
        "loader": "datasets",
        "name": format_name,
        "split": "train",
        "data_files": paths,
        "column": field,
    }


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    found = sorted(file for file in place.rglob("*") if file.is_file() and _loader(file))
    if not found:
        names = ", ".join(_LOADERS)
        raise UserError(f"text: {place}: the folder has no {names} file, compressed or not")
    return found


def _loader(file: Path) -> str | None:
    """The loader of a file by its name; None if it has no suffix of a text."""
    name = file.with_suffix("") if file.suffix in _COMPRESSED else file
    return _LOADERS.get(name.suffix)
