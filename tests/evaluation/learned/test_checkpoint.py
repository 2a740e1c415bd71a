"""Finding and fetching a checkpoint, and when its preparation is stale."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.learned import checkpoint
from lexigraft.evaluation.learned.checkpoint import (
    STATE,
    hub_cache,
    learned_kind,
    learned_kinds,
    observed,
    parts,
    prepare_metric,
    register_learned_kind,
    state,
)
from tests.evaluation.learned.conftest import COMMIT


def lacking(settings) -> list:
    return [part.missing() for part in parts(settings)]


def test_a_folder_with_all_required_files_is_complete(tmp_path, fill, settings):
    folder, encoder = fill(tmp_path / "comet", "comet"), fill(tmp_path / "encoder", "encoder")
    assert lacking(settings("comet", folder, encoder)) == [None, None]


def test_a_pickle_is_ignored_if_there_are_safetensors(tmp_path, fill, settings):
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


def test_the_hub_cache_is_that_of_huggingface_hub(monkeypatch):
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


def test_a_preparation_is_not_stale_if_nothing_changes(local):
    before = local.prepare()
    assert local.state() == before


@pytest.mark.parametrize("appears", ["checkpoint", "environment", "end of its installation"])
def test_a_failed_preparation_is_stale_when_what_it_lacked_appears(appears, local, tmp_path, fill):
    if appears == "environment":
        fill(tmp_path / "bleurt", "bleurt")
        Path(local.python).unlink()
    before = local.prepare()
    if appears == "checkpoint":
        fill(tmp_path / "bleurt", "bleurt")
    elif appears == "environment":
        Path(local.python).touch()
    else:
        (Path(local.python).parent.parent / "main").touch()
    assert local.state() != before
    assert local.prepare() == local.state()


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


def test_a_checkpoint_fetched_during_preparation_is_not_prepared_again(on_hub, hub, fill):
    before = on_hub.state()
    fill(hub / "models--org--name" / "snapshots" / COMMIT, "bleurt")
    found, complete = observed(on_hub.settings, on_hub.python)
    on_hub.folder.mkdir()
    kept = {"state": before, "found": found, "available": complete}
    (on_hub.folder / STATE).write_text(json.dumps(kept))
    assert complete
    assert on_hub.state() == before


def test_a_local_checkpoint_is_described_with_its_checksums(tmp_path, fill, settings, python):
    folder, encoder = fill(tmp_path / "comet", "comet"), fill(tmp_path / "encoder", "encoder")
    facts = prepare_metric("tiny", settings("comet", folder, encoder), python)
    assert facts["available"]
    assert facts["why"] is None
    assert facts["checkpoint"]["folder"] == str(folder)
    name = "checkpoints/model.ckpt"
    assert facts["checkpoint"]["files"][name] == {
        "bytes": len(name),
        "sha256": hashlib.sha256(name.encode()).hexdigest(),
    }
    assert set(facts["encoder"]["files"]) == {"config.json", "tokenizer.json"}


def why(settings, python) -> str:
    facts = prepare_metric("tiny", settings, python)
    assert not facts["available"]
    assert "\n" not in facts["why"]
    return facts["why"]


def test_the_reason_names_what_is_missing(tmp_path, fill, settings, python):
    folder, absent = fill(tmp_path / "comet", "comet"), str(tmp_path / "no" / "python")
    complete = settings("comet", folder, fill(tmp_path / "encoder", "encoder"))
    assert why(complete, absent).startswith(f"{absent} is missing: run `make")
    assert why(settings("bleurt", None), python).startswith("metrics.tiny.checkpoint: none is")
    without_encoder = settings("comet", folder, tmp_path / "none")
    reason = f"metrics.tiny.encoder: {tmp_path / 'none'} has no config.json; add it"
    assert why(without_encoder, python).startswith(reason)


@pytest.mark.fault(
    "network",
    "a model or revision is not in the cache while offline",
    "a one-line error message names it and says how to download it",
)
def test_the_reason_says_how_to_download_a_checkpoint_when_offline(settings, python, hub):
    reason = why(settings("bleurt", "org/name", revision="v1"), python)
    assert "metrics.tiny.checkpoint: org/name at revision v1 is not in the hub cache" in reason
    assert "`hf download org/name --revision v1`" in reason


@pytest.fixture
def online(monkeypatch):
    """Let the hub be asked, and answer in its place: `online(answer)` notes what was asked for."""

    def answer(function):
        import huggingface_hub

        asked = []

        def download(name, *, revision, allow_patterns):
            asked.append((name, revision, allow_patterns))
            function(allow_patterns)

        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
        return asked

    return answer


def test_only_what_is_used_is_fetched_at_the_pinned_revision(online, hub, settings, python, fill):
    snapshot = hub / "models--org--name" / "snapshots" / COMMIT
    asked = online(lambda _: fill(snapshot, "bleurt"))
    facts = prepare_metric("tiny", settings("bleurt", "org/name", revision=COMMIT), python)
    assert facts["checkpoint"]["revision"] == COMMIT
    ((name, revision, wanted),) = asked
    assert (name, revision) == ("org/name", COMMIT)
    assert {"config.json", "model.safetensors", "spm.model"} <= set(wanted)
    assert "pytorch_model.bin" not in wanted


def test_a_pickle_is_fetched_only_if_there_are_no_safetensors(online, hub, settings, python, fill):
    snapshot = hub / "models--org--name" / "snapshots" / COMMIT

    def answer(wanted):
        fill(snapshot, "bleurt")
        (snapshot / "model.safetensors").unlink()
        if "pytorch_model.bin" in wanted:
            (snapshot / "pytorch_model.bin").write_text("tensors")

    asked = online(answer)
    facts = prepare_metric("tiny", settings("bleurt", "org/name", revision=COMMIT), python)
    assert "pytorch_model.bin" in facts["checkpoint"]["files"]
    assert len(asked) == 2


def test_a_cached_checkpoint_is_not_requested_from_the_hub(online, hub, settings, python, fill):
    fill(hub / "models--org--name" / "snapshots" / COMMIT, "bleurt")
    asked = online(lambda _: None)
    assert prepare_metric("tiny", settings("bleurt", "org/name", revision=COMMIT), python)[
        "available"
    ]
    assert asked == []


@pytest.mark.fault(
    "network",
    "the hub is unreachable while a learned metric is downloaded",
    "the record says why scores are missing; the study continues",
)
def test_the_reason_says_that_the_hub_cannot_be_reached(online, hub, settings, python):
    from huggingface_hub import errors

    def fail(_):
        raise errors.LocalEntryNotFoundError("no network")

    online(fail)
    reason = why(settings("bleurt", "org/name", revision=COMMIT), python)
    assert f"org/name at revision {COMMIT} cannot be fetched: the hub cannot be reached" in reason


def test_the_reason_names_the_file_that_a_repository_lacks(online, hub, settings, python):
    snapshot = hub / "models--org--name" / "snapshots" / COMMIT
    online(lambda _: snapshot.mkdir(parents=True, exist_ok=True))
    reason = why(settings("bleurt", "org/name", revision=COMMIT), python)
    assert f"{snapshot} has no config.json" in reason


def test_a_kind_from_outside_is_found_by_the_name_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_REGISTERED", {})
    file = tmp_path / "mine.py"
    constants = {"VERSION": 2, "TITLES": {"mine": "Mine"}, "OPTIONAL_FILES": {}}
    constants["FILES"] = {"checkpoint": (("model.bin",),)}
    file.write_text("".join(f"{name} = {value!r}\n" for name, value in constants.items()))
    register_learned_kind(file)
    assert "mine" in learned_kinds()
    assert (learned_kind("mine").version, learned_kind("mine").file) == (2, str(file))
    [part] = parts({"kind": "mine", "checkpoint": str(tmp_path), "revision": None})
    assert part.missing() == ("model.bin",)
    other = tmp_path / "comet.py"
    other.touch()
    with pytest.raises(UserError, match="'comet' exists already"):
        register_learned_kind(other)
