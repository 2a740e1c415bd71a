"""Whether results can be written, and how much disk the outputs of jobs take."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lexigraft.errors import UserError

JOB = "job.json"  # what each job leaves beside its outputs


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


def sizes(results: str) -> dict[str, int]:
    """Folder -> bytes of each job's outputs below a results folder; links count nothing.

    Subfolders count with the folder that they are in, unless another job made them. What no job
    made, such as logs, counts with the results folder itself.
    """
    found: dict[str, int] = {}
    found[results] = _size(results, found)
    return found


def _size(folder: str, found: dict[str, int]) -> int:
    """Bytes in a folder that belong to what lies above it."""
    total, own = 0, False
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            total += _size(entry.path, found)
        elif not entry.is_symlink():
            total += entry.stat(follow_symlinks=False).st_size
        own = own or entry.name == JOB
    if own:
        found[folder] = total
    return 0 if own else total


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """What is in a folder; nothing of one that has just gone, as temporary ones do."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return
