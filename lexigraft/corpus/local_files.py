"""Check the local files that settings of texts name before any job starts.

Standard library only: the Snakefile runs these checks each time it is parsed.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError

_PARTS = ("text", "parallel", "english", "summarization")
_FILE_KEYS = ("path", "paths", "source", "target", "quality")
# Names of files that are read from a folder of texts.
_TEXTS = re.compile(r".*\.(parquet|(txt|jsonl)(\.(gz|xz|zst))?)")


def text_files(path: str | Path) -> list[Path]:
    """The files that the path of a text refers to: the file, or all texts in a folder, by name.

    Texts in a folder and its subfolders are files whose names end in `.txt`, `.jsonl` (both also
    with `.gz`, `.xz` or `.zst`) or `.parquet`; hidden files and folders are skipped, links are
    followed. Raises `UserError` if there are none.
    """
    found = _expanded(path)
    if not found:
        raise UserError(
            f"{path}: the folder contains no text files; their names must end in .txt or .jsonl "
            "(optionally compressed: .gz, .xz, .zst) or .parquet"
        )
    return found


def check_files(settings: Mapping[str, Any], where: str) -> None:
    """Check that every local file that settings name exists and is not empty.

    `settings` is the entry of a language in the registry, or any other with a `text`: samples,
    examples or a test set; `where` is its key for messages, such as `languages.te`. Data for the
    loader `datasets` is checked by the job that reads it. Raises `UserError` with the key and the
    path of the first file that is missing or empty.
    """
    for key, path in _files(settings):
        try:
            files = text_files(path) if key.endswith(".paths") else [Path(path)]
        except UserError as error:
            raise UserError(f"{where}.{key}: {error}") from None
        for file in files:
            check_file(file, f"{where}.{key}")


def check_file(path: str | Path, where: str) -> None:
    """Check that a file exists and is not empty; the UserError begins with `where`."""
    if not Path(path).is_file():
        raise UserError(f"{where}: {path}: there is no such file")
    if Path(path).stat().st_size == 0:
        raise UserError(f"{where}: {path}: the file is empty")


def local_files(settings: Mapping[str, Any]) -> list[str]:
    """The distinct local files that settings name, directly or through their folder."""
    paths = (path for _, path in _files(settings))
    return list(dict.fromkeys(str(file) for path in paths for file in _expanded(path)))


def _files(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and path of each local file."""
    texts = {part: settings.get(part) or {} for part in _PARTS}
    for name, text in settings.get("contamination", {}).get("tests", {}).items():
        texts[f"contamination.tests.{name}"] = text
    for part, text in texts.items():
        for key in _FILE_KEYS:
            paths = text.get(key)
            for path in [paths] if isinstance(paths, str) else paths or []:
                yield f"{part}.{key}", path


def _expanded(path: str | Path) -> list[Path]:
    """The files of a folder of texts; any other path is returned unchanged."""
    path = Path(path)
    if not path.is_dir():
        return [path]
    # A link that leads nowhere stays, whatever its name: it may be a folder on a missing disk.
    return [one for one in files_below(path) if _TEXTS.fullmatch(one.name) or not one.exists()]


def files_below(folder: str | Path) -> list[Path]:
    """The files in a folder and its subfolders by name, without hidden files and folders.

    Links are followed, and each file and folder is listed once, so that links in a circle end.
    Raises `UserError` if a folder cannot be read.
    """
    real: set[str] = set()

    def is_new(path: str | Path) -> bool:
        known = len(real)
        real.add(os.path.realpath(path))
        return len(real) > known

    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename}: the folder cannot be read ({error.strerror})")

    found: list[Path] = []
    for place, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        if is_new(place):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            shown = (Path(place, name) for name in sorted(files) if not name.startswith("."))
            found += filter(is_new, shown)
        else:
            folders.clear()
    return sorted(found)
