"""Run Snakemake for `lexigraft adapt`: its output goes to a file, the progress to the terminal."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lexigraft.errors import UserError
from lexigraft.training.progress import describe_progress
from workflow.commands.running import run_to_its_end, snakemake_command
from workflow.stages.study import open_study
from workflow.state import is_at_work

LOG = "snakemake.log"
_LINE_SECONDS = 30.0  # between two progress lines without a terminal
_BESIDE_BAR = 70  # characters of a line next to the progress bar
# What Snakemake writes.
_TOTAL = re.compile(r"^total\s+(\d+)$", re.MULTILINE)
_DONE = re.compile(r"^(\d+) of \d+ steps", re.MULTILINE)
_RULE = re.compile(r"^(?:local)?rule (\w+):", re.MULTILINE)
_FAILED = re.compile(r"^Error in rule (\w+):.*?^\s+log: ([^\n]+?)(?: \(check|$)", re.M | re.S)
_REASON = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception)\b.*:\n(.+)", re.MULTILINE)
_ACTIVITIES = {
    "fetch_package": "fetching a package",
    "prepare_source": "reading the model",
    "prepare_corpus": "reading the text",
    "build_vocabulary": "learning tokens",
    "initialize": "initializing embeddings",
    "learn_initialization": "initializing embeddings",
    "train": "training",
    "evaluate": "evaluating",
    "build_report": "writing the report",
}


def run_snakemake(file: str, targets: list[str], threads: int) -> bool:
    """Create the targets of a study in the working folder, and show progress.

    Returns whether there was anything to do. Raises a `UserError` with the reason if a job fails.
    """
    if is_at_work(open_study(file)):
        raise UserError(
            f"{Path.cwd()}: another run is using this folder; wait for it to finish, or stop it"
        )
    # One training or evaluation at a time, on all cores.
    all_cores = [f"{rule}={threads}" for rule in ("train", "evaluate")]
    options = ["--cores", str(threads), "--set-threads", *all_cores, "--quiet", "reason", "host"]
    with Path(LOG).open("a", encoding="utf-8") as log:
        if any(Path(".snakemake/locks").glob("*")):  # of a run that was killed
            run_to_its_end(snakemake_command(file, [*options, "--unlock"]), log)
        start, begin = Path(LOG).stat().st_size, time.time()

        def output() -> str:
            return Path(LOG).read_bytes()[start:].decode(errors="replace")

        with _shown() as show:
            code = run_to_its_end(
                snakemake_command(file, [*options, "--", *targets]),
                log,
                lambda: show(*_progress(output(), begin)),
            )
    if code:
        raise UserError(failure(output()))
    return "Nothing to be done" not in output()


def failure(output: str) -> str:
    """Why a run failed, in one line: the error in the log of a failed job, or Snakemake's own."""
    if failed := _FAILED.search(output):
        rule, log = failed.groups()
        lines = Path(log).read_text("utf-8", errors="replace") if Path(log).is_file() else ""
        last = [line.strip() for line in lines.split("\n") if line.strip()]
        errors = [line.removeprefix("error: ") for line in last if line.startswith("error: ")]
        reason = (errors or last or ["it stopped without a message"])[-1]
        return f"{rule}: {reason} (see {Path(log).resolve()})"
    lines = [*output.strip().splitlines(), *_REASON.findall(output)] or ["no message"]
    return f"Snakemake failed: {lines[-1]} (see {Path(LOG).resolve()})"


def _progress(output: str, begin: float) -> tuple[int, int, str, str]:
    """Finished steps, all steps, the activity, and how far the current training is."""
    done, totals = _DONE.findall(output), _TOTAL.findall(output)
    rules = _RULE.findall(output)
    activity = _ACTIVITIES.get(rules[-1], rules[-1]) if rules else ""
    logs = Path("results").glob("training/**/checkpoints/*/log.jsonl")
    recent = [log for log in logs if log.stat().st_mtime >= begin] if activity == "training" else []
    training = describe_progress(recent[-1]) if recent else ""
    return int(done[-1]) if done else 0, int(totals[-1]) if totals else 0, activity, training


@contextmanager
def _shown() -> Iterator[Callable[[int, int, str, str], None]]:
    """A function that shows progress: as a bar, or as lines without a terminal."""
    if not sys.stderr.isatty():
        last = {"activity": "", "time": 0.0}

        def line(done: int, total: int, activity: str, training: str) -> None:
            is_late = training and time.monotonic() - float(last["time"]) > _LINE_SECONDS
            if activity and (activity != last["activity"] or is_late):
                text = f"{done} of {total} steps, {activity}: {training}".rstrip(": ")
                print(text, flush=True)
                last.update(activity=activity, time=time.monotonic())

        yield line
        return

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    # The text next to the bar must fit: a line that is too long has no bar at all.
    bar = BarColumn(max(10, min(40, console.width - _BESIDE_BAR)))
    columns = (TextColumn("{task.description}"), bar, MofNCompleteColumn())
    with Progress(*columns, TextColumn("{task.fields[text]}"), console=console) as bars:
        steps = bars.add_task("steps", total=None, text="")
        training_bar = bars.add_task("training", total=None, visible=False, text="")

        def update(done: int, total: int, activity: str, training: str) -> None:
            bars.update(steps, completed=done, total=total or None, text=activity)
            step = re.match(r"step ([\d,]+) of ([\d,]+)", training)
            completed, of = (int(n.replace(",", "")) for n in step.groups()) if step else (0, None)
            bars.update(training_bar, completed=completed, total=of, visible=bool(step),
                        text=in_short(training))  # fmt: skip

        yield update


def in_short(progress: str) -> str:
    """The parts of a progress description about held-out text and the time left."""
    facts = [fact for fact in progress.split(", ") if fact.startswith("held-out") or "left" in fact]
    return ", ".join(facts).replace("held-out ", "").replace(" before training", " before")
