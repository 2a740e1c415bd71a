"""A stage reads nothing that is not what an earlier stage wrote."""

import json
import os
from pathlib import Path

import pytest

from lexigraft import UserError
from lexigraft.artifacts import cards
from lexigraft.artifacts.cards import check_inputs, describe_file, write_card
from lexigraft.artifacts.completion import begin, complete

JOB = {"rule": "r", "inputs": {}, "outputs": {}, "settings": {}}


@pytest.fixture
def folder(tmp_path) -> Path:
    """The output of a job: two files and their card."""
    made = tmp_path / "results" / "corpus"
    (made / "tasks").mkdir(parents=True)
    (made / "train.txt").write_text("ένα\nδύο\n", encoding="utf-8")
    (made / "tasks/pairs.jsonl").write_text('{"id": 1}\n')
    write_card(made, JOB, ["train.txt", "tasks/pairs.jsonl"], loss=0.25)
    return made


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def flip(file: Path) -> None:
    """Another bit at the same size, and the clock as if nothing had happened."""
    times = file.stat()
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def refused(inputs) -> str:
    with pytest.raises(UserError) as error:
        check_inputs(inputs)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_no_card_tells_of_passes(folder, tmp_path):
    (tmp_path / "own.txt").write_text("x")
    (folder / "notes.txt").write_text("x")
    check_inputs(
        {
            "prompts": str(tmp_path),
            "text": str(tmp_path / "own.txt"),
            "beside": str(folder / "notes.txt"),
            "encoder": {"hub": "org/name", "revision": None},
            "gone": str(tmp_path / "gone"),
            "python": ".venv/bin/python",
        }
    )


@pytest.mark.fault(
    "damage",
    "an output file is truncated, has a flipped bit, is missing, or is replaced by a folder",
    "the job that would read it stops; a one-line error message names the file and what to do",
)
@pytest.mark.parametrize("name", ["train.txt", "tasks/pairs.jsonl"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "bytes instead of"),
        (flip, "damaged, its SHA-256 differs from the card's"),
        (Path.unlink, "missing"),
        (replace_by_folder, "not a file"),
    ],
)
def test_a_damaged_file_of_a_folder_is_named_with_what_to_do(folder, name, damage, said):
    damage(folder / name)
    message = refused({"deep": [{"corpus": str(folder)}]})
    assert message.startswith(f"{folder / name}: ")
    assert said in message
    assert message.endswith(f"; restore it, or delete {folder} and run again to recompute it")


@pytest.mark.parametrize("depth", range(5))
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_a_listed_file_is_checked_however_far_below_its_card(tmp_path, damage, depth):
    """Also if a job reads only the file, or one of the folders between it and its card."""
    file = tmp_path / "made" / "/".join("abcd"[:depth]) / "text.txt"
    file.parent.mkdir(parents=True)
    file.write_text("one\n")
    (file.parent / "unlisted.txt").write_text("two\n")
    write_card(tmp_path / "made", JOB, [file.relative_to(tmp_path / "made").as_posix()])
    between = [file, *list(file.parents)[: depth + 1]]
    for path in between:
        check_inputs([str(path)])
    damage(file)
    for path in between:
        assert refused([str(path)]).startswith(f"{file}: ")
    check_inputs(str(file.parent / "unlisted.txt"))


def test_a_record_without_a_card_is_checked_by_the_notes_on_its_completion(tmp_path):
    record = tmp_path / "comet.v2.json"
    record.write_text("{}")
    outputs = {"folder": str(tmp_path), "card": str(tmp_path / "card-comet.v2.json")}
    complete(job := {**JOB, "outputs": outputs}, begin(job), ["comet.v2.json"])
    check_inputs(str(record))
    record.write_text("[]")
    assert f"{record}: damaged" in refused(str(record))


@pytest.mark.fault(
    "damage",
    "the hidden `.completed.json` of a record is truncated",
    "it is ignored, and the record is recomputed",
)
def test_notes_that_were_cut_off_tell_of_no_file(tmp_path):
    (tmp_path / "record.json").write_text("{}")
    complete(job := {**JOB, "outputs": {"folder": str(tmp_path)}}, begin(job), ["record.json"])
    cut(tmp_path / ".completed.json")
    cut(tmp_path / ".completed.json")
    check_inputs(str(tmp_path / "record.json"))


@pytest.mark.fault(
    "damage",
    "a card is truncated, or a number in it was changed",
    "a one-line error message names the card; no report is built from it",
)
@pytest.mark.parametrize(
    "damage", [lambda text: text[:-2], lambda text: text.replace('"loss": 0.25', '"loss": 0.24')]
)
def test_a_damaged_card_is_named(folder, damage):
    card = folder / "card.json"
    card.write_text(damage(card.read_text()))
    assert f"{card}: damaged" in refused(str(folder))


def test_a_large_file_is_hashed_only_if_it_is_newer_than_its_card(folder, monkeypatch):
    monkeypatch.setattr(cards, "SMALL", 3)
    file, card = folder / "train.txt", folder / "card.json"
    flip(file)
    check_inputs(folder)  # left to those that read it as a whole, and to `make verify`
    os.utime(file, ns=(0, card.stat().st_mtime_ns + 1))
    assert "train.txt: damaged" in refused(str(folder))


@pytest.mark.fault(
    "damage",
    "a file of a source model in the hub cache is truncated, changed or missing",
    "the step that reads it stops with a one-line error message that names the file",
)
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_a_source_model_that_stays_where_it_is_counts_too(tmp_path, damage):
    model, source = tmp_path / "cache" / "snapshot", tmp_path / "results" / "source" / "tiny"
    model.mkdir(parents=True)
    source.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (source / "source.json").write_text(json.dumps({"path": str(model)}))
    described = {"config.json": describe_file(model / "config.json")}
    write_card(source, JOB, ["source.json"], model_files=described)
    check_inputs(str(source))
    damage(model / "config.json")
    assert refused(str(source)).startswith(f"{model / 'config.json'}: ")


def test_a_card_says_the_same_however_it_is_laid_out(folder):
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card))
    check_inputs(folder)
