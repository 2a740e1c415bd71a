"""What a stage reads is still what an earlier one wrote: `card.json` has sizes and checksums.

The size of every file is compared, and the SHA-256 of files up to 64 MB and of larger ones that
were written after their card. Other large files are hashed where they are read as a whole anyway
(a cell's tensors), and by `lexigraft.verification`.
"""

import json
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError
from lexigraft.provenance import is_intact, sha256_of

CARD = "card.json"
COMPLETED = ".completed{}.json"  # notes on the completion of a job, beside its card
SMALL = 64 << 20  # bytes; a tenth of a second to hash


def check_inputs(inputs: Any) -> None:
    """Check every file and folder that a job names, where a card tells of it.

    Parameters
    ----------
    inputs
        Paths, in lists and mappings as deep as they are. Of a folder all that its card lists is
        checked, of a file that file alone. Anything else, such as a hub name, passes.

    Raises
    ------
    UserError
        The first file that is missing or damaged, what is wrong with it, and what to do.
    """
    if isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    if isinstance(inputs, list):
        for one in inputs:
            check_inputs(one)
    elif isinstance(inputs, str | Path):
        path = Path(inputs)
        if path.is_dir():
            check_folder(path)
        elif path.is_file():
            _check_file(path)


def check_folder(folder: str | Path) -> None:
    """Check all that a folder's card lists; a folder without a card passes.

    Raises
    ------
    UserError
        See `check_inputs`.
    """
    folder = Path(folder)
    if (folder / CARD).is_file():
        for file, described in listed(folder, read_card(folder)):
            _refuse_if_damaged(folder, file, described)


def read_card(folder: Path, name: str = CARD) -> dict[str, Any]:
    """A card of a folder.

    Raises
    ------
    UserError
        It is damaged.
    """
    try:
        card = json.loads((folder / name).read_text("utf-8"))
        if isinstance(card, dict) and is_intact(card):
            return card
    except (OSError, ValueError):
        pass
    raise UserError(f"{folder / name}: damaged{_remedy(folder)}")


def cards_of(folder: Path) -> Iterator[dict[str, Any]]:
    """What says of a folder's files what they are: its card, and the notes on records in it.

    A record has no card, but the notes on its completion (`lexigraft.completion`) hold the same.

    Raises
    ------
    UserError
        The card is damaged. Damaged notes say nothing: their record is made anew.
    """
    if (folder / CARD).is_file():
        yield read_card(folder)
    for notes in sorted(folder.glob(COMPLETED.format("*"))):
        try:
            card = json.loads(notes.read_text("utf-8"))["card"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(card, dict) and card.keys() == {"files"}:
            yield card


def listed(folder: Path, card: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The files that a card tells of, each with its size and checksum.

    Those of a source model that stays where it is lie in the folder that `source.json` names.
    """
    for name, described in _described(card, "files"):
        yield folder / name, described
    if files := _described(card, "model_files"):
        # Its own checksum was compared a line ago.
        model = folder / json.loads((folder / "source.json").read_text("utf-8"))["path"]
        for name, described in files:
            yield model / name, described


def fault_of(file: Path, described: Mapping[str, Any], since: int = 0) -> str | None:
    """What is wrong with a file, in words, or None.

    Parameters
    ----------
    described
        Its `bytes` and `sha256`.
    since
        When its card was written, in nanoseconds of Unix time. A large file that is not newer is
        not hashed; with 0 every file is.
    """
    try:
        found = file.stat()
    except FileNotFoundError:
        return "missing"
    if not stat.S_ISREG(found.st_mode):
        return "not a file"
    if found.st_size != described["bytes"]:
        return f"has {found.st_size} bytes instead of {described['bytes']}"
    is_hashed = found.st_size <= SMALL or found.st_mtime_ns > since
    if is_hashed and sha256_of(file) != described["sha256"]:
        return "damaged, its SHA-256 is not the card's"
    return None


def _check_file(path: Path) -> None:
    """Check one file by what is noted beside it."""
    for card in cards_of(path.parent):
        if described := dict(_described(card, "files")).get(path.name):
            _refuse_if_damaged(path.parent, path, described)


def _refuse_if_damaged(folder: Path, file: Path, described: Mapping[str, Any]) -> None:
    card = folder / CARD
    if fault := fault_of(file, described, card.stat().st_mtime_ns if card.is_file() else 0):
        raise UserError(f"{file}: {fault}{_remedy(folder)}")


def _described(card: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    """The entries of a card that say what a file is; other tables of that name have none."""
    files = card.get(key)
    entries = files.items() if isinstance(files, dict) else ()
    return [
        (name, described)
        for name, described in entries
        if isinstance(described, dict) and {"bytes", "sha256"} <= described.keys()
    ]


def _remedy(folder: Path) -> str:
    return f"; restore it, or delete {folder} and run again, which makes it anew"
