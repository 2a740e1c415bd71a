"""Local files that a language's settings name, checked before any job starts.

Uses the standard library only, since the Snakefile runs these checks each time it is parsed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError

_PARTS = ("text", "parallel", "english", "summarization")
_FILE_KEYS = ("path", "paths", "source", "target", "quality")


def check_files(settings: Mapping[str, Any], where: str) -> None:
    """Check that every local file that a language's settings name exists and is not empty.

    Data of the loader `datasets` are checked by the job that reads them.

    Parameters
    ----------
    settings
        The language's entry in the registry.
    where
        The language's key for messages, such as `languages.te`.

    Raises
    ------
    UserError
        With the key and the path of the first file that is missing or empty.
    """
    for part, text in _texts(settings):
        _check_paths(text, f"{where}.{part}")


def local_files(settings: Mapping[str, Any]) -> list[str]:
    """The distinct local files that a language's settings name."""
    texts = (text for _, text in _texts(settings))
    return list(dict.fromkeys(path for text in texts for _, path in _paths(text)))


def check_samples_files(settings: Mapping[str, Any], where: str) -> None:
    """As `check_files`, for one entry of a language's samples."""
    _check_paths(settings.get("text") or {}, f"{where}.text")


def local_samples_files(settings: Mapping[str, Any]) -> list[str]:
    """As `local_files`, for one entry of a language's samples."""
    return [path for _, path in _paths(settings.get("text") or {})]


def _texts(settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Key and settings of each text of a language."""
    for part in _PARTS:
        yield part, settings.get(part) or {}
    for name, text in settings.get("contamination", {}).get("tests", {}).items():
        yield f"contamination.tests.{name}", text


def _check_paths(settings: Mapping[str, Any], where: str) -> None:
    for key, path in _paths(settings):
        file = f"{where}.{key}: {path}"
        if not Path(path).is_file():
            raise UserError(f"{file}: there is no such file")
        if Path(path).stat().st_size == 0:
            raise UserError(f"{file}: the file is empty")


def _paths(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in _FILE_KEYS:
        value = settings.get(key)
        if isinstance(value, str):
            yield key, value
        elif value is not None:
            for path in value:
                yield key, path
