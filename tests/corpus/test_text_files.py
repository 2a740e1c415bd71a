"""The user's files and folders become settings that the readers take."""

import gzip
import json

import pytest

from lexigraft.corpus.readers import read_sentences
from lexigraft.corpus.text_files import text_settings
from lexigraft.errors import UserError


def test_plain_and_compressed_files_are_one_text(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("three\n")
    settings = text_settings([tmp_path / "a.txt", tmp_path / "b.txt.gz"])
    assert list(read_sentences(settings)) == ["one", "two", "three"]


def test_a_folder_stands_for_its_text_files_in_order(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.txt").write_text("second\n")
    (tmp_path / "a.txt").write_text("first\n")
    (tmp_path / "notes.md").write_text("not text\n")
    assert list(read_sentences(text_settings([tmp_path]))) == ["first", "second"]


def test_json_lines_and_tables_are_read_by_their_field(tmp_path):
    import pyarrow
    from pyarrow.parquet import write_table

    (tmp_path / "a.jsonl").write_text(json.dumps({"body": "one"}) + "\n")
    write_table(pyarrow.table({"body": ["two"]}), tmp_path / "a.parquet")
    for name, text in (("a.jsonl", "one"), ("a.parquet", "two")):
        assert list(read_sentences(text_settings([tmp_path / name], "body"))) == [text]


def test_a_file_of_another_name_is_plain_text(tmp_path):
    (tmp_path / "corpus.te").write_text("one\n")
    assert list(read_sentences(text_settings([tmp_path / "corpus.te"]))) == ["one"]


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="several formats"):
        text_settings([tmp_path])
    with pytest.raises(UserError, match="empty: the folder has no"):
        text_settings([tmp_path / "empty"])
    with pytest.raises(UserError, match=r"c\.txt: there is no such file"):
        text_settings([tmp_path / "c.txt"])
