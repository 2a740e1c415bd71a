"""Checksums follow content alone, and a large file that stays the same is read once."""

import os
import shutil
from pathlib import Path

import pytest

from lexigraft.artifacts import checksums
from lexigraft.artifacts.cards import sha256_of
from lexigraft.artifacts.checksums import file_checksum, files_in


@pytest.fixture
def read(monkeypatch, tmp_path) -> list[str]:
    """Names of the files that were read, with an empty cache; every file counts as large."""
    names: list[str] = []

    def count(path: Path) -> str:
        names.append(path.name)
        return sha256_of(path)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "sha256_of", count)
    monkeypatch.setattr(checksums, "_LARGE", 1)
    monkeypatch.setattr(checksums, "_SETTLED", -1)
    checksums._remembered.cache_clear()
    yield names
    checksums._remembered.cache_clear()


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("one\n")
    return path


def another_process():
    """What a process knows that starts now."""
    checksums._remembered.cache_clear()


def memory(tmp_path) -> Path:
    return tmp_path / "cache/lexigraft/checksums"


def test_a_file_is_read_once_by_this_process_and_by_the_next(file, read):
    assert file_checksum(file) == file_checksum(file) == sha256_of(file)
    another_process()
    assert file_checksum(file) == sha256_of(file)
    assert read == ["text.txt"]


def test_a_file_of_the_same_size_and_date_is_read_again(file, read, tmp_path):
    before, first = file.stat(), file_checksum(file)
    other = tmp_path / "other.txt"
    other.write_text("two\n")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert file_checksum(file) == sha256_of(file) != first
    file.write_text("six\n")  # in place
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_checksum(file) == sha256_of(file)


def test_what_changed_a_moment_ago_is_not_remembered(file, read, monkeypatch, tmp_path):
    """It may change again within the same step of the file system's clock."""
    monkeypatch.setattr(checksums, "_SETTLED", 3 * 10**9)
    assert file_checksum(file) == file_checksum(file)
    assert read == ["text.txt", "text.txt"]
    assert not memory(tmp_path).exists()


@pytest.mark.fault("damage", "the cache of checksums is damaged", "damaged entries are ignored")
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace(" ", "  ", 1),
        lambda text: "\0" * len(text),
        lambda text: text[: len(text) // 2] + text,
        lambda text: "",
        lambda text: "ä" + text,
    ],
)
def test_a_damaged_cache_is_ignored(file, read, tmp_path, damage):
    expected = file_checksum(file)
    memory(tmp_path).write_text(damage(memory(tmp_path).read_text()))
    another_process()
    assert file_checksum(file) == expected
    assert len(read) == 2
    another_process()
    assert file_checksum(file) == expected


def test_a_cache_that_others_can_write_to_is_not_used(file, read, tmp_path):
    file_checksum(file)
    memory(tmp_path).parent.chmod(0o777)
    state = memory(tmp_path).read_text().rpartition(" ")[0]
    memory(tmp_path).write_text(f"{state} {'0' * 64}\n")
    another_process()
    assert file_checksum(file) == sha256_of(file)


def test_a_cache_that_cannot_be_written_costs_only_time(file, read, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc")  # also closed to the superuser
    another_process()
    assert file_checksum(file) == sha256_of(file)


def test_a_folder_has_all_files_below_it_but_hidden_ones(tmp_path):
    texts = tmp_path / "texts"
    for name in ("a.txt", "b/c/d.txt", ".hidden", ".git/config", "b/__pycache__/d.pyc"):
        (texts / name).parent.mkdir(parents=True, exist_ok=True)
        (texts / name).write_text(name)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(texts / "b", elsewhere)
    (texts / "linked").symlink_to(elsewhere)
    (texts / "b/loop").symlink_to(texts)
    found = [str(path.relative_to(texts)) for path in files_in(texts)]
    assert found == ["a.txt", "b/c/d.txt", "linked/c/d.txt"]


def test_the_cache_belongs_to_its_user_alone(file, read, tmp_path):
    before = os.umask(0)
    try:
        file_checksum(file)
    finally:
        os.umask(before)
    assert memory(tmp_path).parent.stat().st_mode & 0o777 == 0o700


def test_the_cache_does_not_grow_without_end(file, read, monkeypatch, tmp_path):
    monkeypatch.setattr(checksums, "_MOST", 4)
    for number in range(12):
        file.write_text(f"{number:04d}")
        file_checksum(file)
        another_process()
    assert len(memory(tmp_path).read_text().splitlines()) <= 5
    another_process()
    file_checksum(file)
    assert len(read) == 12


def test_a_cache_that_is_not_used_is_named_once_if_a_large_file_was_read(
    file, read, tmp_path, monkeypatch, caplog
):
    checksums._warn_of.cache_clear()
    (tmp_path / "cache/lexigraft").mkdir(parents=True)
    (tmp_path / "cache/lexigraft").chmod(0o777)
    file_checksum(file)
    assert not caplog.records
    monkeypatch.setattr(checksums, "SMALL", 1)
    for content in ("two\n", "six\n"):
        file.write_text(content)
        os.utime(file)
        file_checksum(file)
        checksums._remembered.cache_clear()
    assert len(caplog.records) == 1
    assert f"{tmp_path}/cache/lexigraft: others can write to it" in caplog.text
