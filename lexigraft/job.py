"""How a script takes its work: one JSON job description, from a file or from the command line."""

import fcntl
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from lexigraft.atomic import write_json
from lexigraft.errors import UserError

Job = dict[str, Any]
logger = logging.getLogger(__name__)


def run(stage: Callable[[Job], None]) -> None:
    """Run `stage` on the job named by the first command-line argument, and end the process.

    The argument is the path of a `job.json` or the JSON text itself. The job is written to
    `job.json` in its output folder, so that `python scripts/<rule>.py <folder>/job.json` repeats
    one step by hand. A `UserError` ends as one line and exit status 1.

    Two processes never work on one output folder: the second waits. That happens when Snakemake
    was killed, its job lives on, and Snakemake is started again. Those that `torchrun` started
    together are one in this: the first of them holds the folder, and speaks for all.
    """
    first = os.environ.get("RANK", "0") == "0"
    logging.basicConfig(
        level=logging.INFO if first else logging.ERROR,
        format="%(asctime)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        job = read(sys.argv[1:])
        folder = Path(job["outputs"]["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder) if first else nullcontext():
            if first:
                write_json(folder / "job.json", job)
            stage(job)
    except UserError as error:
        if first:
            print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def read(arguments: list[str]) -> Job:
    """Read the job from the arguments of a script.

    Raises
    ------
    UserError
        There is no argument, or it is neither a job's JSON nor a readable file with it.
    """
    if len(arguments) != 1:
        raise UserError(
            "a script takes one argument: the path of a job.json (it lies in every output folder)"
        )
    text = arguments[0]
    try:
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        job = json.loads(text)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{arguments[0][:200]}: not a job description ({error})") from None
    missing = {"rule", "inputs", "outputs", "settings"} - set(job)
    if missing:
        raise UserError(f"{arguments[0][:200]}: the job lacks {', '.join(sorted(missing))}")
    return job


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel releases when the process ends, however it ends."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process works on %s; waiting until it ends", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
