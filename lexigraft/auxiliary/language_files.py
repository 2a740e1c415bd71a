"""The word vector files and bilingual dictionaries of a language; without slow imports."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lexigraft.corpus.local_files import check_file
from lexigraft.errors import UserError

BINARY = ".bin"
END_OF_LINE = "</s>"  # the word that fastText adds to every line
FORMATS = (BINARY, ".vec", ".vec.gz")


def word_vector_files(
    name: str, entry: Any, language: str, language_settings: Any
) -> dict[str, tuple[str, str | None]]:
    """The files from which word vectors of a language's tokens are read: config key and path of
    each.

    `name` and `entry` are an auxiliary of kind `word-vectors` (`WordVectors`), `language` and
    `language_settings` a language (`LanguageConfig`). The files are `word_vectors` and, if these
    are aligned, `english_word_vectors` and `dictionary`.
    """
    of_english = entry.of == "english"
    keys = {"word_vectors": "english_word_vectors" if of_english else "word_vectors"}
    if entry.aligned_by:
        keys |= {key: key for key in ("english_word_vectors", "dictionary")}
    files = {
        role: (f"languages.{language}.{key}", getattr(language_settings, key))
        for role, key in keys.items()
    }
    if entry.path is not None:
        files["word_vectors"] = (f"auxiliary.{name}.path", entry.path)
    return files


def check_word_vectors(path: str | Path, where: str) -> None:
    """Raise a UserError, which names `where`, unless a file exists, is not empty and has a known
    format.
    """
    if not Path(path).name.endswith(FORMATS):
        raise UserError(f"{where}: {path} is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file")
    if Path(path).suffix == BINARY:
        check_fasttext(where)
    check_file(path, where)


def check_fasttext(where: str) -> None:
    """Raise a UserError, which begins with `where`, if fastText is not installed."""
    if find_spec("fasttext") is None:
        raise UserError(
            f"{where}: needs fastText, which is not installed; run `pip install fasttext-wheel` "
            "with Python 3.11 or 3.12 (there is no wheel for 3.13)"
        )


def read_dictionary(path: str | Path, repeated: bool = False) -> list[tuple[str, str]]:
    """Read a bilingual dictionary: pairs `(English, translation)` in the order of the file.

    Each pair is returned once or, if `repeated`, as often as it occurs. The file is UTF-8 text with
    one pair per line: two entries separated by a tab (WECHSEL), or two words separated by spaces
    (MUSE). A UserError is raised if it is missing, empty or not UTF-8, or a line is not a pair.

    Examples
    --------
    >>> from lexigraft.auxiliary import read_dictionary
    >>> _ = Path("telugu.txt").write_text("river\\tనది\\nwater\\tనీరు\\n", encoding="utf-8")
    >>> read_dictionary("telugu.txt")
    [('river', 'నది'), ('water', 'నీరు')]
    """
    check_file(path, "dictionary")
    pairs: list[tuple[str, str]] = []
    try:
        with Path(path).open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line := line.strip():
                    words = [word.strip() for word in line.split("\t" if "\t" in line else None)]
                    if len(words) != 2 or not all(words):
                        raise UserError(
                            f"{path}: line {number}: not an English word, a tab and its translation"
                        )
                    pairs.append((words[0], words[1]))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from None
    if not pairs:
        raise UserError(f"{path}: contains no word pairs")
    return pairs if repeated else list(dict.fromkeys(pairs))
