"""Outputs appear whole or not at all."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from lexigraft.artifacts.atomic import (
    LOCK_FILE,
    atomic_file,
    atomic_folder,
    delete_leftovers,
    write_json,
    write_jsonl,
    write_lines,
)


@pytest.mark.fault(
    "disk",
    "the disk is full when a job replaces a file",
    "the old file is kept, no partial file is left, and no card marks the output as complete",
)
def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(OSError, match="disk full"), atomic_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("half")
        raise OSError("disk full")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_files_and_folders_are_readable_by_others_as_the_umask_says(tmp_path):
    previous = os.umask(0o027)
    try:
        write_json(tmp_path / "a.json", {})
        with atomic_folder(tmp_path / "f"):
            pass
    finally:
        os.umask(previous)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o750


def test_lines_end_with_a_line_feed_and_keep_their_letters(tmp_path):
    write_lines(tmp_path / "a.txt", ["తెలుగు", ""])
    assert (tmp_path / "a.txt").read_bytes() == "తెలుగు\n\n".encode()
    write_jsonl(tmp_path / "a.jsonl", [{"a": "తె"}])
    assert (tmp_path / "a.jsonl").read_text(encoding="utf-8") == '{"a": "తె"}\n'


def killed(write) -> None:
    """Let a process of its own begin to write, and kill it in the middle."""
    child = os.fork()
    if child == 0:
        write()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def half_a_file(path: Path) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)


def half_a_folder(path: Path) -> None:
    with atomic_folder(path) as temporary:
        (temporary / "new").touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.fault(
    "kill",
    "a process is killed while it writes a file or folder",
    "the previous version stays intact; partial files are deleted on the next run",
)
def test_a_killed_process_leaves_the_old_file_and_what_it_began_is_deleted_next(tmp_path):
    folder = tmp_path / "corpus"
    (folder / "tasks").mkdir(parents=True)
    for file in (folder / "a.txt", folder / "tasks/b.txt"):
        file.write_text("old")
        killed(lambda file=file: half_a_file(file))
        assert file.read_text() == "old"
    killed(lambda: half_a_folder(folder))
    assert len([*tmp_path.rglob(".partial-*")]) == 3
    delete_leftovers(folder)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["a.txt", "b.txt"]


def test_what_others_are_writing_is_left_alone(tmp_path):
    """The folder of a job below this one's, which may have just begun, and neighbours whose names
    begin like this one's.
    """
    folder, below = tmp_path / "run-1", tmp_path / "run-1/checkpoint-1"
    below.mkdir(parents=True)
    (below / LOCK_FILE).touch()
    killed(lambda: half_a_file(below / "record.json"))
    killed(lambda: half_a_folder(tmp_path / "run-1-more"))
    before = {*tmp_path.rglob("*")}
    delete_leftovers(folder)
    assert {*tmp_path.rglob("*")} == before


def test_no_part_of_an_old_folder_is_ever_in_its_place(tmp_path, monkeypatch):
    (tmp_path / "f").mkdir()
    (tmp_path / "f/old").touch()
    seen = []

    def watched(path, **options):
        seen.append([file.name for file in (tmp_path / "f").iterdir()])
        remove(path, **options)

    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", watched)
    with atomic_folder(tmp_path / "f") as temporary:
        (temporary / "new").touch()
    assert seen and all(names == ["new"] for names in seen)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
