"""Whether the word vectors and the dictionary of a language are there, told before any job starts.

Only the standard library: the Snakefile checks this each time it is parsed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError

BINARY = ".bin"
FORMATS = (BINARY, ".vec", ".vec.gz")


def word_vector_files(
    name: str, entry: Mapping[str, Any], language: str, texts: Mapping[str, Any]
) -> dict[str, tuple[str, str | None]]:
    """The files that word vectors of a language's tokens are read from.

    Parameters
    ----------
    name, entry
        An auxiliary of kind `word-vectors`.
    language, texts
        A language and its settings.

    Returns
    -------
    dict
        `word_vectors` and, where they are aligned, `english_word_vectors` and `dictionary`: the key
        that names the file, and its path, None where it names none.
    """
    own = "english_word_vectors" if entry.get("of") == "english" else "word_vectors"
    files = {"word_vectors": (f"languages.{language}.{own}", texts[own])}
    if entry.get("path") is not None:
        files["word_vectors"] = (f"auxiliary.{name}.path", entry["path"])
    if entry.get("aligned_by") == "dictionary":
        for key in ("english_word_vectors", "dictionary"):
            files[key] = (f"languages.{language}.{key}", texts[key])
    return files


def check_word_vectors(path: str | Path, where: str) -> None:
    """Check that a file of word vectors is there, not empty, and of a format that can be read.

    Parameters
    ----------
    path
        The file.
    where
        What messages call it, such as `languages.te.word_vectors`.

    Raises
    ------
    UserError
        Names the key and the path, and says what is wrong.
    """
    file = Path(path)
    if not file.name.endswith(FORMATS):
        raise UserError(f"{where}: {path} is no {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file")
    if not file.is_file():
        raise UserError(f"{where}: {path}: there is no such file")
    if file.stat().st_size == 0:
        raise UserError(f"{where}: {path}: the file is empty")


def check_dictionary(path: str | Path, where: str) -> None:
    """Check that a bilingual dictionary is there and not empty; raises as `check_word_vectors`."""
    file = Path(path)
    if not file.is_file():
        raise UserError(f"{where}: {path}: there is no such file")
    if file.stat().st_size == 0:
        raise UserError(f"{where}: {path}: the file is empty")
