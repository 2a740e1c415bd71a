"""Large files of the web are read as they arrive; a reading that goes on fetches what is new."""

import gzip
import lzma
import random

import pytest

from lexigraft.corpus import reading
from lexigraft.corpus.cleaning import CleaningCounts
from lexigraft.corpus.reading import draw_text, forget
from lexigraft.corpus.remote_lines import can_read, remote_lines
from lexigraft.errors import UserError
from lexigraft.source import download
from tests.web_server import serving

SEED = ("0", "corpus", "te")
_draw = random.Random(3)
LINES = [f"{_draw.getrandbits(256):x} గె {number}" for number in range(1500)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
HALF = len(TEXT) // 2
FORMS = {
    "/te.txt": TEXT,
    "/te.txt.gz": gzip.compress(TEXT),
    "/te.txt.xz": lzma.compress(TEXT[:HALF], preset=0) + lzma.compress(TEXT[HALF:], preset=0),
}


@pytest.fixture(scope="module")
def server():
    with serving() as files:
        yield files


@pytest.fixture
def files(server, monkeypatch):
    """The text in each form; blocks are small and failed connections are made anew at once."""
    server.clear()
    server.contents = dict(FORMS)
    monkeypatch.setattr(download, "_BLOCK", 4096)
    monkeypatch.setattr(download, "_pause", lambda attempt: 0.0)
    return server


def language(files, **settings):
    address = f"{files.address}/te.txt.xz"
    text = {"loader": "datasets", "name": "text", "split": "train", "data_files": address}
    return {"name": "Telugu", "text": text, "minimum_characters": 1, "repair": [], **settings}


@pytest.mark.parametrize("name", ["te.txt", "te.txt.gz", "te.txt.xz"])
def test_lines_are_those_of_the_file_over_connections_that_break(files, name, tmp_path):
    files.breaks = [10, 9_000, 0, 17_000]
    address = f"{files.address}/{name}"
    assert can_read(address)
    assert list(remote_lines(address, tmp_path)) == LINES
    assert list(remote_lines(address, tmp_path)) == LINES  # from disk
    assert files.sent[f"/{name}"] == len(files.contents[f"/{name}"])


@pytest.mark.parametrize("name", ["te.txt.gz", "te.txt.xz"])
def test_padding_by_zeros_is_no_damage(files, name, tmp_path):
    content = FORMS[f"/{name}"]
    files.contents[f"/{name}"] = content + bytes(4096) + content + bytes(8)
    assert list(remote_lines(f"{files.address}/{name}", tmp_path)) == LINES * 2


def test_no_more_is_fetched_than_is_read(files, tmp_path):
    files.contents["/te.txt"] = TEXT * 20
    lines = remote_lines(f"{files.address}/te.txt", tmp_path)
    assert [next(lines) for _ in range(100)] == LINES[:100]
    lines.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < len(TEXT)


def test_a_reading_goes_on_with_the_bytes_that_it_has(files, tmp_path, monkeypatch):
    whole = draw_text(language(files), tmp_path / "whole", SEED, CleaningCounts(), 100, None)
    size = len(files.contents["/te.txt.xz"])
    assert files.sent.pop("/te.txt.xz") == size
    monkeypatch.setattr(reading, "SAVE_SECONDS", -1.0)
    for have in (20_000, 40_000):  # then no connection brings a byte, and the job fails
        files.breaks = [20_000, *[0] * 6]
        with pytest.raises(UserError, match="cannot be reached"):
            draw_text(language(files), tmp_path / "cut", SEED, CleaningCounts(), 100, None)
        assert files.sent["/te.txt.xz"] == have
    counts = CleaningCounts()
    assert draw_text(language(files), tmp_path / "cut", SEED, counts, 100, None) == list(whole)
    assert files.sent["/te.txt.xz"] == size and counts.read == len(LINES)
    forget(tmp_path / "cut")
    assert list((tmp_path / "cut").iterdir()) == []


def test_with_an_amount_its_part_of_the_file_is_fetched(files, tmp_path):
    settings = language(files, read_characters=20_000)
    drawn = draw_text(settings, tmp_path, SEED, CleaningCounts(), None, None)
    assert list(drawn) == LINES[: len(drawn)] and sum(map(len, drawn)) < 20_100
    stored = (tmp_path / ".reading" / "downloads").iterdir()
    assert sum(file.stat().st_size for file in stored) < len(files.contents["/te.txt.xz"]) / 2


def test_of_a_file_that_changed_nothing_is_left(files, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "SAVE_SECONDS", -1.0)
    files.breaks = [20_000, *[0] * 6]
    with pytest.raises(UserError, match="cannot be reached"):
        draw_text(language(files), tmp_path, SEED, CleaningCounts(), 100, None)
    other = "".join(f"{line} x\n" for line in LINES).encode()
    files.contents["/te.txt.xz"] = lzma.compress(other, preset=0)
    with pytest.raises(UserError, match="changed during the download"):
        draw_text(language(files), tmp_path, SEED, CleaningCounts(), 100, None)
    drawn = draw_text(language(files), tmp_path, SEED, CleaningCounts(), 100, None)
    assert len(drawn) == 100 and all(line.endswith("x") for line in drawn)


def test_a_damaged_file_is_told_and_fetched_anew(files, tmp_path):
    good = files.contents["/te.txt.xz"]
    files.contents["/te.txt.xz"] = good[:5000] + b"damage" + good[5006:]
    with pytest.raises(UserError, match="damaged after line"):
        list(remote_lines(f"{files.address}/te.txt.xz", tmp_path))
    files.contents["/te.txt.xz"] = good
    assert list(remote_lines(f"{files.address}/te.txt.xz", tmp_path)) == LINES
