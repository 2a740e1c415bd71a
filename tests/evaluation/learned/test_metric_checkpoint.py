"""Finding a checkpoint, and when its preparation is stale."""

import json
import os
from pathlib import Path

import pytest

from lexigraft.evaluation.learned.checkpoint import STATE, hub_cache, observed, parts, state
from tests.evaluation.learned.conftest import COMMIT


def lacking(settings) -> list:
    return [part.missing() for part in parts(settings)]


def test_a_folder_with_all_that_is_needed_lacks_nothing(tmp_path, fill, settings):
    folder, encoder = fill(tmp_path / "comet", "comet"), fill(tmp_path / "encoder", "encoder")
    assert lacking(settings("comet", folder, encoder)) == [None, None]


@pytest.mark.parametrize(
    ("kind", "part", "gone", "group"),
    [
        ("bleurt", "bleurt", "config.json", ("config.json",)),
        (
            "bleurt",
            "bleurt",
            "model.safetensors",
            ("model.safetensors", "pytorch_model.bin"),
        ),
        ("comet", "comet", "checkpoints/model.ckpt", ("checkpoints/model.ckpt",)),
    ],
)
def test_a_file_that_lacks_is_named(kind, part, gone, group, tmp_path, fill, settings):
    folder = fill(tmp_path / part, part)
    (folder / gone).unlink()
    assert lacking(settings(kind, folder))[0] == group


def test_a_pickle_is_not_looked_at_beside_safetensors(tmp_path, fill, settings):
    folder = fill(tmp_path / "bleurt", "bleurt")
    (folder / "pytorch_model.bin").write_text("old")
    (part,) = parts(settings("bleurt", folder))
    assert {file.name for file in part.files()} == {"config.json", "model.safetensors", "spm.model"}
    (folder / "model.safetensors").unlink()
    assert "pytorch_model.bin" in {file.name for file in part.files()}


@pytest.mark.parametrize("revision", [COMMIT, "v1", None])
def test_a_hub_name_is_found_in_the_cache_by_commit_or_reference(revision, hub, fill, settings):
    repository = hub / "models--org--name"
    snapshot = fill(repository / "snapshots" / COMMIT, "bleurt")
    (repository / "refs").mkdir()
    for reference in ("v1", "main"):
        (repository / "refs" / reference).write_text(COMMIT)
    (part,) = parts(settings("bleurt", "org/name", revision=revision))
    assert part.folder() == snapshot


def test_a_hub_name_that_is_not_in_the_cache_is_nowhere(hub, settings):
    (part,) = parts(settings("bleurt", "org/name", revision=COMMIT))
    assert part.folder() is None
    assert part.missing() == ("config.json",)


def test_the_hubs_cache_is_where_the_hub_has_it(monkeypatch):
    import subprocess
    import sys

    cases: list[dict[str, str]] = [
        {},
        {"XDG_CACHE_HOME": "/x"},
        {"HF_HOME": "/h"},
        {"HF_HOME": "/h", "HF_HUB_CACHE": "~/c"},
    ]
    names = ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE")
    code = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    for case in cases:
        for name in names:
            monkeypatch.delenv(name, raising=False)
        for name, value in case.items():
            monkeypatch.setenv(name, value)
        told = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert str(hub_cache()) == told.stdout.strip()


class Prepared:
    """A metric that was prepared: asks for its state, and writes down what a preparation found."""

    def __init__(self, settings: dict, python: str, folder: Path):
        self.settings, self.python, self.folder = settings, python, folder

    def state(self) -> str:
        return state(self.settings, self.python, str(self.folder))

    def prepare(self) -> str:
        """As scripts/prepare_metric.py does, after whatever the preparation fetched."""
        now = self.state()
        found, complete = observed(self.settings, self.python)
        self.folder.mkdir(exist_ok=True)
        kept = {"state": now, "found": found, "available": complete}
        (self.folder / STATE).write_text(json.dumps(kept))
        return now


@pytest.fixture
def local(tmp_path, settings, python) -> Prepared:
    return Prepared(settings("bleurt", tmp_path / "bleurt"), python, tmp_path / "prepared")


def test_nothing_is_stale_where_nothing_changes(local):
    before = local.prepare()
    assert local.state() == before


def test_a_checkpoint_that_appears_makes_a_failed_preparation_stale(local, tmp_path, fill):
    before = local.prepare()
    fill(tmp_path / "bleurt", "bleurt")
    assert local.state() != before
    # And once prepared again it stays so.
    again = local.prepare()
    assert local.state() == again != before


def test_an_environment_that_appears_makes_a_failed_preparation_stale(local, tmp_path, fill):
    fill(tmp_path / "bleurt", "bleurt")
    Path(local.python).unlink()
    before = local.prepare()
    Path(local.python).touch()
    assert local.state() != before


def test_an_environment_that_is_finished_makes_a_failed_preparation_stale(local):
    before = local.prepare()
    (Path(local.python).parent.parent / "main").touch()
    assert local.state() != before


def test_scores_outlive_the_checkpoint_and_the_environment(local, tmp_path, fill):
    folder = fill(tmp_path / "bleurt", "bleurt")
    before = local.prepare()
    (folder / "model.safetensors").unlink()
    assert local.state() == before
    Path(local.python).unlink()
    assert local.state() == before


def test_a_checkpoint_that_is_replaced_makes_its_preparation_stale(local, tmp_path, fill):
    folder = fill(tmp_path / "bleurt", "bleurt")
    before, config = local.prepare(), folder / "config.json"
    os.utime(config, ns=(1, 1))
    assert local.state() == before
    config.write_bytes(b"x" * config.stat().st_size)
    os.utime(config, ns=(1, 1))
    assert local.state() != before


@pytest.fixture
def on_hub(tmp_path, settings, python, hub) -> Prepared:
    entry = settings("bleurt", "org/name", revision=COMMIT)
    return Prepared(entry, python, tmp_path / "prepared")


def test_a_fetch_that_was_forbidden_is_tried_again_when_it_is_not(on_hub, monkeypatch):
    before = on_hub.prepare()
    assert on_hub.state() == before
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert on_hub.state() != before


def test_what_was_fetched_while_preparing_is_not_prepared_again(on_hub, hub, fill):
    before = on_hub.state()
    fill(hub / "models--org--name" / "snapshots" / COMMIT, "bleurt")
    found, complete = observed(on_hub.settings, on_hub.python)
    on_hub.folder.mkdir()
    kept = {"state": before, "found": found, "available": complete}
    (on_hub.folder / STATE).write_text(json.dumps(kept))
    assert complete
    assert on_hub.state() == before


def test_a_copy_of_a_cached_commit_is_the_same_whatever_its_time(on_hub, hub, fill):
    snapshot = fill(hub / "models--org--name" / "snapshots" / COMMIT, "bleurt")
    before = on_hub.prepare()
    os.utime(snapshot / "config.json", ns=(1, 1))
    assert on_hub.state() == before
