"""Files that only some outputs have are restored from the archive that all outputs have."""

import zipfile

import pytest

from lexigraft.errors import UserError
from lexigraft.extra_files import pack, unpack


def test_missing_files_are_restored_and_existing_ones_are_kept(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"\x00\x01")
    (tmp_path / "chat_template.jinja").write_text("{{ x }}")
    assert pack(tmp_path, {"tokenizer.model", "chat_template.jinja"}) == "extra_files.zip"
    (tmp_path / "tokenizer.model").unlink()
    (tmp_path / "chat_template.jinja").write_text("mine")
    unpack(tmp_path)
    assert (tmp_path / "tokenizer.model").read_bytes() == b"\x00\x01"
    assert (tmp_path / "chat_template.jinja").read_text() == "mine"


def test_equal_files_give_equal_bytes_and_no_files_give_an_archive_too(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    pack(tmp_path, ["a", "b"])
    first = (tmp_path / "extra_files.zip").read_bytes()
    pack(tmp_path, ["b", "a"])
    assert (tmp_path / "extra_files.zip").read_bytes() == first
    pack(tmp_path, [])
    unpack(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "extra_files.zip"]


def test_a_folder_without_an_archive_is_not_changed(tmp_path):
    unpack(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "below/out", ".."])
def test_no_file_is_extracted_outside_the_folder(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    with zipfile.ZipFile(folder / "extra_files.zip", "w") as archive:
        archive.writestr(name, "out")
    with pytest.raises(UserError, match="outside its folder"):
        unpack(folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "extra_files.zip"]


def test_a_damaged_archive_is_one_line(tmp_path):
    (tmp_path / "extra_files.zip").write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(UserError, match=r"extra_files\.zip: damaged"):
        unpack(tmp_path)
