"""Unpacking selected members of wheels and npm packages; unsafe members are refused."""

import gzip
import io
import stat
import struct
import tarfile
import zipfile

import pytest

from lexigraft.bundled.archives import licence_of, unpack
from lexigraft.errors import UserError

OUTSIDE = ["../outside", "/etc/outside", "toy/../../outside", "C:/x", "a\\b"]


def write_zip(folder, members):
    file = folder / "toy.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def write_tar(folder, members, kind=tarfile.REGTYPE):
    file = folder / "toy.tgz"
    with tarfile.open(file, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            is_file = kind == tarfile.REGTYPE
            info.type, info.linkname = kind, "" if is_file else content
            info.size = len(content) if is_file else 0
            archive.addfile(info, io.BytesIO(content.encode()))
    return file


WRITERS = pytest.mark.parametrize("write", [write_zip, write_tar])


@pytest.mark.bad_input(
    "hostile",
    "an archive with links, or with members outside the target folder",
    "rejected; nothing is written outside the folder",
)
@WRITERS
@pytest.mark.parametrize("name", OUTSIDE)
def test_a_member_that_leads_outside_is_refused(name, write, tmp_path):
    archive = write(tmp_path, {name: "bad"})
    with pytest.raises(UserError, match="leads outside"):
        unpack(archive, ["*"], tmp_path / "a" / "b")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.bad_input(
    "hostile",
    "an archive with links, or with members outside the target folder",
    "rejected; nothing is written outside the folder",
)
def test_a_link_in_a_wheel_is_refused(tmp_path):
    link = zipfile.ZipInfo("toy/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "toy.whl", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UserError, match="is a link"):
        unpack(tmp_path / "toy.whl", ["toy/*"], tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_what_is_no_plain_file_in_a_tarball_is_refused(kind, tmp_path):
    archive = write_tar(tmp_path, {"toy/link": "/etc/passwd"}, kind)
    with pytest.raises(UserError, match="is a link"):
        unpack(archive, ["toy/*"], tmp_path / "out")


@WRITERS
def test_a_pattern_that_matches_nothing_is_named(write, tmp_path):
    with pytest.raises(UserError, match=r"no file matches '\*\.gguf'"):
        unpack(write(tmp_path, {"toy/a": "a"}), ["toy/*", "*.gguf"], tmp_path / "out")


@pytest.mark.parametrize("name", ["toy.whl", "toy.tgz"])
@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\x00 broken"])
def test_a_damaged_archive_is_named(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}: the file is damaged"):
        unpack(tmp_path / name, ["*"], tmp_path / "out")


ZEROS = "0" * (60 << 20)  # two of them are more than any small archive may hold


@pytest.mark.bad_input(
    "hostile",
    "an archive that would fill the disk or declares a false size",
    "rejected before it is unpacked",
)
@WRITERS
def test_an_archive_that_would_fill_the_disk_is_refused_before_it_does(write, tmp_path):
    archive = write(tmp_path, {"toy/a": ZEROS, "toy/b": ZEROS})
    assert archive.stat().st_size < 1 << 20
    with pytest.raises(UserError, match=r"refused, it unpacks to more than 100 MB"):
        unpack(archive, ["*"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.bad_input(
    "hostile",
    "an archive that would fill the disk or declares a false size",
    "rejected before it is unpacked",
)
def test_a_tarball_that_declares_more_than_it_contains_is_refused_unread(tmp_path):
    header = tarfile.TarInfo("toy/a")
    header.size = 1 << 40
    (tmp_path / "toy.tgz").write_bytes(gzip.compress(header.tobuf()))
    with pytest.raises(UserError, match="refused, it unpacks to more"):
        unpack(tmp_path / "toy.tgz", ["*"], tmp_path / "out")


def test_a_wheel_with_false_sizes_unpacks_to_no_more_than_it_declares(tmp_path):
    archive = write_zip(tmp_path, {"toy/a": ZEROS})
    true, told = struct.pack("<I", len(ZEROS)), struct.pack("<I", 1000)
    content = archive.read_bytes()
    assert content.count(true) >= 2  # stands before the data and in the directory at the end
    archive.write_bytes(content.replace(true, told))
    with pytest.raises(UserError, match="damaged"):
        unpack(archive, ["*"], tmp_path / "out")
    assert (tmp_path / "out/toy/a").stat().st_size <= 1000


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License: Apache 2.0\n second line\n", "Apache 2.0"),
        ("Classifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        ("License: UNKNOWN\nClassifier: License :: MIT License\n", "MIT License"),
        ("Name: toy\n", "not stated"),
    ],
)
def test_the_licence_is_read_from_older_metadata_of_a_wheel(metadata, licence, tmp_path):
    assert licence_of(write_zip(tmp_path, {"a.dist-info/METADATA": metadata})) == licence


def test_a_tarball_cut_short_is_named(tmp_path):
    archive = write_tar(tmp_path, {"toy/a": "word " * 100_000})
    archive.write_bytes(archive.read_bytes()[:-50])
    with pytest.raises(UserError, match="damaged"):
        unpack(archive, ["toy/*"], tmp_path / "out")
