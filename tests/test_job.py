"""A script's work: from a file or the command line, alone in its folder, errors as one line."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lexigraft import UserError
from lexigraft.artifacts.cards import write_card
from lexigraft.artifacts.completion import output_checksums
from lexigraft.job import read
from tests.artifacts.test_completion import made
from tests.conftest import REPOSITORY, run_command

SCRIPT = """
import hashlib, multiprocessing, sys, time
from pathlib import Path
import lexigraft.job
from lexigraft.artifacts.atomic import write_lines
from lexigraft.errors import UserError

lexigraft.job.SECONDS_TO_END = 1

def stage(job):
    folder = Path(job["outputs"]["folder"])
    if job["settings"].get("fail"):
        raise UserError("config.x: wrong")
    if job["settings"].get("allocate"):
        bytearray(1 << 60)
    if job["settings"].get("write"):
        write_lines(job["outputs"]["file"], ["x"] * job["settings"]["write"])
        return ["lines.txt"], {}
    if job["settings"].get("compute"):  # outside of Python
        (folder / "order.txt").touch()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
    if job["settings"].get("fork"):
        worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        worker.start()
        worker.terminate()
        worker.join()
        time.sleep(job["settings"]["fork"])
        return [], {}
    with (folder / "order.txt").open("a") as file:
        file.write("begin\\n")
        file.flush()
        time.sleep(job["settings"].get("seconds", 0))
        while (until := job["settings"].get("until")) and not Path(until).exists():
            time.sleep(0.02)
        file.write("end\\n")
    return [], {}

lexigraft.job.run(stage)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)

    def start(settings: dict, inputs: dict | None = None, **options) -> subprocess.Popen:
        out = tmp_path / "out"
        outputs = {"folder": str(out), "file": str(out / "lines.txt")}
        job = {"rule": "r", "inputs": inputs or {}, "outputs": outputs, "settings": settings}
        return subprocess.Popen(
            [sys.executable, str(path), json.dumps(job)],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


def test_a_job_is_read_from_its_json_and_from_a_file(tmp_path):
    job = {"rule": "r", "inputs": {}, "outputs": {}, "settings": {}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert read([json.dumps(job)]) == job == read([str(tmp_path / "job.json")])


@pytest.mark.bad_input(
    "command",
    "a step's script that is called without a job, or with an invalid one",
    "a one-line error message says what it expects",
)
@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["no/such/file"], ["{not json"], ["{}"]])
def test_anything_else_is_refused(arguments):
    with pytest.raises(UserError):
        read(arguments)


def test_a_user_error_is_one_line_and_exit_status_one(script):
    process = script({"fail": True})
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "error: config.x: wrong"
    assert "Traceback" not in errors


def let_end_when_it_waits(process: subprocess.Popen, go: Path) -> None:
    """Let what waits for a file go on once a process has said that it waits for that."""
    assert any("waiting" in line for line in process.stderr)
    go.touch()


@pytest.mark.fault(
    "parallel",
    "two processes write to one folder with different settings",
    "they run one after the other",
)
def test_two_processes_never_work_on_one_folder_at_a_time(script, tmp_path):
    first = script({"until": str(tmp_path / "go")})
    while not (tmp_path / "out/order.txt").exists():
        time.sleep(0.02)
    second = script({"seconds": 0.0})
    let_end_when_it_waits(second, tmp_path / "go")
    assert first.wait(timeout=30) == second.wait(timeout=30) == 0
    assert (tmp_path / "out/order.txt").read_text().split() == ["begin", "end"] * 2


@pytest.mark.fault(
    "parallel",
    "two processes run the same job",
    "the second one waits and reuses the finished work",
)
def test_a_job_that_another_process_did_meanwhile_is_done(script, tmp_path):
    first = script({"until": str(tmp_path / "go")})
    while not (tmp_path / "out/order.txt").exists():
        time.sleep(0.02)
    second = script({"until": str(tmp_path / "go")})
    let_end_when_it_waits(second, tmp_path / "go")
    _, said = second.communicate()
    assert (first.wait(timeout=30), second.returncode) == (0, 0)
    assert (tmp_path / "out/order.txt").read_text().split() == ["begin", "end"]
    assert "already complete" in said


@pytest.mark.fault(
    "kill",
    "a process that holds a folder lock or a GPU is killed",
    "the lock or GPU is released immediately",
)
def test_a_killed_process_leaves_no_lock_behind(script, tmp_path):
    first = script({"seconds": 60})
    while not (tmp_path / "out/order.txt").exists():
        time.sleep(0.02)
    first.kill()
    first.communicate()
    assert script({"seconds": 0}).wait(timeout=30) == 0


def error_of(process: subprocess.Popen) -> str:
    """The one line by which a script failed."""
    _, said = process.communicate()
    assert process.returncode == 1
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    return line


