"""Run a script on one JSON job description, from a file or from the command line.

Paths below the prefix of a study are written without it, since Snakemake compares the text of a
job: results stay up to date when they are moved.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lexigraft.addresses import Formatter
from lexigraft.artifacts.atomic import delete_leftovers, lock_folder, write_json
from lexigraft.artifacts.cards import check_inputs, write_card
from lexigraft.artifacts.completion import (
    begin,
    card_of,
    check_contents,
    check_origins,
    complete,
    date_inputs,
    is_complete,
    move_replaced,
    output_checksums,
    restore,
)
from lexigraft.errors import UserError, machine_fault
from lexigraft.usage import recorded

Job = dict[str, Any]
Written = tuple[list[str], dict[str, Any]]  # names of files, and facts for the card
PREFIX = "LEXIGRAFT_PREFIX"  # the environment variable that the workflow sets for its jobs
PLUGINS = "LEXIGRAFT_PLUGINS"  # environment variable: the plug-ins of the study, a JSON list
_MARK = f'"${PREFIX}/'  # the start of a path below the prefix, inside JSON
SECONDS_TO_END = 5  # time for an interrupted job to end before it is killed
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
logger = logging.getLogger(__name__)


def run(
    stage: Callable[[Job], Written | None],
    replaces: bool = False,
    expand: Callable[[Job], Job] = lambda job: job,
    checked: Callable[[Job], Any] = lambda job: job["inputs"],
) -> None:
    """Run `stage` on the job named by the first command-line argument, and end the process.

    The job is written to `job.json` in its output folder, so that `python scripts/<rule>.py
    <folder>/job.json` repeats one step by hand; its resource usage is appended to `usage.jsonl`.
    A `UserError` or a full disk prints one line and exits with status 1; so do SIGINT and SIGTERM
    within seconds, with a status above 128.

    If the outputs of the job are complete (`lexigraft.artifacts.completion`), its card is restored
    and the process ends at once; scripts therefore do slow imports inside `stage`. Two processes
    never work on one output folder at the same time: the second waits, such as when Snakemake was
    killed and started again while its job still runs. Processes that `torchrun` started together
    count as one: rank 0 holds the folder and reports for all.

    Parameters
    ----------
    replaces
        Whether the stage replaces its folder as a whole: until then, the old content stays.
    expand
        Returns the job with all its `inputs`, if these are too many for a command line. The stage,
        its card and `job.json` use the original job.
    checked
        Returns the inputs to check before the stage starts; the stage checks the others itself.
    """
    first = os.environ.get("RANK", "0") == "0"
    _end_when_interrupted()
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.INFO if first else logging.ERROR, handlers=[handler])
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    folder = Path()
    try:
        job = read(sys.argv[1:])
        if plugins := json.loads(os.environ.get(PLUGINS) or "[]"):
            from lexigraft.plugins import load_plugins  # imports the declarations of all kinds

            load_plugins(plugins)
        expanded = expand(job)
        folder = Path(job["outputs"]["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        if not first:
            if not is_complete(expanded):
                stage(job)
            return
        with lock_folder(folder):
            date_inputs(expanded)
            if is_complete(expanded):
                restore(job)
                logger.info("already complete: nothing to do")
                return
            check_contents(job)
            check_inputs(checked(expanded))
            check_origins(checked(expanded))
            delete_leftovers(folder)
            if moved := move_replaced(expanded):
                logger.info("the outputs that this job replaces are now in %s", moved)
            if not replaces:
                # A card marks a folder as complete, which it is not while it is rebuilt.
                card_of(job).unlink(missing_ok=True)
            at_start = begin(expanded)
            write_json(folder / "job.json", job)
            with recorded(folder):
                carry_out(stage, job, output_checksums(job["inputs"]))
                complete(job, at_start, finds_inputs=expanded != job)
    except Exception as error:
        message = str(error) if isinstance(error, UserError) else machine_fault(error, str(folder))
        if message is None:
            raise
        if first:
            print(f"error: {message}", file=sys.stderr)
        raise SystemExit(1) from None


def carry_out(
    stage: Callable[[Job], Written | None], job: Job, read: Mapping[str, str] | None = None
) -> None:
    """Run a stage and write its card; a stage that returns None has written its card itself.

    `read` are the `output_checksums` of its inputs before it starts.
    """
    if written := stage(job):
        files, facts = written
        write_card(card_of(job), job, files, read, **facts)


def write_record(job: Job, record: dict[str, Any]) -> Written:
    """Write the measurements of a stage to `record.json` in its folder."""
    write_json(Path(job["outputs"]["folder"], "record.json"), record)
    return ["record.json"], {}


def without_prefix(job: str, prefix: str | None) -> str:
    """Replace the prefix in the paths of a job's JSON text by a marker; without one, no change."""
    return job.replace(f'"{prefix}/', _MARK) if prefix else job


def with_prefix(job: str, prefix: str | None = None) -> str:
    """Reverse `without_prefix`, by default with the prefix in the environment."""
    if _MARK not in job:
        return job
    if not (prefix := prefix or os.environ.get(PREFIX)):
        raise UserError(f"{PREFIX}: not set; set it to the `prefix` of the study")
    return job.replace(_MARK, f'"{prefix}/')


def read(arguments: list[str]) -> Job:
    """Read the job from a script's only argument: its JSON text, or the path of a file with it."""
    if len(arguments) != 1:
        raise UserError(
            "a script takes one argument: the path of a job.json (every output folder contains one)"
        )
    (text,), title = arguments, arguments[0][:200]
    try:
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        job = json.loads(with_prefix(text))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{title}: not a job description ({error})") from None
    if missing := {"rule", "inputs", "outputs", "settings"} - set(job):
        raise UserError(f"{title}: the job description has no {', '.join(sorted(missing))}")
    return job


def _end_when_interrupted() -> None:
    """End the process on SIGINT or SIGTERM: at once, or after `SECONDS_TO_END` if it is stuck.

    Python handles a signal between two of its instructions, so that a long computation outside
    Python delays it; a thread ends such a process. Only work since the last checkpoint is lost.
    Forked processes have the default handlers, since libraries end them with SIGTERM.
    """

    def end(number: int, _: object) -> None:
        for interrupt in _INTERRUPTS:
            signal.signal(interrupt, signal.SIG_IGN)
        if os.environ.get("RANK", "0") == "0":
            name = signal.Signals(number).name
            print(f"interrupted ({name}); run again to resume", file=sys.stderr, flush=True)
        raise SystemExit(128 + number)

    def watch() -> None:
        while (number := os.read(reader, 1)[0]) not in _INTERRUPTS:
            pass  # another signal that a library handles
        threading.Event().wait(SECONDS_TO_END)
        os._exit(128 + number)

    def reset() -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number in _INTERRUPTS:
        signal.signal(number, end)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS),
        after_in_child=reset,
    )
