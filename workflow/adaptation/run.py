"""Run Snakemake on the study of `lexigraft adapt`, and show its progress."""

import json
import os
import re
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
from workflow.adaptation.study import UNTRAINED
from workflow.commands.running import snakemake_command, snakemake_environment
from workflow.status.results_folder import at_work
from workflow.status.states import reason

if TYPE_CHECKING:
    from workflow.stages import Study
    from workflow.stages.study import Job

LOG = "snakemake.log"
_SECONDS = 0.5  # between two checks of the results folder
_LINE_SECONDS = 30.0  # between two progress lines without a terminal
_BESIDE_BAR = 70  # characters of a line next to the progress bar
_TO_END = 20.0  # seconds for an interrupted Snakemake to exit
_NOTHING = "Nothing to be done"  # Snakemake's message
_REASON = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception)\b.*:\n(.+)", re.MULTILINE)  # in its log


class Interrupted(Exception):
    """The user has interrupted the run."""


def run_study(study: "Study", file: Path, targets: Sequence[str], threads: int) -> bool:
    """Create the targets of a study in its folder, the working folder, and show progress.

    Finished jobs are not repeated. Returns whether there was anything to do. Raises a `UserError`
    with the reason if a job fails, and `Interrupted` on Ctrl-C, after Snakemake has exited.
    """
    if at_work(study):
        raise UserError(
            f"{Path.cwd()}: another run is using this folder; wait for it to finish, or stop it"
        )
    # One training or evaluation at a time, on all cores.
    together = [f"{rule}={threads}" for rule in ("train", "evaluate")]
    options = ["--cores", str(threads), "--set-threads", *together, "--quiet", "reason", "host"]
    environment = snakemake_environment()
    with Path(LOG).open("a", encoding="utf-8") as log:
        if any(Path(".snakemake/locks").glob("*")):  # of a run that was killed
            unlock = snakemake_command(str(file), [*options, "--unlock"])
            subprocess.run(unlock, stdout=log, stderr=log, env=environment, check=False)
        begun, already = time.time(), Path(LOG).stat().st_size
        command = snakemake_command(str(file), [*options, "--", *targets])
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            with _ends_with_us(process), _shown(study, targets, begun) as update:
                while process.poll() is None:
                    update()
                    time.sleep(_SECONDS)
                update()
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            _end(process)
    said = Path(LOG).read_bytes()[already:].decode(errors="replace")
    if process.returncode:
        raise UserError(_failure(study, begun, said))
    return _NOTHING not in said


def finished_part(study: "Study", targets: Sequence[str]) -> str:
    """How many steps of the targets an earlier run has finished; empty if all or none."""
    jobs = study.jobs()
    wanted = _with_needs(jobs, targets)
    done = sum(Path(card).is_file() for card in wanted)
    if done in (0, len(wanted)):
        return ""
    begun = any(
        any(Path(jobs[card].output).glob("checkpoints/*/phase-*"))
        for card in wanted
        if card in jobs and not Path(card).is_file()
    )
    training = "; training resumes from its last checkpoint" if begun else ""
    return f"Resuming: {done} of {len(wanted)} steps are finished{training}."


@contextmanager
def _ends_with_us(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """In this context, `kill` or a closed terminal also ends the other process, as Ctrl-C does."""

    def end(number: int, frame: Any) -> None:
        process.terminate()
        raise KeyboardInterrupt

    usual = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN  # as under nohup
    }
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a Snakemake that the terminal also interrupted, and make sure that it exits."""
    for number in (None, signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        if number is not None:
            process.send_signal(number)
        try:
            process.wait(timeout=1 if number is None else _TO_END)
        except subprocess.TimeoutExpired:
            continue


def _failure(study: "Study", begun: float, said: str) -> str:
    """Why a run failed, in one line: the error in the log of the first job that wrote one.

    Without such a job, it is the last error in Snakemake's output `said`.
    """
    for job in study.jobs().values():
        log = Path(job.log)
        missing = not Path(job.output.card).is_file()
        if missing and log.is_file() and log.stat().st_mtime >= begun:
            return f"{job.rule}: {reason(job)} (see {Path.cwd() / log})"
    lines = [*said.strip().splitlines(), *_REASON.findall(said)] or ["no message"]
    return f"Snakemake failed: {lines[-1]} (see {Path.cwd() / LOG})"


# ---- progress ----------------------------------------------------------------------------------

_NAMES = {
    "fetch_package": "fetching a package",
    "prepare_source": "reading the model",
    "prepare_corpus": "reading the text",
    "expand_vocabulary": "learning tokens",
    "initialize": "initializing embeddings",
    "learn_initialization": "initializing embeddings",
    "train": "training",
    "evaluate": "evaluating",
    "export_cell": "writing the model",
    "build_report": "writing the report",
}


@contextmanager
def _shown(study: "Study", targets: Sequence[str], begun: float) -> Iterator[Any]:
    """A function that shows the study's progress: as bars, or as lines without a terminal."""
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

    console = Console(stderr=True)
    # The text next to the bar must fit: a line that is too long has no bar at all.
    bar = BarColumn(max(10, min(40, console.width - _BESIDE_BAR)))
    columns = (TextColumn("{task.description}"), bar, MofNCompleteColumn())
    with Progress(*columns, TextColumn("{task.fields[said]}"), console=console) as progress:
        overall = progress.add_task("steps", total=steps, said="")
        training = progress.add_task("training", total=None, visible=False, said="")

        def update(done: int, what: str, log: Path | None) -> None:
            progress.update(overall, completed=done, said=what)
            step = _last_step(log) if log else None
            if log and step:
                progress.update(
                    training, completed=step[0], total=step[1], visible=True,
                    said=in_short(describe_progress(log)),
                )  # fmt: skip
            else:
                progress.update(training, visible=False)

        yield update


def in_short(progress: str) -> str:
    """The parts of a progress description about held-out text and the time left."""
    facts = [fact for fact in progress.split(", ") if fact.startswith("held-out") or "left" in fact]
    return ", ".join(facts).replace("held-out ", "").replace(" before training", " before")


def _with_needs(jobs: Any, targets: Sequence[str]) -> list[str]:
    """The cards of the targets' jobs and of all jobs that they depend on."""
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
    """The number of finished jobs, the running ones, and the log of a running training."""
    done, active, log = 0, [], None
    for card in wanted:
        if Path(card).is_file():
            done += 1
        elif card in jobs and _begun(f"{jobs[card].output}/job.json", begun):
            active.append(_name(jobs[card]))
            for file in Path(jobs[card].output).glob("checkpoints/*/log.jsonl"):
                log = file if _begun(str(file), begun) else log
    return done, ", ".join(dict.fromkeys(active)), log


def _name(job: "Job") -> str:
    """A job's activity, as shown in the progress; an untrained model is only evaluated."""
    trained = job.output.wildcards.get("strategy") != UNTRAINED
    rule = job.rule if trained or job.rule != "train" else "evaluate"
    return _NAMES.get(rule, rule)


def _begun(file: str, since: float) -> bool:
    try:
        return os.stat(file).st_mtime >= since  # noqa: PTH116
    except OSError:
        return False


def _last_step(log: Path) -> tuple[int, int] | None:
    """The last step that a training has logged, and the total number of steps."""
    try:
        lines = log.read_bytes().split(b"\n")[:-1]
        steps = [line for line in map(json.loads, lines[-20:]) if line["event"] == "step"]
    except (OSError, ValueError, KeyError):
        return None
    return (steps[-1]["step"], steps[-1]["steps"]) if steps else None
