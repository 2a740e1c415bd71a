"""Resolving hub names in a cache of huggingface_hub, without network."""

import json

import pytest

from lexigraft.errors import UserError
from lexigraft.source import hub
from lexigraft.source.hub import find_tokenizer, resolve
from tests.conftest import package_folder

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


MISTRAL = {"package": "mistral-common", "file": "mistral_common/data/tokenizer.model.v1"}


def test_a_source_of_the_results(tmp_path, smollm2_folder_tiny, smollm2_cut):
    (tmp_path / "source.json").write_text(json.dumps({"path": str(smollm2_folder_tiny)}))
    tokenizer, _ = find_tokenizer({"folder": str(tmp_path)})
    assert len(tokenizer) == len(smollm2_cut)


def test_a_sentencepiece_model_of_a_package(mistral_tokenizer, lines):
    tokenizer, commit = find_tokenizer(MISTRAL, package_folder("mistral-common"))
    assert commit is None
    assert tokenizer(lines)["input_ids"] == mistral_tokenizer(lines)["input_ids"]


def test_a_tokenizer_json_of_a_package(tmp_path, byte_tokenizer):
    own = byte_tokenizer(("t", "h"))
    own.backend_tokenizer.save(str(tmp_path / "any.name"))
    tokenizer, _ = find_tokenizer({"package": "p", "file": "any.name"}, tmp_path)
    assert tokenizer("the")["input_ids"] == own("the")["input_ids"]


@pytest.mark.bad_input("model", "a damaged tokenizer", "a one-line error message names the file")
@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not in package p"), ("{", "not a tokenizer"), ("no model", "not a SentencePiece")],
)
def test_what_is_no_tokenizer_is_named(tmp_path, content, message):
    if content is not None:
        (tmp_path / "file").write_text(content)
    with pytest.raises(UserError, match=message) as error:
        find_tokenizer({"package": "p", "file": "file"}, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.fault(
    "network",
    "a model or revision is not in the cache while offline",
    "a one-line error message names it and says how to download it",
)
def test_a_model_that_is_not_cached_is_told_offline(cache):
    with pytest.raises(UserError, match="source hub org/other: not in the cache"):
        resolve({"hub": "org/other"})


def test_a_name_that_cannot_be_one_is_reported(cache):
    with pytest.raises(UserError, match="source hub a/b/c"):
        resolve({"hub": "a/b/c"})
