"""What is read from the hub without a commit gets one when it is first looked up, and keeps it."""

import pytest

from lexigraft.errors import UserError
from lexigraft.source.hub_check import PARQUET, HubAsset
from lexigraft.source.revision_lock import REVISIONS_FILE, lock, read_lock
from tests.hub_server import COMMIT, FAULTS, MOVED, Hub, serving

OTHER = "f" * 40
MODEL, DATA = HubAsset("model", "org/model"), HubAsset("data set", "org/data", PARQUET)


@pytest.fixture(scope="module")
def endpoint():
    with serving() as address:
        yield address


@pytest.fixture
def hub(endpoint, monkeypatch, tmp_path):
    """The hub answers; its cache is empty."""
    from huggingface_hub import constants

    for faults in (FAULTS, MOVED):
        faults.clear()
    Hub.seen.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return constants


def test_a_commit_stays_when_the_branch_moves(hub, tmp_path):
    results = tmp_path / "results"
    first = lock(results, [MODEL, DATA])
    assert first == {"models/org/model@main": COMMIT, f"datasets/org/data@{PARQUET}": COMMIT}
    MOVED["models/org/model"] = OTHER
    Hub.seen.clear()
    assert lock(results, [MODEL, DATA]) == read_lock(results) == first
    assert Hub.seen == []
    (results / REVISIONS_FILE).unlink()
    assert lock(results, [MODEL])["models/org/model@main"] == OTHER


def test_what_is_pinned_is_not_asked_for(hub, tmp_path):
    assert lock(tmp_path, [HubAsset("model", "org/model", COMMIT)]) == {}
    assert Hub.seen == [] and not (tmp_path / REVISIONS_FILE).exists()


def test_without_the_hub_the_commit_is_that_of_its_cache(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    assert lock(tmp_path, [MODEL, DATA]) == {}
    reference = tmp_path / "cache/datasets--org--data/refs" / PARQUET
    reference.parent.mkdir(parents=True)
    reference.write_text(OTHER)
    assert lock(tmp_path, [MODEL, DATA]) == {DATA.key: OTHER}


@pytest.mark.parametrize("content", ["{", "[]", '{"models/org/model@main": "main"}'])
def test_a_lock_that_is_none_is_named(content, tmp_path):
    (tmp_path / REVISIONS_FILE).write_text(content)
    with pytest.raises(UserError, match=rf"{REVISIONS_FILE}.*delete it"):
        read_lock(tmp_path)
