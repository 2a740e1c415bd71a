"""What a study reads from outside is found, and `lexigraft doctor --study` says what is wrong."""

import pytest
import typer

from lexigraft.errors import UserError
from lexigraft.source.download import Remote
from lexigraft.source.hub_check import GATED, OK, UNUSABLE, HubAnswer, HubAsset
from lexigraft.source.revision_lock import read_lock
from lexigraft.source.web_check import CHANGED
from tests.hub_server import COMMIT, FAULTS, MOVED, PARQUET, serving
from tests.web_server import serving as serving_files
from tests.workflow.conftest import open_study
from workflow.commands import doctor
from workflow.commands.doctor import check_study
from workflow.config.revisions import assets_in
from workflow.stages.measuring import tasks_of
from workflow.status import outside
from workflow.status.assets import hub_assets, missing_files, web_files


@pytest.fixture(scope="module")
def vocadt():
    return open_study("vocadt")


@pytest.fixture(scope="module")
def salt():
    return open_study("salt")


@pytest.fixture(scope="module")
def read_by_salt(salt):
    return hub_assets(salt)


def test_models_tokenizers_networks_and_metrics_of_a_study_are_found(vocadt):
    found = {(one.kind, one.name) for one in hub_assets(vocadt)}
    assert {
        ("model", "mistralai/Mistral-7B-v0.1"),
        ("metric", "Unbabel/XCOMET-XL"),
        ("encoder", "facebook/xlm-roberta-xl"),
    } <= found
    assert any(kind == "hypernetwork" for kind, _ in found)
    names = [name for _, name in found]
    assert len(names) == len(set(names))


def test_data_sets_are_found_once_with_all_the_files_that_are_read(read_by_salt):
    [one] = [one for one in read_by_salt if one.name == "facebook/mlqa"]
    assert one.kind == "data set" and len(one.files) > 2
    assert {"mlqa", "mlqa-english-text"} <= {*one.where.split(", ")}


def test_what_a_task_compares_texts_by_is_found_with_the_task():
    study, task = open_study("lowres"), "summarization-mt5"
    cell = next(cell for cell in study.cells if task in tasks_of(study, cell))
    found = hub_assets(study, [study.output("evaluate", **cell.wildcards)])
    assert HubAsset("pieces", "google/mt5-base", where=task) in found


def test_files_that_are_named_by_their_addresses_on_the_hub_are_found():
    one, other = (
        {"loader": "datasets", "name": "json", "data_files": f"hf://datasets/{place}"}
        for place in ("org/name@0a1b/data/te/*.jsonl.gz", "org/name/data/el/*.jsonl.gz")
    )
    web = {"loader": "datasets", "name": "text", "data_files": ["https://example.org/te.txt.xz"]}
    assert assets_in({"text": one, "english": [other], "more": web}) == [
        HubAsset("data set", "org/name", "0a1b", ("data/te/*.jsonl.gz",)),
        HubAsset("data set", "org/name", None, ("data/el/*.jsonl.gz",)),
    ]


