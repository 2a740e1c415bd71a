"""Verify a results folder: read and hash every file that a card lists."""

import fnmatch
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lexigraft.artifacts.cards import CARD, COMPLETED, cards_of, fault_of, leaves, listed, read_card
from lexigraft.artifacts.completion import REPLACED, check_references, is_held
from lexigraft.errors import UserError


@dataclass(frozen=True)
class Fault:
    """A file that does not match its card, or a missing folder."""

    file: Path
    what: str
    delete: tuple[Path, ...]  # folders and cards to delete so that the next run rebuilds it


@dataclass(frozen=True)
class Verified:
    """The result of `verify`."""

    folders: int  # number of folders with a card or a record
    files: int  # number of files that these list
    bytes: int  # total size of the files, as listed
    faults: list[Fault]  # what is missing or damaged
    unfinished: list[Path]  # folders of started jobs without a card in which no process works


def verify(
    *results: str | Path, threads: int = 1, advance: Callable[[int], object] = lambda size: None
) -> Verified:
    """Hash every file that the cards in these folders and in all folders below them list.

    A missing folder is reported if it is an input in a card, or if the card of a study lists a
    record in it. `threads` files are read at a time; `advance` is called with the size of each. Of
    replaced cells only the files are checked. Raises a UserError if a folder does not exist.
    """
    archives = tuple(Path(top, REPLACED) for top in results)
    entries = [(Path(top), *entry) for top in results for entry in job_folders(Path(top))]
    finished = {folder: top for top, folder, is_finished in entries if is_finished}
    unfinished = [
        folder for _, folder, is_finished in entries if not is_finished and not is_held(folder)
    ]
    faults, files = [], []
    # Inputs and records -> the cards that name them; those of records are the cards of studies.
    users_of_input: dict[Path, list[Path]] = defaultdict(list)
    users_of_record: dict[Path, list[Path]] = defaultdict(list)
    for folder, top in finished.items():
        cards = []
        try:
            for card in cards_of(folder):
                files += [(folder, *entry) for entry in listed(folder, card)]
                cards.append((folder / CARD, card))
        except UserError:
            faults.append(Fault(folder / CARD, "damaged", (folder / CARD,)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            faults.append(Fault(folder / "source.json", f"cannot be read ({error})", (folder,)))
        for file in sorted(folder.glob("card-*.json")):
            try:
                cards.append((file, card := read_card(folder, file.name)))
            except UserError:
                faults.append(Fault(file, "damaged", (file,)))
                continue
            for record, _ in listed(folder, card):
                users_of_record[Path(os.path.normpath(record))].append(file)
        for file, card in cards:
            try:
                if "references" in card and not any(map(folder.is_relative_to, archives)):
                    check_references(folder, card)
            except UserError as error:
                faults.append(Fault(folder, str(error).removeprefix(f"{folder}: "), (folder,)))
            for source in _sources(card, folder, top):
                users_of_input[source] = users_of_input[source] or [file]

    users_of_missing: dict[Path, list[Path]] = defaultdict(list)
    for path, users in [*users_of_input.items(), *users_of_record.items()]:
        missing = next(parent for parent in (path, *path.parents) if parent.parent.exists())
        # A missing file in a folder with a card is reported through that card. Another study may
        # have rebuilt a record: then its completion record lists its files.
        is_listed = (
            any(path.parent.glob(COMPLETED.format("*")))
            if path in users_of_record
            else (missing.parent / CARD).exists()
        )
        if not path.exists() and not is_listed:
            users_of_missing[missing] += users
    for missing, users in users_of_missing.items():
        what = f"missing, but listed in {users[0]}"
        faults.append(Fault(missing, what, tuple(dict.fromkeys(users))))

    def check(entry: tuple[Path, Path, dict]) -> Fault | None:
        folder, file, described = entry
        fault = fault_of(file, described)
        advance(described["bytes"])
        return Fault(file, fault, (folder, *users_of_record.get(file, ()))) if fault else None

    with ThreadPoolExecutor(threads) as pool:
        faults += [fault for fault in pool.map(check, files) if fault]
    # Snakemake does not rebuild the inputs of a report that exists. No report reads replaced cells.
    reports = tuple(
        folder / CARD for folder, top in finished.items() if folder.parent == top / "report"
    )
    faults = [
        fault
        if any(map(fault.file.is_relative_to, archives))
        else replace(fault, delete=(*fault.delete, *reports))
        for fault in faults
    ]
    size = sum(described["bytes"] for _, _, described in files)
    return Verified(len(finished), len(files), size, faults, unfinished)


def _sources(card: dict[str, Any], folder: Path, top: Path) -> Iterator[Path]:
    """The inputs of a card's job inside the results folder `top`.

    A card holds the paths at the time of its job: results may have been moved since.
    """
    job, relative = card.get("job") or {}, folder.relative_to(top).as_posix()
    written_to = str(job.get("outputs", {}).get("folder"))
    results = written_to.removesuffix(relative)
    for path in leaves(job.get("inputs")) if written_to.endswith(f"/{relative}") else ():
        if isinstance(path, str) and path.startswith(results):
            yield top / path.removeprefix(results)


def job_folders(top: Path) -> Iterator[tuple[Path, bool]]:
    """Folders of started jobs and of records, sorted by name, and whether each is finished.

    A finished folder has a card or the completion record of a record.
    """
    if not top.is_dir():
        raise UserError(f"{top}: there is no such folder; specify a results folder")
    for folder, subfolders, files in os.walk(top):
        subfolders.sort()
        has_record = bool(fnmatch.filter(files, COMPLETED.format("*")))
        if CARD in files or "job.json" in files or has_record:
            yield Path(folder), has_record or bool(fnmatch.filter(files, "card*.json"))
