"""A results folder: whether it is writable, who is working on it, and the size of its outputs."""

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from lexigraft.errors import UserError
from workflow.stages import Study

_held: list[IO[str]] = []  # open until the process ends


def check_writable(results: str) -> None:
    """Check that files can be created in a results folder, which is created if necessary.

    Raises
    ------
    UserError
        The folder is not writable; the message names it and the error of its file system.
    """
    try:
        Path(results).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=results).close()
    except OSError as error:
        raise UserError(
            f"{results}: results cannot be written there ({error.strerror}); existing ones are "
            "unchanged"
        ) from None


def hold(study: Study) -> None:
    """Indicate, until this process ends, that it is working on the study.

    It locks a file; the kernel releases the lock when the process ends for any reason. If the
    results folder cannot be written or its file system has no locks, nothing is indicated, and the
    run itself reports the problem.
    """
    path = _file(study)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return
    _held.append(file)


def at_work(study: Study) -> bool:
    """Whether a process is working on the study, as far as this machine can see."""
    try:
        # Also open it for writing: otherwise NFS grants no exclusive lock.
        with _file(study).open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def sizes(results: str) -> dict[str, int]:
    """Folder -> bytes of each job's outputs below a results folder, not counting links.

    Subfolders count towards the folder that contains them, unless they belong to another job. Files
    of no job, such as logs, count towards the results folder itself.
    """
    found: dict[str, int] = {}
    found[results] = _size(results, found)
    return found


def _file(study: Study) -> Path:
    return Path(study.results) / "status" / f"{study.name}.lock"


def _size(folder: str, found: dict[str, int]) -> int:
    """Bytes in a folder that count towards its parent folder."""
    total, own = 0, False
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:  # just deleted, for example a temporary folder
        entries = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            total += _size(entry.path, found)
        elif not entry.is_symlink():
            with suppress(FileNotFoundError):  # likewise
                total += entry.stat(follow_symlinks=False).st_size
        own = own or entry.name == "job.json"  # each job writes one next to its outputs
    if own:
        found[folder] = total
    return 0 if own else total
