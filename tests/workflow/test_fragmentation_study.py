"""Tokenizers by languages without any model: the papers' study, its miniature, and a real run."""

import csv
import json
from collections import Counter

import pytest

from lexigraft.report.items import read_items
from tests.workflow.conftest import copy_project, open_study, refused

COMMIT, OTHER = "1" * 40, "2" * 40


@pytest.fixture
def config(miniature, smollm2_folder_tiny, roberta_folder) -> dict:
    """Two tokenizers in local folders, on the miniature's two languages; no cells."""
    return {
        "study": "tokenizers-alone",
        "fragmentation": {"tokenizers": ["one", "two"], "languages": ["telugu", "greek"]},
        "tokenizers": {
            "one": {"folder": str(smollm2_folder_tiny)},
            "two": {"folder": str(roberta_folder)},
        },
        "languages": miniature["languages"],
        "report": {
            "fonts": None,
            "items": [
                {"item": "tokenizers", "compared_with": ["one"]}, "tokens_per_sentence", "texts",
                "contamination",
            ],
        },
    }  # fmt: skip


def test_a_study_of_tokenizers_runs_without_any_model(
    tmp_path, config, roberta_folder, monkeypatch
):
    repository = tmp_path / "cache/models--org--two"  # as the hub's library has it
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(COMMIT)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / COMMIT).symlink_to(roberta_folder)
    monkeypatch.setenv("HF_HUB_CACHE", str(repository.parent))
    config["tokenizers"]["two"] = {"hub": "org/two"}
    checkout = copy_project(tmp_path / "project")
    checkout.config = config
    result = checkout.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    results = checkout.folder / "results"
    assert not (results / "source").exists()
    record = json.loads((results / "fragmentation/one/telugu/record.json").read_text())
    assert record["metrics"]["english_parity"] > 3
    tokens = record["details"].pop("tokens")
    assert sum(tokens) / len(tokens) == record["metrics"]["tokens_per_sentence"]
    assert record["details"] == {"texts": 4, "translated": True, "train": 100}
    report = results / "report/tokenizers-alone"
    with (report / "tables/tokenizers.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert any("telugu" in row for row in rows)
    assert (report / "figures/tokens_per_sentence.png").stat().st_size > 0
    assert (report / "tables/contamination.html").stat().st_size > 0
    assert checkout.planned() == set()
    # The commit of what was not pinned is locked before its jobs, and theirs; another lock is
    # another input.
    lock = {"models/org/two@main": COMMIT}
    assert json.loads((results / "revisions.json").read_text()) == lock
    job = json.loads((results / "fragmentation/two/telugu/job.json").read_text())
    assert job["settings"] == {"hub": "org/two", "revision": COMMIT}
    (results / "revisions.json").write_text(json.dumps({"models/org/two@main": OTHER}))
    assert checkout.planned() == {
        "Measuring how the tokenizer two tokenizes telugu",
        "Measuring how the tokenizer two tokenizes greek",
        "report",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["fragmentation"].update(tokenizers=["ones"]),
         "config.fragmentation.tokenizers: 'ones' is not known; did you mean 'one'?"),
        (lambda c: c["fragmentation"].update(languages=["latin-group"]),
         "config.fragmentation.languages: 'latin-group' is a group; list its members"),
        (lambda c: c["tokenizers"]["one"].update(folder="no/such"),
         "tokenizers.one.folder: no/such contains no tokenizer.json"),
        (lambda c: c["tokenizers"].update(one={"package": "kolobri", "file": "f"}),
         "tokenizers.one.package: 'kolobri' is not known; did you mean 'kolibri'?"),
        (lambda c: c["tokenizers"].update(one={}), "tokenizers.one: needs exactly one of"),
        (lambda c: c["report"]["items"][0].update(compared_with=["three"]),
         "report.items[0].compared_with: 'three' is not compared by this study"),
        (lambda c: c["languages"]["greek"].update(repair=["quote"]), "languages.greek.repair[0]"),
        (lambda c: c.pop("fragmentation"), "config: 'cells' is missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named_before_any_job(config, change, message):
    from copy import deepcopy

    config = deepcopy(config)
    change(config)
    assert message in refused(config)


def test_the_papers_study_has_every_tokenizer_in_every_language():
    study = open_study("fragmentation")
    wanted = study.config["fragmentation"]
    counts = Counter(job.rule for job in study.jobs().values())
    assert counts["measure_tokenizer"] == len(wanted["tokenizers"]) * len(wanted["languages"])
    assert not study.cells
    assert not {"train", "evaluate", "prepare_source"} & {*counts}
    shown = {item.name: item for item in read_items(study.config["report"]["items"])}
    assert set(shown["lowres-figure-3"].options.tokenizers) == {"llama-2", "llama-3", "gemma-2"}
    ten = {"ar", "my", "de", "el", "hi", "ja", "si", "sw", "te", "th"}
    assert set(shown["lowres-figure-3"].where["language"]) == {
        f"{code}-flores" for code in {*ten, "en"}
    }
    assert shown["salt-table-9"].options.compared_with == ("xglm", "gemma")
    for name in wanted["languages"]:
        language = study.config["languages"][name]
        assert language["parallel"]["target"].endswith(".dev")
        assert language["text"]["paths"][0].endswith(".devtest")


def test_the_miniature_needs_no_hub():
    study = open_study("fragmentation-mini")
    for name in study.config["fragmentation"]["tokenizers"]:
        assert "package" in study.config["tokenizers"][name]
    for name in study.config["fragmentation"]["languages"]:
        assert study.config["languages"][name]["text"]["loader"] == "catalogue"
