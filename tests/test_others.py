"""Files that only some outputs have come back out of the archive that all of them have."""

import zipfile

import pytest

from lexigraft.errors import UserError
from lexigraft.others import pack, unpack


def test_files_that_lack_come_back_and_those_that_are_there_stay(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"\x00\x01")
    (tmp_path / "chat_template.jinja").write_text("{{ x }}")
    assert pack(tmp_path, {"tokenizer.model", "chat_template.jinja"}) == "others.zip"
    (tmp_path / "tokenizer.model").unlink()
    (tmp_path / "chat_template.jinja").write_text("mine")
    unpack(tmp_path)
    assert (tmp_path / "tokenizer.model").read_bytes() == b"\x00\x01"
    assert (tmp_path / "chat_template.jinja").read_text() == "mine"


def test_the_same_files_make_the_same_bytes_and_none_make_an_archive_too(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    pack(tmp_path, ["a", "b"])
    first = (tmp_path / "others.zip").read_bytes()
    pack(tmp_path, ["b", "a"])
    assert (tmp_path / "others.zip").read_bytes() == first
    pack(tmp_path, [])
    unpack(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "others.zip"]


def test_a_folder_without_an_archive_is_left_alone(tmp_path):
    unpack(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "below/out", ".."])
def test_no_file_is_put_outside_of_the_folder(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    with zipfile.ZipFile(folder / "others.zip", "w") as archive:
        archive.writestr(name, "out")
    with pytest.raises(UserError, match="outside of its folder"):
        unpack(folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "others.zip"]


def test_a_damaged_archive_is_one_line(tmp_path):
    (tmp_path / "others.zip").write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(UserError, match=r"others\.zip: damaged"):
        unpack(tmp_path)
