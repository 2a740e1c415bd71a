"""Run Snakemake for `lexigraft adapt`: its output goes to a file, the progress to the terminal."""

import re
import sys
import time
from pathlib import Path

from tqdm import tqdm

from lexigraft.errors import UserError
from lexigraft.training.progress import describe_progress
from workflow import state
from workflow.commands.running import run_to_its_end, snakemake_command
from workflow.config.registries import open_study

LOG = "snakemake.log"
_LINE_SECONDS = 30.0  # between two progress lines without a terminal
# What Snakemake writes.
_TOTAL = re.compile(r"^total\s+(\d+)$", re.MULTILINE)
_DONE = re.compile(r"^(\d+) of \d+ steps", re.MULTILINE)
_RULE = re.compile(r"^(?:local)?rule (\w+):", re.MULTILINE)
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
    if state.is_at_work(open_study(file)):
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

        printed_activity, printed_text, printed_at = "", "", 0.0
        is_terminal = sys.stderr.isatty()
        with tqdm(unit="step", disable=not is_terminal, leave=False) as bar:

            def show() -> None:  # as a bar, or as lines without a terminal
                nonlocal printed_activity, printed_text, printed_at
                finished, total, activity, training = _progress(output(), begin)
                bar.total, bar.n = total or None, finished
                bar.set_description(activity, refresh=False)
                bar.set_postfix_str(in_short(training))
                is_late = training and time.monotonic() - printed_at > _LINE_SECONDS
                if not is_terminal and activity and (activity != printed_activity or is_late):
                    text = f"{finished} of {total} steps, {activity}: {training}".rstrip(": ")
                    if text != printed_text:
                        print(text, flush=True)
                    printed_activity, printed_text, printed_at = activity, text, time.monotonic()

            command = snakemake_command(file, [*options, "--", *targets])
            code = run_to_its_end(command, log, show)
    if code:
        raise UserError(failure(output()))
    return "Nothing to be done" not in output()


def failure(output: str) -> str:
    """Why a run failed, in one line: the error in the log of a failed job, or Snakemake's own."""
    if failures := state.failures(output):
        return failures[0]
    lines = [*output.strip().splitlines(), *_REASON.findall(output)] or ["no message"]
    return f"Snakemake failed: {lines[-1]} (see {Path(LOG).resolve()})"


def _progress(output: str, begin: float) -> tuple[int, int, str, str]:
    """Finished steps, all steps, the activity, and how far the current training is."""
    finished, totals = _DONE.findall(output), _TOTAL.findall(output)
    rules = _RULE.findall(output)
    activity = _ACTIVITIES.get(rules[-1], "measuring") if rules else ""
    training = ""
    if activity == "training":
        logs = Path("results").glob("training/**/checkpoints/*/log.jsonl")
        current = [log for log in logs if log.stat().st_mtime >= begin]
        training = describe_progress(current[-1]) if current else ""
    return int([0, *finished][-1]), int([0, *totals][-1]), activity, training


def in_short(progress: str) -> str:
    """The step, the bits per byte of held-out text and the time left of a training."""
    facts = [
        fact for fact in progress.split(", ") if re.match("step|held-out", fact) or "left" in fact
    ]
    return re.sub(r"held-out | \([^)]*\)", "", ", ".join(facts))
