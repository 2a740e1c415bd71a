"""Files of the web are fetched whole, whatever becomes of connections, and no byte twice."""

import json

import pytest

from lexigraft.bundled.packages import ask_package
from lexigraft.errors import UserError
from lexigraft.source.download import RefusedError, ask_file, download
from lexigraft.source.hub_check import CHANGED, ask_web
from tests.web_server import serving

CONTENT = bytes(range(256)) * 400


def no_sleep(_):
    pass


@pytest.fixture(scope="module")
def server():
    with serving() as files:
        yield files


@pytest.fixture
def files(server):
    server.clear()
    server.contents["/big"] = CONTENT
    return server


@pytest.fixture
def url(files):
    return f"{files.address}/big"


def test_a_file_arrives_whole_over_connections_that_break(files, url, tmp_path):
    files.breaks = [1, 50_000, 0, 30_000]
    remote = download(url, tmp_path / "big", no_sleep)
    assert (tmp_path / "big").read_bytes() == CONTENT
    assert remote.bytes == len(CONTENT) == files.sent["/big"]
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


def test_a_fetch_that_was_given_up_goes_on_where_it_was(files, url, tmp_path):
    files.breaks = [40_000, *[0] * 6]
    with pytest.raises(UserError, match="cannot be reached"):
        download(url, tmp_path / "big", no_sleep)
    assert not (tmp_path / "big").exists()
    download(url, tmp_path / "big", no_sleep)
    assert files.asked[-1] == ("GET", "/big", "bytes=40000-")
    assert (tmp_path / "big").read_bytes() == CONTENT and files.sent["/big"] == len(CONTENT)


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_file_that_changed_meanwhile_is_fetched_from_its_beginning(
    files, url, tmp_path, has_ranges
):
    files.breaks = [40_000, *[0] * 6]
    with pytest.raises(UserError):
        download(url, tmp_path / "big", no_sleep)
    files.has_ranges = has_ranges
    files.contents["/big"] = CONTENT[::-1]
    download(url, tmp_path / "big", no_sleep)
    assert (tmp_path / "big").read_bytes() == CONTENT[::-1]


def test_a_busy_server_is_asked_again_and_a_refusal_is_told_at_once(files, url, tmp_path):
    waited = []
    files.statuses = [503, 429]
    download(url, tmp_path / "big", waited.append)
    assert len(waited) == 2
    files.statuses = [503]
    assert ask_file(url, waited.append).bytes == len(CONTENT) and len(waited) == 3
    for fetch in (ask_file, lambda address: download(address, tmp_path / "other", waited.append)):
        with pytest.raises(RefusedError, match="returned status 404"):
            fetch(f"{files.address}/none")
    assert len(waited) == 3


def test_a_file_is_compared_with_what_was_recorded_when_it_was_fetched(files, url, tmp_path):
    remote = download(url, tmp_path / "big")
    assert ask_web(url, remote).state == "ok"
    files.contents["/big"] = CONTENT[::-1]
    assert ask_web(url, remote).state == CHANGED
    assert ask_web(f"{files.address}/none").state == "missing"
    files.statuses = [403, 403]
    assert ask_web(url).state == "gated"


def test_npm_and_pypi_are_asked_for_the_pinned_file(files, monkeypatch):
    files.contents["/@scope/toy/-/toy-1.0.0.tgz"] = b"x" * 7
    monkeypatch.setenv("npm_config_registry", files.address)
    npm = {"registry": "npm", "name": "@scope/toy", "version": "1.0.0", "sha256": "0" * 64}
    assert (ask_package(npm).state, ask_package(npm).size) == ("ok", 7)
    assert ask_package({**npm, "version": "1.0.1"}).state == "missing"
    listed = {"files": [{"filename": "toy_x-1.0-py3-none-any.whl", "size": 9,
                         "hashes": {"sha256": "a" * 64}}]}  # fmt: skip
    files.contents["/simple/toy-x/"] = json.dumps(listed).encode()
    files.types["/simple/toy-x/"] = "application/vnd.pypi.simple.v1+json"
    monkeypatch.setenv("PIP_INDEX_URL", f"{files.address}/simple")
    pypi = {"registry": "pypi", "name": "toy_x", "version": "1.0", "sha256": "a" * 64}
    assert (ask_package(pypi).state, ask_package(pypi).size) == ("ok", 9)
    assert ask_package({**pypi, "sha256": "b" * 64}).state == "unusable"
    assert ask_package({**pypi, "version": "2.0", "sha256": "b" * 64}).state == "missing"
    assert ask_package({**pypi, "name": "other"}).state == "missing"
