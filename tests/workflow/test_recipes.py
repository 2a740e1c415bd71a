"""Every file that a study expects of its user has a recipe; those with an address are fetched."""

import gzip
import io
import re
import shutil
import tarfile

import pytest
import typer

from lexigraft.errors import UserError
from tests.web_server import serving
from tests.workflow.conftest import REPOSITORY, study_of_entries
from workflow.commands import fetch as command
from workflow.config.registries import entries_of
from workflow.config.sources import FileConfig
from workflow.jobs import Job
from workflow.recipes import fetch_recipe, hint, recipes_of


@pytest.fixture(scope="module")
def entries():
    return entries_of("files")


def at(entry, url):
    """The same file at another address."""
    return entry.model_copy(update={"url": url})


@pytest.fixture(scope="module")
def files():
    with serving() as files:
        yield files


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_file_that_the_registries_and_studies_name_has_a_recipe(entries):
    registries = [
        REPOSITORY / f"config/{name}.yaml"
        for name in ("languages", "tasks", "auxiliary", "sources")
    ]
    files = [*registries, *(REPOSITORY / "config/studies").glob("*.yaml")]
    texts = [file.read_text("utf-8") for file in files]
    lines = [line.partition("#")[0] for text in texts for line in text.splitlines()]
    named = {file for line in lines for file in re.findall(r"(?<![\w/])data/[\w./{}-]+", line)}
    files = {file.replace("{code}", "xx").rstrip("}") for file in named}
    assert len(files) > 50
    found = recipes_of(files, entries)
    assert {file for file in files if "{" not in file} - found.keys() == set()


def test_a_compressed_file_is_fetched_and_unpacked(files, project, entries):
    files.contents["/cc.te.300.bin.gz"] = gzip.compress(b"vectors")
    entry = at(entries["fasttext-crawl"], f"{files.address}/cc.{{code}}.300.bin.gz")
    path = "data/fasttext/cc.te.300.bin"
    recipe = recipes_of([path], {"vectors": entry})[path]
    assert recipe.recorded() is None
    remote = fetch_recipe(recipe)
    assert (project / path).read_bytes() == b"vectors"
    assert recipe.recorded() == remote and remote.etag
    with pytest.raises(UserError, match="to accept the new file"):
        (project / path).unlink()
        files.contents["/cc.te.300.bin.gz"] = gzip.compress(b"other vectors")
        fetch_recipe(recipe)
    recipe.answer_file.unlink()
    fetch_recipe(recipe)
    assert (project / path).read_bytes() == b"other vectors"
    assert {file.name for file in (project / "data/fasttext").iterdir()} == {
        "cc.te.300.bin", ".cc.te.300.bin.fetched.json"
    }  # fmt: skip


@pytest.mark.fault(
    "network",
    "a compressed file is damaged during its download",
    "a one-line error message; the next download starts over",
)
def test_a_file_that_arrives_damaged_is_one_line_and_can_be_fetched_again(files, project):
    whole = gzip.compress(b"vectors" * 100)
    url = f"{files.address}/vectors.bin.gz"
    entry = FileConfig(path="vectors.bin", url=url, unpack="gz")
    recipe = recipes_of(["vectors.bin"], {"vectors": entry})["vectors.bin"]
    for damaged in (whole[:10] + b"\xff" * 8 + whole[18:], whole[:-9], b"no archive"):
        files.contents["/vectors.bin.gz"] = damaged
        with pytest.raises(UserError, match=r"vectors\.bin: the downloaded file cannot"):
            fetch_recipe(recipe)
        assert list(project.iterdir()) == []
    files.contents["/vectors.bin.gz"] = whole
    fetch_recipe(recipe)
    assert (project / "vectors.bin").read_bytes() == b"vectors" * 100


