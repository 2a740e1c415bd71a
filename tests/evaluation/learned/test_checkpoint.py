"""Finding and fetching a checkpoint, and when its preparation is stale."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.learned import checkpoint
from lexigraft.evaluation.learned.checkpoint import (
    STATE,
    find_part,
    hub_cache,
    learned_kind,
    learned_kinds,
    observed,
    prepare_metric,
    register_learned_kind,
    state,
)
from tests.conftest import run_command
from workflow.config.registries import load_registries

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "bleurt": ("config.json", "model.safetensors", "spm.model"),
    "comet": ("hparams.yaml", "checkpoints/model.ckpt"),
    "encoder": ("config.json", "tokenizer.json"),
}


def fill(folder: Path, part: str) -> Path:
    """Write a part's files, with their own names as contents."""
    for name in FILES[part]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def settings(kind: str, checkpoint, encoder=None, revision=None) -> dict:
    """A metric's entry, as a preparation sees it."""
    names = {"checkpoint": checkpoint, "encoder": encoder}
    folders = {key: None if name is None else str(name) for key, name in names.items()}
    return {"kind": kind, **folders, "revision": revision, "encoder_revision": None}


ON_HUB = settings("bleurt", "org/name", revision=COMMIT)


@pytest.fixture
def python(tmp_path) -> str:
    """A file where the metrics environment's Python would be."""
    file = tmp_path / "metrics" / "bin" / "python"
    file.parent.mkdir(parents=True)
    file.touch()
    return str(file)


