"""A results folder checked as a whole: every file that a card tells of is read and hashed."""

import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lexigraft.errors import UserError
from lexigraft.integrity import CARD, fault_of, listed, read_card


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
        How many cards there are, and what they tell of.
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
    whole = [folder for folder in begun if (folder / CARD).is_file()]
    unfinished = [f for f in begun if not (f / CARD).is_file() and not _is_held(f)]
    faults, files = [], []
    for folder in whole:
        try:
            files += [(folder, *entry) for entry in listed(folder, read_card(folder))]
        except UserError:
            faults.append(Fault(folder, folder / CARD, "damaged"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            faults.append(Fault(folder, folder / "source.json", f"cannot be read ({error})"))

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
    """Folders in which a job was begun or ended, in the order of their names."""
    if not top.is_dir():
        raise UserError(f"{top}: there is no such folder; name a folder of results")
    for place, folders, files in os.walk(top):
        folders.sort()
        if CARD in files or "job.json" in files:
            yield Path(place)


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
