"""Outputs in a folder that others share: taken from there if intact, put there as a whole."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lexigraft import UserError
from lexigraft.artifacts.cards import check_inputs, write_card
from lexigraft.artifacts.completion import check_origins, fingerprint, is_complete
from lexigraft.artifacts.shared_cache import VARIABLE, fetch, store
from tests.artifacts.test_completion import made
from tests.artifacts.test_integrity import flip

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from pathlib import Path
from lexigraft.job import run
from lexigraft.artifacts.cards import check_inputs
from lexigraft.artifacts.cards import write_card

def stage(job):
    folder = Path(job["outputs"]["folder"])
    (folder / "tasks").mkdir(exist_ok=True)
    (folder / "text.txt").write_text(Path(job["inputs"]["words"]).read_text().upper())
    (folder / "tasks/pairs.jsonl").write_text("{}")
    write_card(folder, job, ["text.txt", "tasks/pairs.jsonl"], lines=1)
    if job["settings"].get("changes_its_input"):
        Path(job["inputs"]["words"]).write_text("other")

run(stage, shared=True)
"""


@pytest.fixture
def checkout(tmp_path):
    """Runs one job in a checkout of its own; all of them have one cache."""
    (tmp_path / "script.py").write_text(SCRIPT)

    def start(name: str, words: str = "a b", cache: Path | str | None = None, **settings):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "words.txt").write_text(words)
        out = folder / "out"
        inputs = {"words": str(folder / "words.txt")}
        outputs = {"folder": str(out)}
        job = {"rule": "make", "inputs": inputs, "outputs": outputs, "settings": settings}
        place = str(tmp_path / "cache" if cache is None else cache)
        done = subprocess.run(
            [sys.executable, str(tmp_path / "script.py"), json.dumps(job)],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), VARIABLE: place},
            capture_output=True,
            text=True,
            check=False,
        )
        usage = out / "usage.jsonl"
        times = len(usage.read_text().splitlines()) if usage.exists() else 0
        return SimpleNamespace(
            job=job, out=out, times=times, status=done.returncode, log=done.stderr
        )

    start.cache = tmp_path / "cache"
    return start


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def entry(checkout) -> Path:
    """The one entry of the cache."""
    (found,) = checkout.cache.iterdir()
    return found


def test_another_checkout_takes_what_the_first_one_made(checkout):
    first, second = checkout("first"), checkout("second")
    assert (first.times, second.times) == (1, 0), second.log
    for name in ("text.txt", "tasks/pairs.jsonl"):
        assert (second.out / name).samefile(first.out / name)
    assert is_complete(second.job)
    check_inputs(second.out)
    card = json.loads((second.out / "card.json").read_text())
    assert (card["lines"], card["job"]) == (1, second.job)


