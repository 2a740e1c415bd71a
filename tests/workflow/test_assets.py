"""What the jobs of a study read from elsewhere, and the checks of `lexigraft doctor --study`."""

from dataclasses import replace

import pytest
import typer

from lexigraft.source.download import Remote
from lexigraft.source.hub_check import CHANGED, GATED, OK, UNUSABLE, HubAnswer, HubAsset
from lexigraft.source.revision_lock import read_lock
from tests.hub_server import COMMIT, FAULTS, MOVED, PARQUET, serving
from tests.web_server import serving as serving_files
from tests.workflow.conftest import open_study, planned_jobs
from workflow import assets
from workflow.assets import hub_assets, web_files
from workflow.commands.doctor import check_study
from workflow.config.revisions import assets_in
from workflow.jobs import Job


def test_models_hypernetworks_and_metrics_of_a_study_are_listed_once():
    found = {(asset.kind, asset.name) for asset in hub_assets(planned_jobs("vocadt").values())}
    assert {
        ("model", "mistralai/Mistral-7B-v0.1"),
        ("metric", "Unbabel/XCOMET-XL"),
        ("encoder", "facebook/xlm-roberta-xl"),
    } <= found
    assert any(kind == "hypernetwork" for kind, _ in found)
    names = [name for _, name in found]
    assert len(names) == len(set(names))


def test_a_tokenizer_by_which_a_task_compares_texts_is_listed_with_the_task():
    assets = hub_assets(planned_jobs("lowres").values())
    assert HubAsset("pieces", "google/mt5-base", where="summarization-mt5") in assets


def test_files_named_by_their_addresses_on_the_hub_belong_to_their_data_set():
    one, other = (
        {"loader": "datasets", "name": "json", "data_files": f"hf://datasets/{place}"}
        for place in ("org/name@0a1b/data/te/*.jsonl.gz", "org/name/data/el/*.jsonl.gz")
    )
    web = {"loader": "datasets", "name": "text", "data_files": ["https://example.org/te.txt.xz"]}
    assert assets_in({"text": one, "english": [other], "more": web}) == [
        HubAsset("data set", "org/name", "0a1b", ("data/te/*.jsonl.gz",)),
        HubAsset("data set", "org/name", None, ("data/el/*.jsonl.gz",)),
    ]


def test_files_on_the_web_are_listed_with_their_readers():
    found = web_files(planned_jobs("lowres").values())
    assert found["https://data.statmt.org/cc-100/te.txt.xz"] == "te"
    assert len(found) == 10


@pytest.mark.parametrize(("state", "fails"), [(OK, False), (GATED, True)])
def test_the_check_of_a_study_is_a_table(monkeypatch, capsys, tmp_path, state, fails):
    monkeypatch.chdir(tmp_path)
    model = HubAsset("model", "google/gemma-2b", where="gemma-2b")
    other = HubAsset("model", "org/model", where="other")
    monkeypatch.setattr(assets, "hub_assets", lambda jobs: [model, other])
    monkeypatch.setattr(assets, "ask_package", lambda package: HubAnswer(OK))
    answers = {"google/gemma-2b": HubAnswer(state, "what to do", 5 * 10**9)}
    monkeypatch.setattr(
        assets, "ask_hub", lambda asset: answers.get(asset.name, HubAnswer(OK, "", 10**9))
    )
    monkeypatch.setattr("workflow.recipes.missing_files", lambda jobs: [])
    if fails:
        with pytest.raises(typer.Exit):
            check_study("fragmentation-mini")
    else:
        check_study("fragmentation-mini")
    lines = capsys.readouterr().out.splitlines()
    [gemma] = [line for line in lines if "google/gemma-2b" in line]
    assert gemma.startswith(state) and gemma.endswith("for gemma-2b: what to do")
    assert "5.00 GB" in gemma and "6.0 GB in total" in lines[-1]


@pytest.fixture(scope="module")
def servers():
    with serving() as hub, serving_files() as files:
        yield hub, files


