"""Every text of a folder is read once, whatever links lead to it."""

import os
import random
from pathlib import Path

import pytest

from lexigraft.corpus.local_files import check_files, text_files
from lexigraft.corpus.readers import read_sentences
from lexigraft.errors import UserError


def reachable(folder, seen):
    """The real paths of the texts in a folder, by asking each entry alone."""
    real = folder.resolve()
    if real in seen:
        return set()
    seen.add(real)
    found = set()
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        found |= reachable(entry, seen) if entry.is_dir() else {entry.resolve()}
    return {path for path in found if path.suffix == ".txt"}


@pytest.mark.bad_input(
    "text",
    "a folder of texts with links, in circles too",
    "each text that they lead to is read once",
)
@pytest.mark.parametrize("seed", range(20))
def test_folders_with_any_links_give_each_text_that_they_lead_to_once(tmp_path, seed):
    draw = random.Random(seed)
    folders = [tmp_path / "corpus", tmp_path / "elsewhere"]
    for folder in folders:
        folder.mkdir()
    for number in range(12):
        parent = draw.choice(folders)
        kind = draw.choice(["folder", "hidden", "file", "other", "folder link", "file link"])
        name = parent / f"{'.' * (kind == 'hidden')}{number}"
        if kind in ("folder", "hidden"):
            name.mkdir()
            folders.append(name)
        elif kind == "folder link":
            name.symlink_to(draw.choice(folders), target_is_directory=True)
        elif kind == "file link" and (files := sorted(tmp_path.rglob("*.txt"))):
            name.with_suffix(".txt").symlink_to(draw.choice(files))
        else:
            name.with_suffix(".txt" if kind == "file" else ".md").write_text("text\n")
    (tmp_path / "corpus" / "first.txt").write_text("text\n")
    found = text_files(tmp_path / "corpus")
    assert {path.resolve() for path in found} == reachable(tmp_path / "corpus", set())
    assert len({path.resolve() for path in found}) == len(found)
    assert found == sorted(found)


@pytest.mark.bad_input(
    "text",
    "a folder of texts with a link that leads nowhere",
    "rejected with a message that names the link",
)
@pytest.mark.parametrize("name", ["a.txt", "folder"])
def test_a_link_that_leads_nowhere_is_named(tmp_path, name):
    (tmp_path / "b.txt").write_text("text\n")
    (tmp_path / name).symlink_to(tmp_path / "unmounted")
    settings = {"text": {"loader": "text", "paths": [str(tmp_path)]}}
    with pytest.raises(UserError, match=rf"te.text.paths: .*/{name}: there is no such file"):
        check_files(settings, "te")


@pytest.mark.parametrize("pattern", [None, "**/*.jsonl", "*/*.jsonl", "*.jsonl"])
def test_the_library_datasets_skips_no_linked_folder_in_silence(tmp_path, pattern):
    for name in ("data/a", "data/real/b", "elsewhere/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.jsonl").write_text(f'{{"text": "{name}"}}\n')
    text = {"loader": "datasets", "name": str(tmp_path / "data"), "split": "train"}
    if pattern:
        text |= {"name": "json", "data_files": f"{tmp_path}/data/{pattern}"}
    before = list(read_sentences(text))
    assert before
    (tmp_path / "data/linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    if pattern == "*.jsonl":
        assert list(read_sentences(text)) == before
    else:
        with pytest.raises(UserError, match="data/linked: the library datasets skips linked"):
            list(read_sentences(text))


def test_a_subfolder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "b.txt").write_text("text\n")
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refuse(path):  # the tests may run as a user who can read everything
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UserError, match="/locked: the folder cannot be read"):
        text_files(tmp_path)


def test_a_file_whose_name_is_not_utf_8_is_named(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/te\xff.txt")).write_text("text\n")
    settings = {"text": {"loader": "text", "paths": [str(tmp_path)]}}
    with pytest.raises(UserError, match=r"te\.text\.paths: .*: the name is not UTF-8") as error:
        check_files(settings, "te")
    str(error.value).encode()
