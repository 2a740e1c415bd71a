"""JSON lines are read whole, and an incomplete last line only by those who expect it."""

import pytest

from lexigraft import UserError
from lexigraft.artifacts.records import read_jsonl


def test_a_file_that_does_not_exist_has_no_lines(tmp_path):
    assert read_jsonl(tmp_path / "log.jsonl") == []


def test_an_incomplete_last_line_is_left_out_only_on_request(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_jsonl(file, skip_incomplete=True) == [{"step": 1}, {"step": 2}]
    with pytest.raises(UserError, match=r"log\.jsonl: cannot be read as JSON lines"):
        read_jsonl(file)


def test_a_last_line_without_a_line_feed_is_read(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 1}')
    assert read_jsonl(tmp_path / "log.jsonl") == [{"step": 1}]
