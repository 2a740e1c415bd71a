"""A results folder checked as a whole: every file that a card tells of is read and hashed."""

import fcntl
import fnmatch
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lexigraft.errors import UserError
from lexigraft.integrity import CARD, COMPLETED, cards_of, fault_of, listed, read_card

_ENDED = ("card*.json", COMPLETED.format("*"))  # what is left by a job that came to its end


@dataclass(frozen=True)
class Fault:
    """A file that is not what its card says, and the folder whose card that is."""

    folder: Path
    file: Path
    what: str


@dataclass(frozen=True)
class Verified:
    """What `verify` found.

    Attributes
    ----------
    folders, files, bytes
        How many folders have a card or a record, and what is noted of their files.
    faults
        Files that are missing or damaged.
    unfinished
        Folders of jobs that were begun, have no card, and on which no process works.
    """

    folders: int
    files: int
    bytes: int
    faults: list[Fault]
    unfinished: list[Path]


def verify(
    *results: str | Path, threads: int = 1, advance: Callable[[int], object] = lambda size: None
) -> Verified:
    """Hash every file that the cards in these folders tell of.

    Parameters
    ----------
    results
        Folders, such as `results` and that of unpacked packages; all folders below them count.
    threads
        Files that are read at a time.
    advance
        Told the bytes of each file when it was read.

    Raises
    ------
    UserError
        There is no such folder.
    """
    begun = [folder for top in results for folder in _folders(Path(top))]
    unfinished = [folder for folder in begun if not _is_whole(folder) and not _is_held(folder)]
    whole = [folder for folder in begun if _is_whole(folder)]
    faults, files = [], []
    for folder in whole:
        try:
            cards = list(cards_of(folder))
            files += [(folder, *entry) for card in cards for entry in listed(folder, card)]
        except UserError:
            faults.append(Fault(folder, folder / CARD, "damaged"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            faults.append(Fault(folder, folder / "source.json", f"cannot be read ({error})"))
        # What a study's card lists are records, of which another study may have made some anew.
        for file in sorted(folder.glob("card-*.json")):
            try:
                read_card(folder, file.name)
            except UserError:
                faults.append(Fault(folder, file, "damaged"))

    def look(entry: tuple[Path, Path, dict]) -> Fault | None:
        folder, file, described = entry
        fault = fault_of(file, described)
        advance(described["bytes"])
        return Fault(folder, file, fault) if fault else None

    with ThreadPoolExecutor(threads) as pool:
        faults += [fault for fault in pool.map(look, files) if fault]
    size = sum(described["bytes"] for _, _, described in files)
    return Verified(len(whole), len(files), size, faults, unfinished)


def _folders(top: Path) -> Iterator[Path]:
    """Folders in which a job was begun or ended, or a record made, in the order of their names."""
    if not top.is_dir():
        raise UserError(f"{top}: there is no such folder; name a folder of results")
    for place, folders, files in os.walk(top):
        folders.sort()
        if CARD in files or "job.json" in files or fnmatch.filter(files, _ENDED[1]):
            yield Path(place)


def _is_whole(folder: Path) -> bool:
    """Whether a job ended here: it left a card, or notes on the completion of a record."""
    return any(True for pattern in _ENDED for _ in folder.glob(pattern))


def _is_held(folder: Path) -> bool:
    """Whether a process works on a folder now, see `lexigraft.job.run`."""
    try:
        with (folder / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
