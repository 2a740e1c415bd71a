"""Whether a Snakemake is at work on a study, as seen from another shell.

It holds the lock of a file while it runs; the kernel releases that when it ends, however it ends.
"""

import fcntl
from pathlib import Path
from typing import IO

from workflow.stages import Study

_held: list[IO[str]] = []  # open until the process ends


def hold(study: Study) -> None:
    """Show, until this process ends, that it works on the study.

    Where the results folder cannot be written or its file system has no locks, nobody sees it, and
    the run itself will say what is wrong.
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
    """Whether any process holds the study."""
    return is_held(_file(study))


def is_held(path: str | Path) -> bool:
    """Whether a process holds the lock of a file; False if there is no such file."""
    try:
        # For writing, too: without that NFS gives no exclusive lock.
        with Path(path).open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _file(study: Study) -> Path:
    return Path(study.results) / "status" / f"{study.name}.lock"
