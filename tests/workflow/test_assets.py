"""What a study reads from outside is found, and `lexigraft doctor --study` says what is wrong."""

import pytest
import typer

from lexigraft.errors import UserError
from lexigraft.source import hub_check
from lexigraft.source.hub_check import GATED, NOT_PINNED, OK, HubAnswer, HubAsset
from tests.workflow.conftest import open_study
from workflow.commands.doctor import check_study
from workflow.status.assets import _assets, hub_assets, missing_files


@pytest.fixture(scope="module")
def vocadt():
    return open_study("vocadt")


@pytest.fixture(scope="module")
def salt():
    return open_study("salt")


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


def test_data_sets_are_found_once_with_all_the_files_that_are_read(salt):
    [one] = [one for one in hub_assets(salt) if one.name == "facebook/mlqa"]
    assert one.kind == "data set" and len(one.files) > 2
    assert {"mlqa", "mlqa-english-text"} <= {*one.where.split(", ")}


def test_files_that_are_named_by_their_addresses_on_the_hub_are_found():
    one, other = (
        {"loader": "datasets", "name": "json", "data_files": f"hf://datasets/{place}"}
        for place in ("org/name@0a1b/data/te/*.jsonl.gz", "org/name/data/el/*.jsonl.gz")
    )
    web = {"loader": "datasets", "name": "text", "data_files": ["https://example.org/te.txt.xz"]}
    assert list(_assets({"text": one, "english": [other], "more": web}, "prepare_corpus")) == [
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


@pytest.mark.parametrize(("state", "fails"), [(OK, False), (NOT_PINNED, False), (GATED, True)])
def test_a_study_is_checked_in_a_table(salt, monkeypatch, capsys, state, fails):
    monkeypatch.setattr("workflow.commands.doctor.study_of", lambda file: salt)
    answers = {"google/gemma-2b": HubAnswer(state, "what to do", 5 * 10**9)}
    monkeypatch.setattr(
        hub_check, "ask_hub", lambda asset: answers.get(asset.name, HubAnswer(OK, "", 10**9))
    )
    monkeypatch.setattr("workflow.status.assets.missing_files", lambda study: [])
    if fails:
        with pytest.raises(typer.Exit):
            check_study("salt")
    else:
        check_study("salt")
    lines = capsys.readouterr().out.splitlines()
    [gemma] = [line for line in lines if "google/gemma-2b" in line]
    assert gemma.startswith(state) and gemma.endswith("for gemma-2b: what to do")
    assert "5.00 GB" in gemma
    assert f"{4 + len(hub_assets(salt))}.0 GB in all" in lines[-2]


def test_a_study_that_is_none_is_refused():
    with pytest.raises(UserError, match="neither a file nor a study"):
        check_study("salty")