@pytest.fixture
def snapshot(tmp_path, monkeypatch) -> Path:
    """Where an empty hub cache of the test's own would have `ON_HUB`."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    return cache / "models--org--name" / "snapshots" / COMMIT


def test_a_pickle_is_ignored_if_there_are_safetensors(tmp_path):
    folder = fill(tmp_path / "bleurt", "bleurt")
    (folder / "pytorch_model.bin").write_text("old")
    names = {file.name for file in find_part(settings("bleurt", folder), "checkpoint").files}
    assert "model.safetensors" in names and "pytorch_model.bin" not in names
    (folder / "model.safetensors").unlink()
    part = find_part(settings("bleurt", folder), "checkpoint")
    assert folder / "pytorch_model.bin" in part.files and part.missing is None


@pytest.mark.parametrize("revision", [COMMIT, "v1", None])
def test_a_hub_name_is_found_in_the_cache_by_commit_or_reference(revision, snapshot):
    fill(snapshot, "bleurt")
    references = snapshot.parents[1] / "refs"
    references.mkdir()
    for reference in ("v1", "main"):
        (references / reference).write_text(COMMIT)
    entry = settings("bleurt", "org/name", revision=revision)
    assert find_part(entry, "checkpoint").folder == snapshot


@pytest.mark.parametrize("variables", [{"XDG_CACHE_HOME": "/x"}, {"HF_HOME": "/h"}])
def test_the_hub_cache_is_that_of_huggingface_hub(variables, monkeypatch):
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    code = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    result = run_command([sys.executable, "-c", code])
    assert str(hub_cache()) == result.stdout.strip()


# ---- when a preparation is stale -----------------------------------------------------------------


@pytest.fixture
def prepare(python, tmp_path):
    """`prepare(settings)` writes what a preparation found; then `stale()` compares."""

    def build(settings):
        def now():
            return state(settings, python, str(tmp_path / "prepared"))

        before = now()
        digest, available = observed(settings, python)
        (tmp_path / "prepared").mkdir()
        last = {"state": before, "found": digest, "available": available}
        (tmp_path / "prepared" / STATE).write_text(json.dumps(last))
        assert now() == before
        return lambda: now() != before

    return build


@pytest.mark.parametrize("appears", ["checkpoint", "environment", "end of its installation"])
def test_a_failed_preparation_is_stale_when_what_it_lacked_appears(
    appears, prepare, python, tmp_path
):
    if appears == "environment":
        fill(tmp_path / "bleurt", "bleurt")
        Path(python).unlink()
    stale = prepare(settings("bleurt", tmp_path / "bleurt"))
    if appears == "checkpoint":
        fill(tmp_path / "bleurt", "bleurt")
    elif appears == "environment":
        Path(python).touch()
    else:
        (Path(python).parent.parent / "main").touch()
    assert stale()


def test_scores_outlive_the_checkpoint_and_the_environment_but_not_its_replacement(
    prepare, python, tmp_path
):
    config = fill(tmp_path / "bleurt", "bleurt") / "config.json"
    stale = prepare(settings("bleurt", tmp_path / "bleurt"))
    os.utime(config, ns=(1, 1))
    assert not stale()
    config.write_bytes(b"x" * config.stat().st_size)
    os.utime(config, ns=(1, 1))
    assert stale()
    config.unlink()
    Path(python).unlink()
    assert not stale()


# ---- preparation -----------------------------------------------------------------------------


def why(settings, python) -> str:
    facts = prepare_metric("tiny", settings, python)
    assert not facts["available"] and "\n" not in facts["why"]
    return facts["why"]


def test_a_local_checkpoint_is_described_with_its_checksums(tmp_path, python):
    folder, encoder = fill(tmp_path / "comet", "comet"), fill(tmp_path / "encoder", "encoder")
    facts = prepare_metric("tiny", settings("comet", folder, encoder), python)
    assert facts["available"] and facts["why"] is None
    assert facts["checkpoint"]["folder"] == str(folder)
    name = "checkpoints/model.ckpt"
    sha256 = hashlib.sha256(name.encode()).hexdigest()
    assert facts["checkpoint"]["files"][name] == {"bytes": len(name), "sha256": sha256}
    assert set(facts["encoder"]["files"]) == {"config.json", "tokenizer.json"}


def test_the_reason_names_what_is_missing(tmp_path, python):
    folder, absent = fill(tmp_path / "comet", "comet"), str(tmp_path / "no" / "python")
    assert why(settings("comet", folder), absent).startswith(f"{absent} is missing: run `make")
    assert why(settings("bleurt", None), python).startswith("metrics.tiny.checkpoint: none is")
    reason = why(settings("comet", folder, tmp_path / "none"), python)
    assert reason.startswith(
        f"metrics.tiny.encoder: {tmp_path / 'none'} has no config.json; add it"
    )


@pytest.mark.fault(
    "network",
    "a model or revision is not in the cache while offline",
    "a one-line error message names it and says how to download it",
)
def test_the_reason_says_how_to_download_a_checkpoint_when_offline(python, snapshot):
    reason = why(settings("bleurt", "org/name", revision="v1"), python)
    assert "metrics.tiny.checkpoint: org/name at revision v1 is not in the hub cache" in reason
    assert "`hf download org/name --revision v1`" in reason


def test_only_what_is_used_is_fetched_at_the_pinned_revision(python, snapshot, monkeypatch):
    asked = []

    def download(name, *, revision, allow_patterns):
        asked.append((name, revision))
        assert {*FILES["bleurt"]} <= {*allow_patterns} and "pytorch_model.bin" not in allow_patterns
        fill(snapshot, "bleurt")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    for _ in range(2):  # then it is in the cache
        facts = prepare_metric("tiny", ON_HUB, python)
        assert facts["checkpoint"]["revision"] == COMMIT
    assert asked == [("org/name", COMMIT)]


@pytest.mark.fault(
    "network",
    "the hub is unreachable while a learned metric is downloaded",
    "the record says why scores are missing; the study continues",
)
def test_the_reason_says_that_the_hub_cannot_be_reached(python, snapshot, monkeypatch):
    from huggingface_hub import errors

    def fail(*_, **__):
        raise errors.LocalEntryNotFoundError("no network")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    expected = f"org/name at revision {COMMIT} cannot be fetched: the hub cannot be reached"
    assert expected in why(ON_HUB, python)


# ---- kinds and the registry --------------------------------------------------------------------


def test_a_kind_from_outside_is_found_by_the_name_of_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint.LEARNED, "registered", {})
    file = tmp_path / "mine.py"
    file.write_text("VERSION = 2\nOPTIONAL_FILES = {}\nFILES = {'checkpoint': (('model.bin',),)}\n")
    register_learned_kind(file)
    assert "mine" in learned_kinds() and learned_kind("mine").VERSION == 2
    assert find_part(settings("mine", tmp_path), "checkpoint").missing == "model.bin"
    (tmp_path / "comet.py").touch()
    with pytest.raises(UserError, match="'comet' exists already"):
        register_learned_kind(tmp_path / "comet.py")


def test_every_hub_name_of_the_registry_has_a_commit():
    for name, entry in load_registries()["metrics"].items():
        for key, revision in (("checkpoint", "revision"), ("encoder", "encoder_revision")):
            if key in entry:
                assert len(entry[revision]) == 40, f"{name}.{revision}"