def test_local_files_that_are_not_there_are_found(vocadt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    missing = missing_files(vocadt)
    flores = "data/flores200_dataset/devtest/ell_Grek.devtest"
    assert missing.count(flores) == 1
    (tmp_path / flores).parent.mkdir(parents=True)
    (tmp_path / flores).write_text("one\n")
    assert {*missing} - {*missing_files(vocadt)} == {flores}


def test_files_of_the_web_are_found_with_what_reads_them():
    found = web_files(open_study("lowres"))
    assert found["https://data.statmt.org/cc-100/te.txt.xz"] == "te"
    assert len(found) == 10


@pytest.mark.parametrize(("state", "fails"), [(OK, False), (GATED, True)])
def test_a_study_is_checked_in_a_table(salt, read_by_salt, monkeypatch, capsys, state, fails):
    monkeypatch.setattr(outside, "hub_assets", lambda study: read_by_salt)
    monkeypatch.setattr(outside, "_of_harness", lambda study: [])
    monkeypatch.setattr(outside, "_of_packages", lambda study: [])
    monkeypatch.setattr(doctor, "study_named", lambda file: salt)
    answers = {"google/gemma-2b": HubAnswer(state, "what to do", 5 * 10**9)}
    monkeypatch.setattr(
        outside, "ask_hub", lambda asset: answers.get(asset.name, HubAnswer(OK, "", 10**9))
    )
    monkeypatch.setattr("workflow.status.recipes.missing_files", lambda study: [])
    if fails:
        with pytest.raises(typer.Exit):
            check_study("salt")
    else:
        check_study("salt")
    lines = capsys.readouterr().out.splitlines()
    [gemma] = [line for line in lines if "google/gemma-2b" in line]
    assert gemma.startswith(state) and gemma.endswith("for gemma-2b: what to do")
    assert "5.00 GB" in gemma
    assert f"{4 + len(read_by_salt)}.0 GB in total" in lines[-1]


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
    vectors = study.config["files"]["fasttext-crawl"]
    vectors["url"] = f"{files.address}/vectors/cc.{{code}}.300.bin.gz"
    model = HubAsset("model", "org/model", where="pythia-1b")
    monkeypatch.setattr(outside, "hub_assets", lambda _: [model])
    script = HubAsset("data set", "org/script", where="xnli_de")
    monkeypatch.setattr(outside, "_of_harness", lambda _: [script])
    monkeypatch.setattr(outside, "web_files", lambda _: {f"{files.address}/te.txt.xz": "te"})
    package = {"registry": "npm", "name": "toy", "version": "1.0.0", "sha256": "0" * 64}
    monkeypatch.setattr(outside, "_of_packages", lambda _: [
        (outside.Checked("package", "toy 1.0.0", "npm", HubAnswer(OK)),
         lambda: outside.ask_package(package))
    ])  # fmt: skip
    missing = ["data/fasttext/cc.te.300.bin", "data/colexnet/colexnet.vec", "data/own.txt"]
    monkeypatch.setattr("workflow.status.recipes.missing_files", lambda _: missing)
    return study


def states(study):
    return {one.name: (one.answer.state, one.answer.size) for one in outside.ask_all(study)}


def test_hub_harness_web_packages_and_local_files_are_asked_for(small, servers):
    _, files = servers
    assert states(small) == {
        "org/model": ("locked", 5210),
        "org/script": (UNUSABLE, None),  # which the hub has not converted
        f"{files.address}/te.txt.xz": (OK, 9),
        "toy 1.0.0": (OK, 5),
        "data/fasttext/cc.te.300.bin": ("to fetch", 7),
        "data/colexnet/colexnet.vec": ("by hand", None),
        "data/own.txt": ("missing", None),
    }
    assert read_lock(small.results) == {"models/org/model@main": COMMIT}


def test_a_data_set_with_a_script_is_read_from_the_hub_s_own_copy(small, monkeypatch):
    asked = []
    converted = {"de/test/0000.parquet": 11}

    def ask(asset):
        asked.append(asset.revision)
        if asset.revision == PARQUET:
            return HubAnswer(OK, "", sum(converted.values()))
        return real(asset)

    real = outside.ask_hub
    monkeypatch.setattr(outside, "ask_hub", ask)
    assert states(small)["org/script"] == (OK, 11)
    assert PARQUET in asked


def test_what_a_branch_is_today_is_compared_with_what_is_locked(small, monkeypatch):
    states(small)
    locked = HubAsset("model", "org/model", COMMIT, where="pythia-1b")
    monkeypatch.setattr(outside, "hub_assets", lambda _: [locked])
    details = []
    for moved in ({}, {"models/org/model": "f" * 40}):
        MOVED.update(moved)
        [model] = [one for one in outside.ask_all(small) if one.name == "org/model"]
        assert (model.answer.state, model.revision) == ("locked", "main")
        details.append(model.answer.detail)
    assert "today" not in details[0] and "ffffffffffff today" in details[1]
    assert read_lock(small.results) == {"models/org/model@main": COMMIT}


def test_a_fetched_file_is_compared_with_the_server_s(small, servers, monkeypatch, tmp_path):
    path = "data/fasttext/cc.te.300.bin"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(b"vectors")
    monkeypatch.setattr("workflow.status.recipes.missing_files", lambda _: [])
    monkeypatch.setattr(outside, "local_files", lambda _: [path])
    assert path not in states(small)  # which is the user's own
    for size, state in ((7, OK), (8, CHANGED)):
        monkeypatch.setattr(
            "workflow.status.recipes.FileRecipe.recorded",
            lambda _, size=size: Remote("", size, None),
        )
        assert states(small)[path] == (state, 7)


def test_a_study_that_is_none_is_refused():
    with pytest.raises(UserError, match="neither a file nor a study"):
        check_study("salty")