def test_what_was_taken_refers_to_the_inputs_of_its_own_results(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    jobs = {}
    for name in ("first/vectors", "second/deeper/vectors"):
        source, folder = made(tmp_path / name.split("/")[0] / "source", "text"), tmp_path / name
        jobs[name] = {"rule": "make", "inputs": [str(source)], "outputs": {"folder": str(folder)}}
    first, second = jobs.values()
    made(Path(first["outputs"]["folder"]), "vectors", *map(Path, first["inputs"]))
    store(first, fingerprint(first))
    assert fetch(second, fingerprint(second))
    card = json.loads(Path(second["outputs"]["folder"], "card.json").read_text())
    assert list(card["input_checksums"]) == ["../../source"]
    check_origins([second["outputs"]["folder"], *second["inputs"]])
    made(Path(second["inputs"][0]), "other")
    with pytest.raises(UserError, match="has changed since"):
        check_origins([second["outputs"]["folder"], *second["inputs"]])


def test_without_a_cache_each_makes_its_own(checkout):
    assert [checkout(name, cache="").times for name in ("first", "second")] == [1, 1]
    assert not checkout.cache.exists()


@pytest.mark.parametrize("changed", [{"words": "b c"}, {"size": 2}])
def test_another_input_or_setting_is_another_entry(checkout, changed):
    checkout("first")
    second = checkout("second", **changed)
    assert second.times == 1
    assert len(list(checkout.cache.iterdir())) == 2


@pytest.mark.fault(
    "disk", "a shared cache on another file system", "files are copied instead of linked"
)
def test_files_are_copied_where_they_cannot_be_linked(checkout, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("another file system")

    first = checkout("first")
    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setenv(VARIABLE, str(checkout.cache))
    other = first.out.parent.parent / "other"
    other.mkdir()
    job = first.job | {"outputs": {"folder": str(other)}}
    assert fetch(job, entry(checkout).name.removeprefix("make-"))
    assert (other / "text.txt").read_text() == "A B"
    assert not (other / "text.txt").samefile(first.out / "text.txt")


@pytest.mark.fault(
    "damage",
    "an entry of the shared cache is truncated, changed or incomplete",
    "it counts as missing and is recomputed",
)
@pytest.mark.parametrize("name", ["text.txt", "tasks/pairs.jsonl", "card.json"])
@pytest.mark.parametrize("damage", [halve, flip, Path.unlink])
def test_a_damaged_entry_is_ignored_and_made_anew(checkout, name, damage):
    checkout("first")
    damage(entry(checkout) / name)
    second, third = checkout("second"), checkout("third")
    assert (second.times, third.times) == (1, 0), second.log
    assert (third.out / "text.txt").read_text() == "A B"
    assert not [*checkout.cache.rglob(".partial-*")]


@pytest.mark.fault(
    "damage",
    "an output that is linked into the shared cache is damaged",
    "it is recomputed, and no other checkout reads the damaged file",
)
def test_a_damaged_file_of_the_results_is_never_stored(checkout):
    first = checkout("first")
    flip(first.out / "text.txt")  # of the entry too, which is the same file
    assert checkout("first").times == 2
    assert checkout("second").times == 0
    assert (first.out / "text.txt").read_text() == "A B"


@pytest.mark.fault(
    "damage",
    "an input changes while a job that has read it is running",
    "the output does not count as complete and is not stored in a cache",
)
def test_what_was_made_while_an_input_changed_is_not_stored(checkout):
    assert checkout("first", changes_its_input=True).status == 0
    assert not checkout.cache.exists()


@pytest.mark.bad_input(
    "hostile",
    "a card in the shared cache that lists files outside its folder",
    "the entry counts as damaged",
)
@pytest.mark.parametrize("form", ["relative", "absolute"])
def test_an_entry_names_no_file_outside_its_folder(checkout, form):
    first = checkout("first")
    outside = checkout.cache.parent / "outside.txt"
    outside.write_text("A B")
    name = "../../outside.txt" if form == "relative" else str(outside)
    write_card(entry(checkout), first.job, [name])
    second = checkout("second")
    assert second.times == 1
    assert f"{outside.name}: outside its folder" in second.log


def test_whoever_may_write_to_the_cache_may_replace_its_entries(checkout):
    checkout.cache.mkdir()
    checkout.cache.chmod(0o2775)
    checkout("first")
    folders = [entry(checkout), entry(checkout) / "tasks"]
    assert [folder.stat().st_mode & 0o7777 for folder in folders] == [0o2775, 0o2775]


@pytest.mark.fault(
    "disk",
    "a shared cache of another user that cannot be written to",
    "its entries are used; others are computed, and the log says that they were not stored",
)
def test_a_cache_that_is_only_read_gives_what_it_has(checkout):
    checkout("first")
    places = [checkout.cache, *checkout.cache.rglob("*")]
    before = {place: place.stat().st_mtime_ns for place in places}
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    assert checkout("second").times == 0
    assert {place: place.stat().st_mtime_ns for place in places} == before
    for place in places:
        place.chmod(0o755 if place.is_dir() else 0o644)


@pytest.mark.fault(
    "disk",
    "a shared cache of another user that cannot be written to",
    "its entries are used; others are computed, and the log says that they were not stored",
)
def test_a_cache_that_cannot_be_written_stops_no_job(checkout):
    first = checkout("first", cache="/proc")  # also closed to the superuser
    assert (first.status, first.times) == (0, 1), first.log
    assert "is not stored" in first.log


def test_a_relative_path_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "cache")
    with pytest.raises(UserError, match="LEXIGRAFT_CACHE: cache must be an absolute path"):
        fetch({"rule": "make"}, "0")
