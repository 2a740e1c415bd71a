"""Local files that settings of texts name, checked before any job starts.

Uses the standard library only, since the Snakefile runs these checks each time it is parsed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError

_PARTS = ("text", "parallel", "english", "summarization")
_FILE_KEYS = ("path", "paths", "source", "target", "quality")


def check_files(settings: Mapping[str, Any], where: str) -> None:
    """Check that every local file that settings name exists and is not empty.

    `settings` is the entry of a language in the registry, or any other with a `text`: samples,
    examples or a test set; `where` is its key for messages, such as `languages.te`. Data of the
    loader `datasets` are checked by the job that reads them. Raises `UserError` with the key and
    the path of the first file that is missing or empty.
    """
    for key, path in _files(settings):
        check_file(path, f"{where}.{key}")


def check_file(path: str | Path, where: str) -> None:
    """Check that a file exists and is not empty; the UserError begins with `where`."""
    if not Path(path).is_file():
        raise UserError(f"{where}: {path}: there is no such file")
    if Path(path).stat().st_size == 0:
        raise UserError(f"{where}: {path}: the file is empty")


def local_files(settings: Mapping[str, Any]) -> list[str]:
    """The distinct local files that settings name."""
    return list(dict.fromkeys(path for _, path in _files(settings)))


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
