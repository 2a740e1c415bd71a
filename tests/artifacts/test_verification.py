"""`make verify` reads every file that a card tells of, and names what is not as it was."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lexigraft import UserError
from lexigraft.artifacts.cards import write_card
from lexigraft.artifacts.completion import begin, complete
from lexigraft.artifacts.verification import verify
from tests.artifacts.test_integrity import JOB, cut, flip
from tests.conftest import REPOSITORY, run_command


@pytest.fixture
def results(tmp_path) -> Path:
    """Three outputs of two files each."""
    for name in ("corpus/te", "vocabulary/tiny/te", "training/tiny/te/seed-0"):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        (folder / "job.json").write_text("{}")
        (folder / "a.bin").write_bytes(name.encode() * 1000)
        (folder / "b.txt").write_text(name)
        write_card(folder, JOB, ["a.bin", "b.txt"])
    return tmp_path / "results"


def test_what_is_whole_is_counted(results):
    found = verify(results, threads=2)
    assert (found.folders, found.files, found.faults, found.unfinished) == (3, 6, [], [])
    assert found.bytes == sum(file.stat().st_size for file in results.rglob("[ab].*"))


@pytest.mark.fault(
    "damage",
    "files and cards in several places of a results folder are damaged",
    "`lexigraft verify` lists each of them and no others",
)
def test_each_damaged_file_is_named_and_no_other(results):
    damaged = {
        results / "corpus/te/a.bin": flip,
        results / "vocabulary/tiny/te/b.txt": Path.unlink,
        results / "training/tiny/te/seed-0/card.json": lambda file: (cut(file), cut(file)),
    }
    for file, damage in damaged.items():
        damage(file)
    faults = verify(results).faults
    # A card that is deleted alone is put back: what it tells of may be whole.
    card = results / "training/tiny/te/seed-0/card.json"
    assert {fault.file: fault.delete for fault in faults} == {
        file: (card if file == card else file.parent,) for file in damaged
    }


@pytest.fixture
def evaluated(results) -> Path:
    """A cell with one record and the card of a study."""
    folder = results / "evaluation/tiny/te/seed-0"
    run = folder / "perplexity/run-0"
    run.mkdir(parents=True)
    (run / "record.json").write_text("{}")
    complete(job := {**JOB, "outputs": {"folder": str(run)}}, begin(job), ["record.json"])
    (folder / "job.json").write_text("{}")
    write_card(folder / "card-mine.json", JOB, ["perplexity/run-0/record.json"])
    return folder


def test_records_count_which_have_notes_instead_of_cards(results, evaluated):
    found = verify(results)
    assert (found.folders, found.files, found.faults, found.unfinished) == (5, 7, [], [])
    flip(evaluated / "perplexity/run-0/record.json")
    assert [fault.file.name for fault in verify(results).faults] == ["record.json"]


def test_a_record_that_is_gone_is_named_once_with_the_card_that_keeps_it_from_being_made(
    results, evaluated
):
    run = evaluated / "perplexity/run-0"
    (run / "predictions.jsonl").write_text("{}\n")
    listed = ["perplexity/run-0/predictions.jsonl", "perplexity/run-0/record.json"]
    write_card(evaluated / "card-mine.json", JOB, listed)
    shutil.rmtree(run)
    faults = verify(results).faults
    assert [(fault.file, fault.delete) for fault in faults] == [
        (run, (evaluated / "card-mine.json",))
    ]
    assert faults[0].what.startswith("missing")


def test_a_report_that_is_there_keeps_what_is_before_it_from_being_made(results, evaluated):
    report = results / "report/mine"
    report.mkdir(parents=True)
    write_card(report, JOB, [])
    (results / "corpus/te/a.bin").unlink()
    assert [fault.delete for fault in verify(results).faults] == [
        (results / "corpus/te", report / "card.json")
    ]


@pytest.fixture
def trained(results) -> Path:
    """A cell that says what it was made from: two folders of these results, and others."""
    folder = results / "training/tiny/te/seed-0"
    inputs = {
        "corpora": ["$PLACE/results/corpus/te"],
        "tokenizer": "$PLACE/results/vocabulary/tiny/te",
        "model": "tiny/te",
        "prompts": "config/prompts.yaml",
    }
    job = {**JOB, "inputs": inputs, "outputs": {"folder": "$PLACE/results/training/tiny/te/seed-0"}}
    write_card(folder, job, ["a.bin", "b.txt"])
    return folder


@pytest.mark.parametrize("gone", ["corpus/te", "corpus", "vocabulary/tiny"])
def test_a_folder_that_others_were_made_from_and_that_is_gone_is_named(results, trained, gone):
    assert verify(results).faults == []
    shutil.rmtree(results / gone)
    faults = verify(results).faults
    # Nothing above what is gone is left in these results.
    assert [fault.delete for fault in faults] == [(trained / "card.json",)]
    assert (results / gone).is_relative_to(faults[0].file) and not faults[0].file.exists()


def test_what_an_earlier_run_began_is_unfinished_unless_somebody_works_on_it(results):
    begun = results / "evaluation/tiny/te"
    begun.mkdir(parents=True)
    (begun / "job.json").write_text("{}")
    assert verify(results).unfinished == [begun]
    with (begun / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert verify(results).unfinished == []
    assert verify(results).unfinished == [begun]


@pytest.mark.bad_input(
    "hostile",
    "a device in place of a file that a card lists",
    "`verify` reports that it is not a file, and does not read it",
)
def test_a_card_may_name_no_device(results):
    """Whoever sends results could have it read for ever."""
    folder = results / "corpus/te"
    (folder / "a.bin").unlink()
    (folder / "a.bin").symlink_to("/dev/zero")
    assert [fault.what for fault in verify(folder).faults] == ["not a file"]


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "scripts/verify.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return run_command(command, env=environment)


def test_the_script_ends_well_or_names_what_to_delete(results):
    whole = script(str(results))
    assert (whole.returncode, whole.stderr) == (0, "")
    assert whole.stdout.startswith("6 files in 3 folders, ")
    cut(results / "corpus/te/a.bin")
    lines = (broken := script(str(results))).stdout.splitlines()
    assert broken.returncode == 1
    assert lines[0] == f"{results}/corpus/te/a.bin: has 8999 bytes instead of 9000"
    assert lines[-1] == f"  {results}/corpus/te"


def test_the_checksums_are_those_of_sha256sum(results):
    card = (results / "corpus/te/card.json").read_text()
    said = run_command(["sha256sum", "a.bin", "b.txt"], cwd=results / "corpus/te", check=True)
    assert all(line.split()[0] in card for line in said.stdout.splitlines())


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match="gone: there is no such folder"):
        verify(tmp_path / "gone")


@pytest.mark.fault(
    "damage",
    "a card is truncated, or a number in it was changed",
    "a one-line error message names the card; no report is built from it",
)
def test_a_damaged_card_of_a_study_is_named(results, evaluated):
    cut(evaluated / "card-mine.json")
    cut(evaluated / "card-mine.json")
    assert [fault.file for fault in verify(results).faults] == [evaluated / "card-mine.json"]
