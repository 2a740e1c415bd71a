"""Large files of the web are read as they arrive; a reading that goes on fetches what is new."""

import gzip
import lzma
import random

import pytest

from lexigraft.corpus import reading
from lexigraft.corpus.cleaning import CleaningCounts
from lexigraft.corpus.lines import is_remote_text, remote_lines
from lexigraft.corpus.reading import draw_text, forget
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
    assert is_remote_text(address)
    assert list(remote_lines(address, tmp_path)) == LINES
    assert list(remote_lines(address, tmp_path)) == LINES  # from disk
    assert files.sent[f"/{name}"] == len(files.contents[f"/{name}"])


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


@pytest.mark.fault(
    "network", "a remote file is truncated or missing", "a one-line error message gives its URL"
)
def test_a_missing_or_damaged_file_is_reported_and_fetched_anew(files, tmp_path):
    with pytest.raises(UserError, match=r"gone\.xz: the server returned status 404"):
        list(remote_lines(f"{files.address}/gone.xz", tmp_path))
    good = files.contents["/te.txt.xz"]
    files.contents["/te.txt.xz"] = good[:5000] + b"damage" + good[5006:]
    with pytest.raises(UserError, match="damaged after line"):
        list(remote_lines(f"{files.address}/te.txt.xz", tmp_path))
    files.contents["/te.txt.xz"] = good
    assert list(remote_lines(f"{files.address}/te.txt.xz", tmp_path)) == LINES


def lines_of(address, folder):
    """The lines of a file, or else the error."""
    try:
        return list(remote_lines(address, folder)), None
    except UserError as error:
        return None, str(error)


@pytest.mark.fault(
    "network",
    "a text on the web ends early or changes between two readings",
    "it is read as one version of the file, or a one-line error message says what to do",
)
@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("version", ["ETag", "Last-Modified", None])
@pytest.mark.parametrize("is_cut", ["no", "in a connection", "between readings"])
@pytest.mark.parametrize("framing", ["length", "chunked", "neither"])
def test_a_text_is_one_version_as_a_whole_or_an_error(
    files, tmp_path, monkeypatch, framing, is_cut, version, is_changed
):
    files.framing, files.version = framing, version
    address, other = f"{files.address}/te.txt", [line[::-1] for line in LINES]

    def change():
        if is_changed:  # a text of the same size
            files.contents["/te.txt"] = "".join(f"{line}\n" for line in other).encode()

    if is_cut == "in a connection":
        files.breaks = [HALF // 1000 * 1000]  # where a chunk ends, which is no end of the text
        monkeypatch.setattr(download, "_pause", lambda attempt: change() or 0.0)
    elif is_cut == "between readings" and framing != "neither":
        reading = remote_lines(address, tmp_path)
        assert [next(reading) for _ in range(100)] == LINES[:100]
        reading.close()
        change()
    else:
        change()
    if framing == "neither":
        assert "does not say how long the file is" in lines_of(address, tmp_path)[1]
        assert list(tmp_path.iterdir()) == []
        return
    expected = other if is_changed else LINES
    lines, error = lines_of(address, tmp_path)
    if is_cut != "no" and (is_changed or version is None):
        assert "the file has changed, or its server reports no version" in error
        lines, error = lines_of(address, tmp_path)
    assert lines == expected, error
    if is_cut != "no" and not is_changed and version:
        assert files.asked[-1][2]  # only the rest was asked for
