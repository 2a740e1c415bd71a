"""Commits that a results folder locks are those of its jobs; another lock is another input."""

import json

import pytest

from lexigraft.artifacts.completion import fingerprint
from lexigraft.source import revision_lock
from lexigraft.source.hub_check import COMMIT, NO_ANSWER, HubAnswer
from lexigraft.source.revision_lock import REVISIONS_FILE
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import REPOSITORY
from tests.workflow.plan import Plan
from workflow.assets import hub_assets, lock_revisions
from workflow.config.registries import REGISTRIES
from workflow.config.revisions import assets_in
from workflow.inputs import corpus
from workflow.jobs import Job

ONE, OTHER = "1" * 40, "2" * 40
LOOSE = {
    "models/Qwen/Qwen2-1.5B@main",
    "models/benjamin/zett-hypernetwork-multilingual-Mistral-7B-v0.1@main",
    "models/h-j-han/Mistral-7B-VocADT-50k-All@main",
    "models/google/mt5-base@main",
    "datasets/csebuetnlp/xlsum@refs/convert/parquet",
    "datasets/facebook/xnli@main",
    "datasets/monology/pile-uncopyrighted@main",
    "datasets/EleutherAI/proof-pile-2@main",
    "datasets/DKYoon/SlimPajama-6B@main",
}


@pytest.fixture(scope="module")
def config():
    file = REPOSITORY / "config/studies/unifyvocab.yaml"
    return read_yaml(file)


@pytest.fixture
def opened(config, tmp_path):
    """`opened(lock)`: the study of UnifyVocab, whose results folder has this lock."""

    def open_study(lock=None):
        results = tmp_path / "results"
        results.mkdir(exist_ok=True)
        if lock is not None:
            (results / REVISIONS_FILE).write_text(json.dumps(lock))
        return Plan(config | {"results": str(results)})

    return open_study


def all_of(study):
    """All that the registries, with the study's own entries, read from the hub."""
    return assets_in({kind: study.config[kind] for kind in (*REGISTRIES, "alignment")})


def test_once_locked_every_entry_has_a_commit(opened):
    loose = {one.key for one in all_of(opened()) if not one.is_pinned}
    assert loose >= LOOSE
    locked = opened(dict.fromkeys(loose, ONE))
    found = all_of(locked)
    assert all(COMMIT.fullmatch(one.revision or "") for one in found)
    assert len(found) == len(all_of(opened({})))


def reading(study, *sources, language=None):
    """Jobs that read sources, and the text of a language, with the settings of a study."""
    jobs = [
        Job(
            "prepare_source",
            {"source": name},
            "",
            (),
            "",
            {"settings": study.config["sources"][name]},
        )
        for name in sources
    ]
    if language:
        axes = {"language": language}
        settings = {"settings": corpus.settings(study, axes)}
        jobs.append(Job("prepare_corpus", axes, "", (), "", settings))
    return jobs


def test_what_planned_jobs_read_is_locked_and_read_from_then_on(opened, monkeypatch):
    asked = []

    def answer(asset):
        asked.append(asset.key)
        return HubAnswer("not pinned", commit=ONE)

    monkeypatch.setattr(revision_lock, "ask_hub", answer)
    study = opened()
    planned = reading(study, "qwen2-1.5b", "pythia-1b", language="pile")
    assert lock_revisions(study, planned) == ""
    assert sorted(asked) == [
        "datasets/monology/pile-uncopyrighted@main",
        "models/Qwen/Qwen2-1.5B@main",
    ]
    asked.clear()
    for same in (study, opened()):  # and so in each job, which opens the study anew
        planned = reading(same, "qwen2-1.5b", "pythia-1b", language="pile")
        assert {asset.revision for asset in hub_assets(planned)} == {
            ONE, study.config["sources"]["pythia-1b"]["revision"]
        }  # fmt: skip
        assert lock_revisions(same, planned) == "" and asked == []


def test_another_lock_is_another_input_of_what_reads_it_alone(opened):
    lock = {"datasets/EleutherAI/proof-pile-2@main": ONE, "models/Qwen/Qwen2-1.5B@main": ONE}
    jobs = {
        "prepare_source": {"source": "qwen2-1.5b"},
        "prepare_corpus": {"language": "proof-pile-2"},
    }

    def descriptions(lock):
        study = opened(lock)  # planned before another lock takes the place of this one
        return {rule: study.described(rule, axes) for rule, axes in jobs.items()}

    first = descriptions(lock)
    second = descriptions(lock | {"models/Qwen/Qwen2-1.5B@main": OTHER})
    assert first["prepare_source"]["settings"]["revision"] == ONE
    assert second["prepare_source"]["settings"]["revision"] == OTHER
    assert fingerprint(first["prepare_source"]) != fingerprint(second["prepare_source"])
    assert fingerprint(first["prepare_corpus"]) == fingerprint(second["prepare_corpus"])
    addresses = first["prepare_corpus"]["settings"]["text"]["data_files"]
    folder = f"hf://datasets/EleutherAI/proof-pile-2@{ONE}/"
    assert len(addresses) == 3 and all(address.startswith(folder) for address in addresses)


def test_what_the_hub_does_not_say_is_named_and_tried_again(opened, monkeypatch):
    monkeypatch.setattr(revision_lock, "ask_hub", lambda asset: HubAnswer(NO_ANSWER))
    monkeypatch.setattr(revision_lock, "cached_commit", lambda asset: None)
    study = opened()
    planned = reading(study, "qwen2-1.5b")
    assert "Qwen/Qwen2-1.5B" in lock_revisions(study, planned)
    assert study.config["sources"]["qwen2-1.5b"].get("revision") is None
    monkeypatch.setattr(revision_lock, "ask_hub", lambda asset: HubAnswer("", commit=ONE))
    assert lock_revisions(study, planned) == ""
    assert study.config["sources"]["qwen2-1.5b"]["revision"] == ONE
