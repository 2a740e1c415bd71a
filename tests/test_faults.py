"""A real stage is killed at each of its writes, and written to a disk that takes no more."""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Now, for a process that may write nothing may be unable to read these.
import lexigraft.corpus.language
import lexigraft.job  # noqa: F401
from lexigraft.artifacts.verification import verify

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "prepare_corpus.py"
READING = ".reading/"  # what a reading of large texts has drawn so far


def corpus_job(text: Path, folder: Path) -> dict:
    settings = {
        "name": "English", "code": "en", "script": "Latn",
        "text": {"loader": "text", "paths": [str(text)]}, "parallel": None,
        "english": {"loader": "text", "paths": [str(text)]}, "summarization": None,
        "train_sentences": None, "heldout_sentences": 20, "english_sentences": 20,
        "translation_pairs": None, "summarization_pairs": None, "minimum_characters": 1,
    }  # fmt: skip
    return {
        "rule": "prepare_corpus",
        "settings": settings,
        "inputs": {},
        "outputs": {"folder": str(folder)},
        "seed": ["0", "corpus", "en"],
    }


def run(job: dict, before: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Run the script in a process of its own, which does `before` first: exit status and stderr."""
    code = compile(SCRIPT.read_text(), str(SCRIPT), "exec")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(writing, 2)
            sys.stderr = os.fdopen(2, "w", closefd=False)
            sys.argv = [str(SCRIPT), json.dumps(job)]
            before()
            exec(code, {"__name__": "__main__"})
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def contents(folder: Path) -> dict[str, bytes]:
    """What a stage's files hold; its card tells times of nothing, but names its own folder."""
    own = ("job.json", "card.json", ".completed.json", "usage.jsonl", ".lock")
    files = (file for file in folder.rglob("*") if file.is_file() and file.name not in own)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


@pytest.fixture
def whole(tmp_path, english) -> dict[str, bytes]:
    """What an undisturbed run writes."""
    (tmp_path / "text.txt").write_text("\n".join(english) + "\n", encoding="utf-8")
    status, said = run(corpus_job(tmp_path / "text.txt", tmp_path / "whole"))
    assert status == 0, said
    return contents(tmp_path / "whole")


def kill_at(write: int) -> Callable[[], None]:
    """End this process as the system would, right before a file takes its place."""

    def prepare() -> None:
        flush, writes = os.fsync, []

        def flush_or_die(handle: int) -> None:
            writes.append(handle)
            if len(writes) == write:
                os.kill(os.getpid(), signal.SIGKILL)
            flush(handle)

        os.fsync = flush_or_die

    return prepare


@pytest.mark.fault(
    "kill",
    "a stage is killed with SIGKILL right before a write, for each of its writes in turn",
    "only complete files are left; the next run produces identical bytes",
)
def test_a_kill_at_any_write_leaves_whole_files_and_the_next_run_ends_it(whole, tmp_path):
    folder = tmp_path / "results" / "corpus" / "en"
    job = corpus_job(tmp_path / "text.txt", folder)
    write = 1
    while run(job, kill_at(write))[0] == -signal.SIGKILL:
        left = {
            name: found
            for name, found in contents(folder).items()
            if ".partial-" not in name and not name.startswith(READING)
        }
        assert left.items() <= whole.items()
        assert left == whole or not (folder / "card.json").exists()
        assert verify(tmp_path / "results").faults == []
        write += 1
    assert write > len(whole)  # it was killed at each of them
    assert contents(folder) == whole  # and nothing of the killed runs is left
    assert verify(tmp_path / "results").unfinished == []


@pytest.mark.fault(
    "disk",
    "the disk is full after a few, many or most of the bytes that a stage writes",
    "a one-line error message and no card; the next run produces identical bytes",
)
@pytest.mark.parametrize("limit", [10, 3000, 9000])
def test_a_disk_that_is_full_is_one_line_and_the_next_run_ends_it(limit, whole, tmp_path):
    assert limit < max(map(len, whole.values()))
    folder = tmp_path / "results" / "en"
    job = corpus_job(tmp_path / "text.txt", folder)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    status, said = run(job, fill)
    assert status == 1
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "the file would exceed the size limit" in line
    assert not (folder / "card.json").exists()
    left = {name for name in contents(folder) if not name.startswith(READING)}
    assert left <= set(whole)
    assert run(job)[0] == 0
    assert contents(folder) == whole


@pytest.fixture
def unwritable(tmp_path):
    """A results folder that this process cannot write to, also as root."""
    folder = tmp_path / "results"
    folder.mkdir()
    folder.chmod(0o555)
    tmp_path.chmod(0o755)
    yield folder
    folder.chmod(0o755)


@pytest.mark.fault(
    "disk",
    "a results folder of another user, or on a read-only disk",
    "a one-line error message names the folder before anything is computed",
)
def test_results_that_cannot_be_written_to_are_one_line(whole, unwritable, tmp_path):
    job = corpus_job(tmp_path / "text.txt", unwritable / "en")

    def be_nobody() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)

    status, said = run(job, be_nobody)
    assert status == 1
    lines = said.splitlines()
    assert [line for line in lines if line.startswith("error: ")] == [
        f"error: {unwritable / 'en'}: permission denied; the user of the job must be allowed to "
        "read and write there; finished work is kept"
    ]
    assert not any("Traceback" in line for line in lines)
