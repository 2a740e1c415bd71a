"""Results elsewhere, a cache that checkouts share, and a hub cache that is only read."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lexigraft.artifacts.shared_cache import VARIABLE
from lexigraft.artifacts.verification import verify
from lexigraft.source.model import load_model
from lexigraft.source.preparation import prepare_source
from lexigraft.source.tokenizer import load_tokenizer
from tests.workflow.conftest import Checkout, copy_project
from tests.workflow.plan import Plan
from workflow.inputs.source import package_of

TOKENIZER = "vocabulary/tiny/telugu/expand-50"
VECTORS = f"auxiliary/{TOKENIZER.removeprefix('vocabulary/')}/tiny"
FITTED = "initialization/tiny/telugu/expand-50/own/all-seeds"
SHARED = ("corpus/telugu", TOKENIZER, VECTORS)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def opened(config, **changed):
    return Plan(config | changed)


def test_results_and_packages_lie_below_the_prefix_unless_they_are_absolute(miniature):
    study = opened(miniature, prefix="/scratch/me")
    assert study.results == "/scratch/me/results"
    kolibri = [{"package": "kolibri"}]
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


@pytest.fixture(scope="module")
def shared(tmp_path_factory, miniature) -> tuple[list[Checkout], list[Path], Path]:
    """Two checkouts with results in places of their own, run one after the other with one cache."""
    cache = tmp_path_factory.mktemp("cache")
    checkouts, results = [], []
    for name in ("first", "second"):
        place = tmp_path_factory.mktemp(name)
        checkout = copy_project(place / "project")
        cells = [miniature["cells"][1] | {"initializers": ["own"]}]
        tiny = {"kind": "fasttext", "dimensions": 8, "minimum_count": 1, "epochs": 1}
        own = {
            "cells": cells,
            "auxiliary": {"tiny": tiny},
            "initializers": {"own": {"base": "focus", "auxiliary": "tiny"}},
            "prefix": str(place / "scratch"),
        }
        checkout.config = miniature | own
        target = place / "scratch/results" / FITTED / "card.json"
        done = subprocess.run(
            checkout.command("--", str(target)),
            cwd=checkout.folder,
            env=checkout.environment() | {VARIABLE: str(cache)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        checkouts.append(checkout)
        results.append(place / "scratch/results")
    return checkouts, results, cache


def test_what_one_study_made_another_takes_from_the_cache(shared):
    _, (first, second), cache = shared
    assert len(list(cache.iterdir())) == len(SHARED)
    for folder in SHARED:
        for name in json.loads((first / folder / "card.json").read_text())["files"]:
            assert (second / folder / name).samefile(first / folder / name)
        assert (first / folder / "usage.jsonl").exists()
        assert not (second / folder / "usage.jsonl").exists()  # no job did its work there


def test_what_the_cache_gave_is_complete(shared):
    """Also the files that only some tokenizers have: here a chat template."""
    _, (_, second), _ = shared
    for folder in SHARED:
        card = json.loads((second / folder / "card.json").read_text())
        assert card["job"] == json.loads((second / folder / "job.json").read_text())
        for name, described in card["files"].items():
            assert (second / folder / name).stat().st_size == described["bytes"], name
    assert (second / TOKENIZER / "chat_template.jinja").stat().st_size > 0
    assert verify(second).faults == []


def test_what_is_made_of_it_is_the_same(shared):
    _, (first, second), _ = shared
    recipes = [(results / FITTED / "recipe.npz").read_bytes() for results in (first, second)]
    assert recipes[0] == recipes[1]
    told = json.loads((second / FITTED / "job.json").read_text())
    assert told["inputs"]["tokenizer"] == str(second / TOKENIZER)


def test_another_text_is_not_taken_for_the_same(shared, miniature):
    (checkout, _), (first, _), cache = shared
    language = miniature["languages"]["telugu"] | {"heldout_sentences": 11}
    checkout.change(lambda config: config["languages"].update(telugu=language))
    done = subprocess.run(
        checkout.command("--", str(first / "corpus/telugu/card.json")),
        cwd=checkout.folder,
        env=checkout.environment() | {VARIABLE: str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len((first / "corpus/telugu/heldout.txt").read_text().splitlines()) == 11


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
