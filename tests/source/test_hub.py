"""Resolving hub names in a cache of huggingface_hub, without network."""

import pytest

from lexigraft.errors import UserError
from lexigraft.source import hub
from lexigraft.source.hub import resolve

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch, whole_source):
    from huggingface_hub import constants

    repository = tmp_path / "cache" / "models--org--name"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for file in whole_source.iterdir():
        (snapshot / file.name).symlink_to(file)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot


@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_a_cached_model_resolves_to_its_commit_offline(revision, cache):
    assert resolve({"hub": "org/name", "revision": revision}) == (cache, COMMIT)


@pytest.mark.fault(
    "network",
    "a model or revision is not in the cache while offline",
    "a one-line error message names it and says how to download it",
)
def test_a_revision_that_is_not_cached_is_told_offline(cache):
    with pytest.raises(UserError, match="org/name at revision v2: not in the cache"):
        resolve({"hub": "org/name", "revision": "v2"})


def test_only_safe_files_of_the_top_folder_are_requested(monkeypatch, tmp_path):
    from huggingface_hub.utils import filter_repo_objects

    asked = {}

    def download(repository, **options):
        asked.update(options)
        return str(tmp_path / COMMIT)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert resolve({"hub": "org/name"})[1] == COMMIT
    there = [
        "config.json", "model-00001-of-00002.safetensors", "tokenizer.model", "merges.txt",
        "chat_template.jinja", "pytorch_model.bin", "modeling_x.py", "onnx/config.json",
        "consolidated.safetensors", "model.pth", "README.md",
    ]  # fmt: skip
    fetched = filter_repo_objects(
        there, allow_patterns=asked["allow_patterns"], ignore_patterns=asked["ignore_patterns"]
    )
    assert list(fetched) == there[:5]


def test_a_missing_local_folder_is_named(tmp_path):
    with pytest.raises(UserError, match=r"source folder .*nowhere: there is no such folder"):
        resolve({"folder": str(tmp_path / "nowhere")})