@pytest.fixture
def small(servers, monkeypatch, tmp_path):
    """A study of one thing of each kind, all of which are on servers of the test."""
    from huggingface_hub import constants

    hub, files = servers
    for faults in (FAULTS, MOVED):
        faults.clear()
    files.clear()
    files.contents = {"/te.txt.xz": b"x" * 9, "/vectors/cc.te.300.bin.gz": b"y" * 7,
                      "/toy/-/toy-1.0.0.tgz": b"z" * 5}  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", hub)
    monkeypatch.setenv("npm_config_registry", files.address)
    study = open_study("fragmentation")
    study.results = str(tmp_path / "results")
    url = f"{files.address}/vectors/cc.{{code}}.300.bin.gz"
    study.files["fasttext-crawl"] = study.files["fasttext-crawl"].model_copy(update={"url": url})
    script = HubAsset("data set", "org/script", where="xnli_de")
    monkeypatch.setattr(assets, "_benchmark_data", lambda _: [script])
    return study


@pytest.fixture
def jobs(servers) -> dict[str, Job]:
    """Jobs that read a model, a file on the web, a package and three missing local files."""
    _, files = servers
    model = {"settings": {"hub": "org/model"}}
    text = {"settings": {"text": {"data_files": f"{files.address}/te.txt.xz"}}}
    package = {"registry": "npm", "name": "toy", "version": "1.0.0", "sha256": "0" * 64}
    missing = ["data/fasttext/cc.te.300.bin", "data/colexnet/colexnet.vec", "data/own.txt"]
    local = {"settings": {}, "contents": dict.fromkeys(missing)}
    planned = [
        Job("prepare_source", {"source": "pythia-1b"}, "a/card.json", (), "", model),
        Job("prepare_corpus", {"language": "te"}, "b/card.json", (), "", text),
        Job(
            "fetch_package", {"package": "toy-1.0.0"}, "c/card.json", (), "", {"settings": package}
        ),
        Job("initialize", {}, "d/card.json", (), "", local),
    ]
    return {job.card: job for job in planned}


def answers(study, jobs):
    """Name of each asset -> its state and size."""
    checked = assets.check_assets(study, jobs)
    return {asset.name: (asset.answer.state, asset.answer.size) for asset in checked}


def test_the_hub_benchmarks_the_web_packages_and_local_files_are_checked(small, jobs, servers):
    _, files = servers
    assert answers(small, jobs) == {
        "org/model": ("locked", 5210),
        "org/script": (UNUSABLE, None),  # which the hub has not converted
        f"{files.address}/te.txt.xz": (OK, 9),
        "toy 1.0.0": (OK, 5),
        "data/fasttext/cc.te.300.bin": ("to fetch", 7),
        "data/colexnet/colexnet.vec": ("by hand", None),
        "data/own.txt": ("missing", None),
    }
    assert read_lock(small.results) == {"models/org/model@main": COMMIT}


def test_a_data_set_with_a_script_is_read_from_the_copy_of_the_hub(small, jobs, monkeypatch):
    asked = []
    converted = {"de/test/0000.parquet": 11}

    def ask(asset):
        asked.append(asset.revision)
        if asset.revision == PARQUET:
            return HubAnswer(OK, "", sum(converted.values()))
        return real(asset)

    real = assets.ask_hub
    monkeypatch.setattr(assets, "ask_hub", ask)
    assert answers(small, jobs)["org/script"] == (OK, 11)
    assert PARQUET in asked


def test_a_locked_commit_is_compared_with_its_branch(small, jobs):
    answers(small, jobs)
    locked = {"settings": {"hub": "org/model", "revision": COMMIT}}
    jobs["a/card.json"] = replace(jobs["a/card.json"], description=locked)
    details = []
    for moved in ({}, {"models/org/model": "f" * 40}):
        MOVED.update(moved)
        checked = assets.check_assets(small, jobs)
        [model] = [asset for asset in checked if asset.name == "org/model"]
        assert (model.answer.state, model.revision) == ("locked", "main")
        details.append(model.answer.detail)
    assert "today" not in details[0] and "ffffffffffff today" in details[1]
    assert read_lock(small.results) == {"models/org/model@main": COMMIT}


def test_a_fetched_file_is_compared_with_that_on_the_server(small, jobs, monkeypatch, tmp_path):
    path = "data/fasttext/cc.te.300.bin"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(b"vectors")
    assert path not in answers(small, jobs)  # which is the user's own
    for size, state in ((7, OK), (8, CHANGED)):
        monkeypatch.setattr(
            "workflow.recipes.FileRecipe.recorded",
            lambda _, size=size: Remote("", size, None),
        )
        assert answers(small, jobs)[path] == (state, 7)
