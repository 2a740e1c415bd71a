"""A results folder checked as a whole: every file that a card tells of is read and hashed."""

import fnmatch
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lexigraft.completion import is_held
from lexigraft.errors import UserError
from lexigraft.provenance import CARD, COMPLETED, cards_of, fault_of, listed, read_card


@dataclass(frozen=True)
class Fault:
    """A file that is not what its card says, and the folder whose card that is."""

    folder: Path
    file: Path
    what: str


@dataclass(frozen=True)
class Verified:
    """What `verify` found."""

    folders: int  # that have a card or a record
    files: int  # that these list
    bytes: int  # of the files, as they are listed
    faults: list[Fault]  # files that are missing or damaged
    unfinished: list[Path]  # of jobs that were begun, without a card, on which no process works


def verify(
    *results: str | Path, threads: int = 1, advance: Callable[[int], object] = lambda size: None
) -> Verified:
    """Hash every file that the cards in these folders and in all folders below them tell of.

    As many files are read at a time as there are `threads`; `advance` gets the bytes of each when
    it was read. A UserError is raised if there is no such folder.
    """
    ended = {folder: whole for top in results for folder, whole in job_folders(Path(top))}
    unfinished = [folder for folder in ended if not ended[folder] and not is_held(folder)]
    whole = [folder for folder in ended if ended[folder]]
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


def job_folders(top: Path) -> Iterator[tuple[Path, bool]]:
    """Folders in which a job was begun or a record made, by name, and whether that came to its end.

    Then it left a card, or notes on the completion of a record.
    """
    if not top.is_dir():
        raise UserError(f"{top}: there is no such folder; name a folder of results")
    for place, folders, files in os.walk(top):
        folders.sort()
        has_notes = bool(fnmatch.filter(files, COMPLETED.format("*")))
        if CARD in files or "job.json" in files or has_notes:
            yield Path(place), has_notes or bool(fnmatch.filter(files, "card*.json"))