@pytest.mark.fault(
    "damage",
    "an input is damaged after its job was planned",
    "the job stops before it changes any output",
)
def test_a_damaged_input_stops_a_job_before_anything_changes(script, tmp_path):
    read = tmp_path / "corpus"
    read.mkdir()
    (read / "train.txt").write_text("whole")
    write_card(read, {}, ["train.txt"])
    assert script({"write": 1}, {"corpus": str(read)}).wait() == 0
    before = {file: file.read_bytes() for file in (tmp_path / "out").glob("*.*")}
    (read / "train.txt").write_text("other")
    said = error_of(script({"write": 2}, {"corpus": str(read)}))
    assert said.startswith(f"error: {read / 'train.txt'}: damaged")
    left = {file: file.read_bytes() for file in before}
    assert left == before


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))


@pytest.mark.fault(
    "disk",
    "the disk is full when a job replaces a file",
    "the old file is kept, no partial file is left, and no card marks the output as complete",
)
def test_a_disk_that_takes_no_more_is_one_line_and_leaves_nothing_half_written(script, tmp_path):
    assert script({"write": 10}).wait() == 0
    said = error_of(script({"write": 100_000}, preexec_fn=limited))
    assert "the file would exceed the size limit" in said
    assert said.endswith("finished work is kept")
    assert (tmp_path / "out/lines.txt").read_text() == "x\n" * 10
    assert not [*tmp_path.rglob(".partial-*")]
    assert not (tmp_path / "out/card.json").exists()


@pytest.mark.fault(
    "machine",
    "the memory of the machine or a GPU runs out, and nothing can be made smaller",
    "a one-line error message says which memory and what to do",
)
def test_memory_that_runs_out_is_one_line(script):
    assert "out of memory; give the job more memory" in error_of(script({"allocate": True}))


def test_a_bug_still_shows_its_traceback(script):
    process = script({"write": "many"})
    _, said = process.communicate()
    assert process.returncode == 1
    assert "Traceback" in said


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


@pytest.mark.fault(
    "kill",
    "a job receives SIGINT or SIGTERM, repeatedly or during a computation outside Python",
    "it ends within seconds, with one line that says how to resume",
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_job_ends_at_once_with_one_line(script, tmp_path, number):
    process = script({"seconds": 60})
    wait_for(tmp_path / "out/order.txt")
    sent = time.monotonic()
    for _ in range(3):  # the terminal and Snakemake may both send it
        process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert time.monotonic() - sent < 3
    assert process.returncode == 128 + number
    assert said == f"interrupted ({number.name}); run again to resume\n"


@pytest.mark.fault(
    "kill",
    "a job receives SIGINT or SIGTERM, repeatedly or during a computation outside Python",
    "it ends within seconds, with one line that says how to resume",
)
def test_an_interrupted_job_that_computes_outside_of_python_ends_too(script, tmp_path):
    process = script({"compute": True})
    wait_for(tmp_path / "out/order.txt")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=15) == 128 + signal.SIGINT
    process.stderr.close()


EXPANDED = """
from lexigraft.job import run

def expand(job):
    return job | {"inputs": {"read": job["folders"]}}

def stage(job):
    with open(job["outputs"]["file"], "w") as file:
        file.write("written")
    return ["made.txt"], {}

run(stage, expand=expand)
"""


def test_what_a_script_reads_by_itself_counts_but_is_in_no_card(tmp_path):
    (tmp_path / "script.py").write_text(EXPANDED)
    read, out = tmp_path / "read.txt", tmp_path / "out"
    outputs = {"folder": str(out), "file": str(out / "made.txt")}
    job = {"rule": "r", "inputs": {}, "outputs": outputs, "settings": {}, "folders": [str(read)]}
    command = [sys.executable, str(tmp_path / "script.py"), json.dumps(job)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    messages = []
    for text in ("one", "one", "two"):
        read.write_text(text)
        done = run_command(command, env=environment, check=True)
        messages.append(done.stderr)
        assert json.loads((out / "card.json").read_text())["job"] == job
        assert json.loads((out / "job.json").read_text()) == job
    assert ["already complete" in message for message in messages] == [False, True, False]


def test_inputs_that_do_not_belong_together_stop_it(script, tmp_path):
    source, tokenizer = tmp_path / "source", tmp_path / "tokenizer"
    made(source, "one")
    made(tokenizer, "two", source)
    made(source, "other")
    process = script({}, {"source": str(source), "tokenizer": str(tokenizer)})
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.startswith(f"error: {tokenizer}: its input {source} has changed since")
    assert errors.count("\n") == 1


def test_its_card_holds_what_it_read_and_not_what_came_since(script, tmp_path):
    source, until = made(tmp_path / "source", "one"), tmp_path / "until"
    inputs = {"source": str(source), "hub": "org/name", "words": str(Path(__file__))}
    expected = {"../source": output_checksums(inputs)[str(source)]}
    process = script({"until": str(until)}, inputs)
    while not (tmp_path / "out/order.txt").exists():
        assert process.poll() is None
        time.sleep(0.02)
    made(source, "other")
    until.touch()
    process.communicate()
    card = json.loads((tmp_path / "out/card.json").read_text())
    assert card["input_checksums"] == expected
