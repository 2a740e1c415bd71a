"""What a preparation finds, and what it says is lacking."""

import hashlib

import pytest

from lexigraft.evaluation.learned.checkpoint import prepare_metric
from tests.evaluation.learned.conftest import COMMIT


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


def test_without_the_environment_it_says_how_to_get_it(tmp_path, fill, settings):
    folder = fill(tmp_path / "bleurt", "bleurt")
    absent = str(tmp_path / "no" / "python")
    assert why(settings("bleurt", folder), absent).startswith(f"{absent} is missing: run `make")


def test_without_a_name_it_says_which_key_wants_one(settings, python):
    assert why(settings("bleurt", None), python).startswith("metrics.tiny.checkpoint: none is")


def test_a_missing_folder_and_its_missing_file_are_named(tmp_path, fill, settings, python):
    comet = settings("comet", fill(tmp_path / "comet", "comet"), tmp_path / "none")
    reason = f"metrics.tiny.encoder: {tmp_path / 'none'} has no config.json; add it"
    assert why(comet, python).startswith(reason)


@pytest.mark.fault(
    "network",
    "a model or revision is not in the cache while offline",
    "a one-line error message names it and says how to download it",
)
def test_offline_it_says_how_to_fetch(settings, python, hub):
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


def test_a_pickle_of_tensors_is_fetched_only_where_there_is_nothing_better(
    online, hub, settings, python, fill
):
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


def test_what_is_in_the_cache_is_not_asked_of_the_hub(online, hub, settings, python, fill):
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
def test_a_hub_that_cannot_be_reached_is_said(online, hub, settings, python):
    from huggingface_hub import errors

    def fail(_):
        raise errors.LocalEntryNotFoundError("no network")

    online(fail)
    reason = why(settings("bleurt", "org/name", revision=COMMIT), python)
    assert f"org/name at revision {COMMIT} cannot be fetched: the hub cannot be reached" in reason


def test_a_repository_without_the_files_is_said(online, hub, settings, python):
    snapshot = hub / "models--org--name" / "snapshots" / COMMIT
    online(lambda _: snapshot.mkdir(parents=True, exist_ok=True))
    reason = why(settings("bleurt", "org/name", revision=COMMIT), python)
    assert f"{snapshot} has no config.json" in reason
