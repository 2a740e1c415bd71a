"""Runs Snakemake on the study of `lexigraft adapt`, and shows how far it is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.training.progress import describe_progress
from workflow.commands.running import snakemake_command
from workflow.status.results_folder import at_work
from workflow.status.states import reason

if TYPE_CHECKING:
    from workflow.stages import Study

LOG = "snakemake.log"
_SECONDS = 0.5  # between two looks at the results folder
_LINE_SECONDS = 30.0  # between two lines on the progress, where there is no terminal
_TO_END = 20.0  # seconds that an interrupted Snakemake has


class Interrupted(Exception):
    """The user has ended the run."""


def run_study(study: "Study", file: Path, targets: Sequence[str], threads: int) -> None:
    """Make the targets of a study in its folder, which is the working folder, and show progress.

    Raises a `UserError` with the reason if a job fails, and `Interrupted` on Ctrl-C, once Snakemake
    has ended. What is finished is not done again.
    """
    if at_work(study):
        raise UserError(f"{Path.cwd()}: another run is at work here; wait for it, or end it first")
    # One training or evaluation at a time, on all cores.
    together = [f"{rule}={threads}" for rule in ("train", "evaluate")]
    options = ["--cores", str(threads), "--set-threads", *together, "--quiet", "reason", "host"]
    with Path(LOG).open("a", encoding="utf-8") as log:
        if any(Path(".snakemake/locks").glob("*")):  # of a run that was killed
            unlock = snakemake_command(str(file), [*options, "--unlock"])
            subprocess.run(unlock, stdout=log, stderr=log, check=False)
        begun = time.time()
        command = snakemake_command(str(file), [*options, "--", *targets])
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            with _shown(study, targets, begun) as update:
                while process.poll() is None:
                    update()
                    time.sleep(_SECONDS)
                update()
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            _end(process)
    if process.returncode:
        raise UserError(_failure(study, begun))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a Snakemake that the terminal has interrupted too, and make sure that it ends."""
    for number in (None, signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        if number is not None:
            process.send_signal(number)
        try:
            process.wait(timeout=1 if number is None else _TO_END)
        except subprocess.TimeoutExpired:
            continue


def _failure(study: "Study", begun: float) -> str:
    """Why a run failed, in one line: the error in the log of the first job that wrote one."""
    for job in study.jobs().values():
        log = Path(job.log)
        missing = not Path(job.output.card).is_file()
        if missing and log.is_file() and log.stat().st_mtime >= begun:
            return f"{job.rule}: {reason(job)} (see {Path.cwd() / log})"
    lines = Path(LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"Snakemake failed: {lines[-1] if lines else 'no message'} (see {Path.cwd() / LOG})"


# ---- progress ----------------------------------------------------------------------------------

_NAMES = {
    "fetch_package": "fetching a package",
    "prepare_source": "reading the model",
    "prepare_corpus": "reading the text",
    "expand_vocabulary": "learning tokens",
    "initialize": "starting embeddings",
    "learn_initialization": "starting embeddings",
    "train": "training",
    "evaluate": "measuring",
    "export_cell": "writing the model",
    "build_report": "writing the report",
}


@contextmanager
def _shown(study: "Study", targets: Sequence[str], begun: float) -> Iterator[Any]:
    """A function that shows how far the study is: as bars, or as lines where nobody watches."""
    jobs = study.jobs()
    wanted = _with_needs(jobs, targets)
    if sys.stderr.isatty():
        with _bars(len(wanted)) as bars:
            yield lambda: bars(*_state(jobs, wanted, begun))
        return
    last: dict[str, Any] = {"what": "", "at": 0.0}

    def line() -> None:
        done, what, log = _state(jobs, wanted, begun)
        described = describe_progress(log) if log else ""
        late = described and time.monotonic() - last["at"] > _LINE_SECONDS
        if what and (what != last["what"] or late):
            print(f"{done} of {len(wanted)} steps, {what}: {described}".rstrip(": "), flush=True)
            last.update(what=what, at=time.monotonic())

    yield line


@contextmanager
def _bars(steps: int) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn("{task.fields[said]}"),
                  console=Console(stderr=True)) as progress:  # fmt: skip
        overall = progress.add_task("steps", total=steps, said="")
        training = progress.add_task("training", total=None, visible=False, said="")

        def update(done: int, what: str, log: Path | None) -> None:
            progress.update(overall, completed=done, said=what)
            step = _last_step(log) if log else None
            if log and step:
                progress.update(
                    training, completed=step[0], total=step[1], visible=True,
                    said=describe_progress(log).partition(", ")[2],
                )  # fmt: skip
            else:
                progress.update(training, visible=False)

        yield update


def _with_needs(jobs: Any, targets: Sequence[str]) -> list[str]:
    """The cards of the targets' jobs and of all that they wait for."""
    found: dict[str, None] = {}

    def visit(card: str) -> None:
        if card not in found:
            for need in jobs[card].needs if card in jobs else ():
                visit(need)
            found[card] = None

    for target in targets:
        visit(target)
    return list(found)


def _state(jobs: Any, wanted: Sequence[str], begun: float) -> tuple[int, str, Path | None]:
    """How many jobs are done, what is going on, and the log of a training that is."""
    done, active, log = 0, [], None
    for card in wanted:
        if Path(card).is_file():
            done += 1
        elif card in jobs and _begun(f"{jobs[card].output}/job.json", begun):
            active.append(_NAMES.get(jobs[card].rule, jobs[card].rule))
            for file in Path(jobs[card].output).glob("checkpoints/*/log.jsonl"):
                log = file if _begun(str(file), begun) else log
    return done, ", ".join(dict.fromkeys(active)), log


def _begun(file: str, since: float) -> bool:
    try:
        return os.stat(file).st_mtime >= since  # noqa: PTH116
    except OSError:
        return False


def _last_step(log: Path) -> tuple[int, int] | None:
    """The last step that a training has logged, and how many there will be."""
    try:
        lines = log.read_bytes().split(b"\n")[:-1]
        steps = [line for line in map(json.loads, lines[-20:]) if line["event"] == "step"]
    except (OSError, ValueError, KeyError):
        return None
    return (steps[-1]["step"], steps[-1]["steps"]) if steps else None