def recipe_of_archive(files, entries, path, *members):
    """The recipe of a file in an archive on the server that has these members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in members:
            info = tarfile.TarInfo(f"flores200_dataset/{name}")
            info.size = 4
            archive.addfile(info, io.BytesIO(b"one\n"))
    files.contents["/flores.tar.gz"] = packed.getvalue()
    entry = at(entries["flores-200"], f"{files.address}/flores.tar.gz")
    return recipes_of([path], {"flores": entry})[path]


def test_a_folder_is_unpacked_without_what_leads_out_of_it(files, project, entries):
    path = "data/flores200_dataset/dev/tel_Telu.dev"
    members = ("dev/tel_Telu.dev", "../other/file", "../../out")
    with pytest.raises(UserError, match="cannot be unpacked"):
        fetch_recipe(recipe_of_archive(files, entries, path, *members))
    assert not (project / "data/flores200_dataset").exists() and not (project / "out").exists()


def test_what_is_not_in_a_fetched_folder_is_named(files, project, entries):
    path = "data/flores200_dataset/dev/eng_Latn.dev"
    fetch_recipe(recipe_of_archive(files, entries, path, "dev/eng_Latn.dev"))
    assert (project / path).read_bytes() == b"one\n"
    lacking = "data/flores200_dataset/dev/xxx_Latn.dev"
    recipe = recipe_of_archive(files, entries, lacking, "dev/eng_Latn.dev")
    with pytest.raises(UserError, match=r"exists, but lacks .*/xxx_Latn\.dev; move it elsewhere"):
        fetch_recipe(recipe)
    shutil.rmtree(project / "data/flores200_dataset")
    with pytest.raises(UserError, match=r"does not contain data/.*/xxx_Latn\.dev"):
        fetch_recipe(recipe)


def test_a_checksum_that_is_known_is_compared(files, project):
    files.contents["/words.txt"] = b"river nadi\n"
    entry = FileConfig(path="words.txt", url=f"{files.address}/words.txt", sha256="0" * 64)
    with pytest.raises(UserError, match=r"files.words: .*expected 0000"):
        fetch_recipe(recipes_of(["words.txt"], {"words": entry})["words.txt"])
    assert not (project / "words.txt").exists()


FILES = ["data/fasttext/cc.en.300.bin", "data/colexnet/colexnet.vec", "data/own.txt"]
JOBS = [Job("initialize", {}, "card.json", (), "", {"contents": dict.fromkeys(FILES)})]


@pytest.fixture
def study(files, monkeypatch, entries):
    """A study that reads word vectors, which are on the server, and two other files."""
    files.contents["/cc.en.300.bin.gz"] = gzip.compress(b"vectors")
    url = f"{files.address}/cc.{{code}}.300.bin.gz"
    vectors = at(entries["fasttext-crawl"], url)
    study = study_of_entries()
    study.files = entries | {"fasttext-crawl": vectors}
    monkeypatch.setattr(command, "study_named", lambda name: (study, name))
    monkeypatch.setattr(command, "jobs_of", lambda file, prefix: {job.card: job for job in JOBS})
    return study


def test_the_command_fetches_what_it_can_and_names_the_rest(study, project, capsys):
    assert "downloads 1 of the missing files; 2 more" in hint(JOBS, study.files)
    for dry, present in ((True, False), (False, True)):
        with pytest.raises(typer.Exit) as end:
            command.fetch("mine", "", dry)
        assert end.value.exit_code == 1
        assert (project / FILES[0]).exists() == present
        first, *others = capsys.readouterr().out.splitlines()
        assert first.startswith(f"fetch    {FILES[0]} from http") and "CC BY-SA 3.0" in first
        assert [line.split(":")[0] for line in others] == [
            f"by hand  {FILES[1]}", f"your own {FILES[2]}"
        ]  # fmt: skip
    for made in FILES[1:]:
        (project / made).parent.mkdir(parents=True, exist_ok=True)
        (project / made).write_text("made\n")
    command.fetch("mine", "", False)
    assert "all local files" in capsys.readouterr().out and hint(JOBS, study.files) == ""
