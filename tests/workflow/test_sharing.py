"""Results elsewhere, and a hub cache that is only read."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from lexigraft.source.model import load_model
from lexigraft.source.preparation import prepare_source
from lexigraft.source.tokenizer import load_tokenizer
from tests.workflow.plan import Plan
from workflow.inputs.source import package_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def opened(config, **changed):
    return Plan(config | changed)


def test_results_and_packages_lie_below_the_prefix_unless_they_are_absolute(miniature):
    study = opened(miniature, prefix="/scratch/me")
    assert study.results == "/scratch/me/results"
    kolibri = SimpleNamespace(package="kolibri")
    assert package_of(study, kolibri).startswith("/scratch/me/.cache/packages/kolibri-")
    elsewhere = opened(miniature, prefix="/scratch/me", results="/other", packages_folder="there")
    assert elsewhere.results == "/other"
    assert package_of(elsewhere, kolibri).startswith("/scratch/me/there/")
    assert opened(miniature).results == "results"


def test_every_job_says_the_same_below_any_prefix(miniature):
    def jobs(study):
        return [study.job(job.rule, job.wildcards) for job in study.jobs().values()]

    one, two = (opened(miniature, prefix=prefix) for prefix in ("/a", "/b/c"))
    assert jobs(one) == jobs(two)
    assert all("/a/" not in text for text in jobs(one))


@pytest.fixture
def hub_cache(tmp_path, smollm2_folder_tiny) -> Path:
    """A hub cache that holds one model, which nobody may write to."""
    cache = tmp_path / "hub"
    model = cache / "models--made--up"
    (model / "refs").mkdir(parents=True)
    (model / "refs/main").write_text(COMMIT)
    shutil.copytree(smollm2_folder_tiny, model / "snapshots" / COMMIT)
    folders = [cache, *(path for path in cache.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield cache
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.fault(
    "disk",
    "a read-only hub cache of another user",
    "models are read from it, and nothing in it changes",
)
@pytest.mark.parametrize("revision", [COMMIT, None])
def test_a_hub_cache_is_only_read(hub_cache, tmp_path, monkeypatch, revision):
    from huggingface_hub import constants

    def all_there():
        # Also where the tests run as root, whom modes do not stop.
        return {path: path.stat().st_mtime_ns for path in [hub_cache, *hub_cache.rglob("*")]}

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub_cache))
    before = all_there()
    settings = {"hub": "made/up"} | ({"revision": revision} if revision else {})
    prepare_source(settings, tmp_path / "source")
    found = json.loads((tmp_path / "source/source.json").read_text())
    assert found["revision"] == COMMIT
    assert Path(found["path"]).is_relative_to(hub_cache)
    load_model(Path(found["path"]), "auto")
    load_tokenizer(Path(found["path"]))
    assert all_there() == before


def test_jobs_are_told_of_the_hub_cache_and_the_prefix_by_their_environment(miniature):
    study = opened(miniature, hub_cache="~/hub", prefix="/scratch/me")
    home = str(Path.home())
    plugins = {"LEXIGRAFT_PLUGINS": "[]"}
    assert study.environment() == plugins | {
        "HF_HUB_CACHE": f"{home}/hub",
        "LEXIGRAFT_PREFIX": "/scratch/me",
    }
    assert opened(miniature).environment() == plugins
