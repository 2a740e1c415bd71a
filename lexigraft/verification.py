"""A results folder checked as a whole: every file that a card tells of is read and hashed."""

import fnmatch
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lexigraft.completion import is_held
from lexigraft.errors import UserError
from lexigraft.provenance import CARD, COMPLETED, cards_of, fault_of, leaves, listed, read_card


@dataclass(frozen=True)
class Fault:
    """A file that is not what its card says, or a folder that is missing.

    What is in `delete`, folders and cards, keeps the next run from making it anew.
    """

    file: Path
    what: str
    delete: tuple[Path, ...]


@dataclass(frozen=True)
class Verified:
    """What `verify` found."""

    folders: int  # that have a card or a record
    files: int  # that these list
    bytes: int  # of the files, as they are listed
    faults: list[Fault]  # what is missing or damaged
    unfinished: list[Path]  # of jobs that were begun, without a card, on which no process works


def verify(
    *results: str | Path, threads: int = 1, advance: Callable[[int], object] = lambda size: None
) -> Verified:
    """Hash every file that the cards in these folders and in all folders below them tell of.

    Folders that are not there are named if a card says that its own files were made from them, or
    that a study has a record in them. As many files are read at a time as there are `threads`;
    `advance` gets the bytes of each when it was read. A UserError is raised if there is no such
    folder.
    """
    found = [(Path(top), *entry) for top in results for entry in job_folders(Path(top))]
    whole = {folder: top for top, folder, has_ended in found if has_ended}
    unfinished = [f for _, f, has_ended in found if not has_ended and not is_held(f)]
    faults, files = [], []
    sources: dict[Path, Path] = {}  # what other files were made from -> the first card to say so
    records: dict[Path, list[Path]] = defaultdict(list)  # record -> the cards of studies with it
    for folder, top in whole.items():
        cards = []
        try:
            for card in cards_of(folder):
                files += [(folder, *entry) for entry in listed(folder, card)]
                cards.append((folder / CARD, card))
        except UserError:
            faults.append(Fault(folder / CARD, "damaged", (folder / CARD,)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"cannot be read ({error})"
            faults.append(Fault(folder / "source.json", what, (folder,)))
        for file in sorted(folder.glob("card-*.json")):
            try:
                cards.append((file, card := read_card(folder, file.name)))
            except UserError:
                faults.append(Fault(file, "damaged", (file,)))
                continue
            for record, _ in listed(folder, card):
                records[Path(os.path.normpath(record))].append(file)
        for file, card in cards:
            for source in _sources(card, folder, top):
                sources.setdefault(source, file)
    faults += _missing(sources, records)

    def look(entry: tuple[Path, Path, dict]) -> Fault | None:
        folder, file, described = entry
        fault = fault_of(file, described)
        advance(described["bytes"])
        return Fault(file, fault, (folder, *records.get(file, ()))) if fault else None

    with ThreadPoolExecutor(threads) as pool:
        faults += [fault for fault in pool.map(look, files) if fault]
    # Snakemake makes nothing anew that lies before a report which is there.
    reports = tuple(
        folder / CARD for folder, top in whole.items() if folder.parent == top / "report"
    )
    faults = [replace(fault, delete=(*fault.delete, *reports)) for fault in faults]
    size = sum(described["bytes"] for _, _, described in files)
    return Verified(len(whole), len(files), size, faults, unfinished)


def _sources(card: dict[str, Any], folder: Path, top: Path) -> Iterator[Path]:
    """What a card's job read in the results of which `top` is the top, of what has its own card.

    A card has the paths of its job as they were: results may have moved since, and other folders
    than results, such as shared caches, have cards of jobs that wrote elsewhere.
    """
    job, below = card.get("job") or {}, folder.relative_to(top).as_posix()
    written = str(job.get("outputs", {}).get("folder"))
    if not written.endswith(f"/{below}"):
        return
    before = written.removesuffix(below)
    for path in leaves(job.get("inputs")):
        if isinstance(path, str) and path.startswith(before):
            yield top / path.removeprefix(before)


def _missing(sources: dict[Path, Path], records: dict[Path, list[Path]]) -> Iterator[Fault]:
    """The folders that are missing of those that files were made from, and of records."""
    gone: dict[Path, list[Path]] = defaultdict(list)
    for source, card in sources.items():
        if not source.exists():
            place = _highest_missing(source)
            # Of what lies in a folder with a card, that card tells.
            if not (place.parent / CARD).exists():
                gone[place].append(card)
    for record, cards in records.items():
        # Another study may have made the record anew: then the notes beside it tell.
        if not record.exists() and not any(record.parent.glob(COMPLETED.format("*"))):
            gone[_highest_missing(record)] += cards
    for place, cards in gone.items():
        yield Fault(place, f"missing, but named in {cards[0]}", tuple(dict.fromkeys(cards)))


def _highest_missing(place: Path) -> Path:
    """Of a path that does not exist, the folder above which all exist."""
    return next(place for place in (place, *place.parents) if place.parent.exists())


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
