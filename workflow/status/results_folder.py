"""A results folder: whether it can be written, who works on it, and what the outputs in it take."""

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
    """Check that files can be made in a results folder, which is made if it is not there.

    Raises
    ------
    UserError
        Naming the folder and what its file system says.
    """
    try:
        Path(results).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=results).close()
    except OSError as error:
        raise UserError(
            f"{results}: results cannot be written there ({error.strerror}); what is there stays"
        ) from None


def hold(study: Study) -> None:
    """Show, until this process ends, that it works on the study.

    It holds the lock of a file; the kernel releases that when it ends, however it ends. Where the
    results folder cannot be written or its file system has no locks, nobody sees it, and the run
    itself will say what is wrong.
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
    """Whether any process holds the study, as seen from this machine."""
    try:
        # For writing, too: without that NFS gives no exclusive lock.
        with _file(study).open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def sizes(results: str) -> dict[str, int]:
    """Folder -> bytes of each job's outputs below a results folder; links count nothing.

    Subfolders count with the folder that they are in, unless another job made them. What no job
    made, such as logs, counts with the results folder itself.
    """
    found: dict[str, int] = {}
    found[results] = _size(results, found)
    return found


def _file(study: Study) -> Path:
    return Path(study.results) / "status" / f"{study.name}.lock"


def _size(folder: str, found: dict[str, int]) -> int:
    """Bytes in a folder that belong to what lies above it."""
    total, own = 0, False
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:  # it has just gone, as temporary ones do
        entries = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            total += _size(entry.path, found)
        elif not entry.is_symlink():
            with suppress(FileNotFoundError):  # likewise
                total += entry.stat(follow_symlinks=False).st_size
        own = own or entry.name == "job.json"  # which each job leaves beside its outputs
    if own:
        found[folder] = total
    return 0 if own else total
