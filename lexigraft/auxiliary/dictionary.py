"""A bilingual dictionary from a text file: pairs of an English word and its translation."""

from pathlib import Path

from lexigraft.auxiliary.files import check_dictionary
from lexigraft.errors import UserError


def read_dictionary(path: str | Path) -> list[tuple[str, str]]:
    """Read pairs of words, the English one first.

    Parameters
    ----------
    path
        A UTF-8 text file with a pair on every line: two entries with a tab between them, as the
        dictionaries that come with WECHSEL have it, or two words with spaces between them, as
        those of MUSE. Empty lines are passed over.

    Returns
    -------
    list
        `(English, translation)`, in the order of the file, each pair once.

    Raises
    ------
    UserError
        The file is missing or no text, a line is no pair, or there is no line at all.

    Examples
    --------
    >>> read_dictionary("telugu.txt")[0]  # doctest: +SKIP
    ('water', 'నీరు')
    """
    check_dictionary(path, "dictionary")
    pairs: dict[tuple[str, str], None] = {}
    try:
        with Path(path).open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    pairs.setdefault(_pair(line, f"{path}: line {number}"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error})") from None
    if not pairs:
        raise UserError(f"{path}: holds no pair of words")
    return list(pairs)


def _pair(line: str, where: str) -> tuple[str, str]:
    words = line.strip().split("\t") if "\t" in line.strip() else line.split()
    if len(words) != 2 or not all(word.strip() for word in words):
        raise UserError(f"{where}: is no pair of an English word, a tab and its translation")
    return words[0].strip(), words[1].strip()
