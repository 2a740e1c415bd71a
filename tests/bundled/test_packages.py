"""Fetching wheels; pip runs against a local folder, without network."""

import hashlib
import io
import json
import os
import tarfile
import zipfile

import pytest

from lexigraft.bundled.packages import fetch_package
from lexigraft.errors import UserError
from tests.web_server import serving

METADATA = "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\nLicense-Expression: MIT\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder, members, metadata=METADATA):
    file = folder / "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr("toy-1.0.dist-info/METADATA", metadata)
        archive.writestr("toy-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("toy-1.0.dist-info/RECORD", "")
    return file


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip takes for the package index, with one wheel in it."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = write_wheel(
        folder, {"toy/data/a.json": "{}", "toy/data/b.txt": "b", "toy/code.py": "raise 1"}
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


def test_only_the_members_that_match_are_unpacked_and_the_card_describes_them(index, tmp_path):
    into = fetch_package("toy", "1.0", index, ["toy/data/*"], tmp_path / "out")
    assert files_in(into) == ["card.json", "toy/data/a.json", "toy/data/b.txt"]
    card = json.loads((into / "card.json").read_text())
    assert (card["version"], card["sha256"], card["licence"]) == ("1.0", index, "MIT")
    described = {"bytes": 1, "sha256": hashlib.sha256(b"b").hexdigest()}
    assert card["files"]["toy/data/b.txt"] == described


def test_a_folder_that_is_there_is_left_as_it_is(index, tmp_path, monkeypatch):
    into = fetch_package("toy", "1.0", index, ["toy/data/*"], tmp_path / "out")
    monkeypatch.setenv("PIP_FIND_LINKS", (tmp_path / "nothing").as_uri())
    before = (into / "card.json").stat().st_mtime_ns
    fetch_package("toy", "1.0", index, ["toy/data/*"], into)
    assert (into / "card.json").stat().st_mtime_ns == before


@pytest.mark.fault(
    "network",
    "the checksum of a download differs from the pinned one",
    "the download is rejected, and no files are left",
)
def test_a_wrong_checksum_is_refused_and_leaves_nothing(index, tmp_path):
    with pytest.raises(UserError, match=f"SHA-256 {index}, expected 00"):
        fetch_package("toy", "1.0", "00", ["toy/*"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.fault(
    "network",
    "a package index is unreachable or does not have the version",
    "a one-line error message distinguishes these cases",
)
def test_a_missing_version_is_named(index, tmp_path):
    with pytest.raises(UserError, match=r"toy==2\.0: the package index has no wheel"):
        fetch_package("toy", "2.0", index, ["toy/*"], tmp_path / "out")


@pytest.mark.fault(
    "network",
    "a package index is unreachable or does not have the version",
    "a one-line error message distinguishes these cases",
)
def test_an_unreachable_index_is_distinguished_from_a_missing_version(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(UserError, match=r"toy==1\.0: the package index cannot be reached"):
        fetch_package("toy", "1.0", "00", ["toy/*"], tmp_path / "out")


@pytest.mark.bad_input("hostile", "package names that pip would read as options", "rejected")
@pytest.mark.parametrize("name", ["--index-url=http://evil", "-r/etc/passwd", "a b", ""])
def test_a_name_that_pip_would_read_as_an_option_is_refused(name, tmp_path):
    with pytest.raises(UserError, match="not a package name"):
        fetch_package(name, "1.0", "00", ["*"], tmp_path / "out")


def test_a_wheel_of_another_platform_is_fetched_by_its_tags(tmp_path, monkeypatch):
    name = "toy-1.0-cp39-cp39-win_amd64.whl"
    wheel = write_wheel(tmp_path, {"toy/a": "a"}).rename(tmp_path / name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", tmp_path.as_uri())
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with pytest.raises(UserError, match=r"no wheel of this version for this Python|lists no such"):
        fetch_package("toy", "1.0", sha256, ["toy/*"], tmp_path / "out")
    tags = "cp39-cp39-win_amd64"
    into = fetch_package("toy", "1.0", sha256, ["toy/*"], tmp_path / "out", tags=tags)
    assert (into / "toy/a").read_text() == "a"


@pytest.mark.bad_input("hostile", "package names that pip would read as options", "rejected")
def test_tags_that_pip_would_read_as_an_option_are_refused(tmp_path):
    with pytest.raises(UserError, match="is not the python-abi-platform"):
        fetch_package("toy", "1.0", "00", ["*"], tmp_path / "out", tags="--index-url=x-y-z")


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


@pytest.fixture
def registry(monkeypatch):
    """A registry with @scope/toy 1.0.0, which the environment names."""
    with serving() as files:
        files.contents["/@scope/toy/-/toy-1.0.0.tgz"] = TOY
        monkeypatch.setenv("npm_config_registry", f"{files.address}/")
        monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
        yield files


def test_members_of_an_npm_package_are_unpacked_with_a_card(registry, tmp_path):
    registry.statuses, registry.breaks = [503], [40]
    into = fetch_package(
        "@scope/toy", "1.0.0", SHA256, ["package/models/*"], tmp_path / "out", registry="npm"
    )
    assert (into / "package/models/a.json").read_text() == "{}"
    assert not (into / "package/package.json").exists()
    card = json.loads((into / "card.json").read_text())
    assert (card["name"], card["sha256"], card["licence"]) == ("@scope/toy", SHA256, "MIT")


@pytest.mark.fault(
    "network",
    "a package registry aborts a download, requires a login, or does not have the version",
    "a one-line error message says which; no files are left",
)
@pytest.mark.parametrize(
    ("name", "version", "statuses", "message"),
    [
        ("@scope/toy", "2.0.0", [], "toy@2.0.0: the npm registry has no such package or version"),
        ("@scope/toy", "1.0.0", [401], "toy@1.0.0: the npm registry requires a login"),
        ("@scope/toy", "1.0.0", [503] * 6, r"cannot be reached .* check the network or npm_config"),
        ("../toy", "1.0.0", [], "not a package name"),
        ("toy", "latest", [], "not a package name and version"),
    ],
)
def test_what_cannot_be_fetched_is_reported_in_one_line(
    name, version, statuses, message, registry, tmp_path, monkeypatch
):
    monkeypatch.setattr("lexigraft.source.download._pause", lambda attempt: 0.0)
    registry.statuses = statuses
    with pytest.raises(UserError, match=message) as error:
        fetch_package(name, version, SHA256, ["*"], tmp_path / "out", registry="npm")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


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
