"""The study of UnifyVocab holds the paper's initialization grid, and its miniature every axis."""

from itertools import product

import pytest

from lexigraft.cells import Cell
from lexigraft.report.items import read_items
from tests.workflow.conftest import open_study, shown
from workflow.config.checks import check_local_files
from workflow.config.registries import ROOT

CODES = ("ar", "bn", "de", "en", "ja", "ko", "ta", "te", "th", "ur", "vi", "zh")
TWELVE = [f"culturax-{code}" for code in CODES]
BASELINES = ["gaussian-small", "permutation", "wechsel-english", "ofa-none", "focus"]


@pytest.fixture(scope="module")
def study():
    return open_study("unifyvocab")


@pytest.fixture(scope="module")
def mini():
    return open_study("unifyvocab-mini")


def cells(sources, languages, vocabularies, initializers, strategies=("none", "progressive")):
    names = product(sources, languages, vocabularies, initializers, strategies)
    return {Cell(*axes, seed=0) for axes in names}


def test_it_has_every_row_of_table_1_that_can_be_had(study):
    mixed = ["unifyvocab-mix"]
    rows = cells(["pythia-1b"], mixed, ["gemma"], [*BASELINES, "unifyvocab", "unifyvocab-relative"])
    rows |= cells(["pythia-1b"], ["slimpajama"], ["gemma"], ["unifyvocab"])
    larger = ["gaussian-small", "permutation", "focus", "unifyvocab"]
    rows |= cells(["pythia-2.8b"], mixed, ["gemma"], larger)
    assert rows <= set(study.cells)


def test_it_has_the_ten_replacements_of_table_2(study):
    four = ["gemma", "qwen2", "llama-2", "llama-3"]
    rows = cells(["pythia-1b"], ["unifyvocab-mix"], four, ["unifyvocab"], ["progressive"])
    larger = ["pythia-2.8b", "pythia-6.9b"]
    three = ["gemma", "qwen2", "llama-3"]
    rows |= cells(larger, ["unifyvocab-mix"], three, ["unifyvocab"], ["progressive"])
    assert len(rows) == 10
    assert rows <= set(study.cells)


def test_it_has_the_languages_of_table_4_before_and_after_training(study):
    pair = ["focus", "unifyvocab"]
    assert cells(["pythia-1b", "pythia-6.9b"], TWELVE, ["qwen2"], pair) <= set(study.cells)


WAYS = ["progressive-slow", "progressive-fast", "full", "full-fast"]
SHUFFLED = [f"unifyvocab-shuffled-{share}" for share in (25, 50, 75, 100)]


def test_it_has_the_ways_of_training_of_figures_4b_5_and_7(study):
    mixed = ["unifyvocab-mix"]
    four = ["gemma", "qwen2", "llama-2", "llama-3"]
    rows = cells(["pythia-1b"], mixed, ["gemma"], ["unifyvocab"], [*WAYS, "progressive"])
    rows |= cells(["pythia-1b"], mixed, four, ["gaussian-small"], ["progressive"])
    rows |= cells(["pythia-1b"], mixed, ["qwen2"], ["unifyvocab", *SHUFFLED], ["progressive"])
    assert rows <= set(study.cells)
    for name, first in (("progressive-slow", 1.6e-4), ("progressive-fast", 2.56e-3)):
        phases = study.config["strategies"][name]["phases"]
        assert [phase.get("learning_rate", 5e-5) for phase in phases] == [first, 5e-5]
    rates = [study.config["strategies"][name]["learning_rate"] for name in ("full", "full-fast")]
    assert rates == [5e-5, 6.4e-4]


def test_it_has_the_teachers_of_table_3_each_with_its_own_vocabulary(study):
    both = ["pythia-1b", "pythia-6.9b"]
    teachers = {"gemma": "distill-gemma", "qwen2": "distill", "llama-3": "distill-llama-3"}
    baselines = ["direct-tuning", "sentence-distill"]
    rows = cells(both, ["unifyvocab-mix"], ["source"], ["none"], baselines)
    for vocabulary, strategy in teachers.items():
        rows |= cells(both, ["unifyvocab-mix"], [vocabulary], ["unifyvocab"], [strategy])
        entry = study.config["strategies"][strategy]["phases"][-1]
        teacher = study.config["sources"][entry["distill"]["teacher"]]["hub"]
        assert teacher == study.config["vocabularies"][vocabulary]["tokenizer"]
        assert entry["data"] == {"monolingual": 0.85, "tasks": 0.15}
    assert rows <= set(study.cells)


def test_the_settings_are_the_papers(study):
    glove = study.config["auxiliary"]["glove"]
    assert (glove["dimensions"], glove["window"], glove["epochs"]) == (300, 15, 15)
    shares = study.config["languages"]["unifyvocab-mix"]["group"]["shares"]
    assert shares == {"culturax-en": 0.4, "the-stack": 0.3, "proof-pile-2": 0.3}
    strategy = study.config["strategies"]["progressive"]
    assert [phase["trainable"] for phase in strategy["phases"]] == [["embeddings", "head"], ["all"]]
    assert [phase["share"] for phase in strategy["phases"]] == [0.5, 0.5]
    tokens = {strategy["batch_sequences"] * phase["length"] for phase in strategy["phases"]}
    assert tokens == {2 * 2**20}
    options = study.config["initializers"]["unifyvocab-relative"]["options"]
    assert options == {"anchors": 300}


def test_revisions_are_commits(study):
    pinned = [study.config["sources"][f"pythia-{size}"] for size in ("1b", "2.8b", "6.9b")]
    pinned += [study.config["vocabularies"][name] for name in ("gemma", "qwen2", "llama-2")]
    for entry in pinned:
        assert len(entry["revision"]) == 40
        int(entry["revision"], 16)


def test_the_miniature_has_every_initializer_but_the_variants_of_glove(study, mini):
    variants = {"unifyvocab-100d", "unifyvocab-window-5", "unifyvocab-5-epochs"}
    variants.add("unifyvocab-x-max-100")
    used = {cell.initializer for cell in study.cells}
    assert used - variants <= shown(mini, "initializer", "initializers")


def test_the_miniature_has_three_families_and_the_items_of_the_paper(study, mini):
    families = {
        mini.config["vocabularies"][cell.vocabulary]["family"]
        for cell in mini.cells
        if cell.vocabulary != "source"
    }
    assert families == {"sentencepiece-bpe", "sentencepiece-unigram", "byte-level-bpe"}
    of = [{item.name for item in read_items(s.config["report"]["items"])} for s in (study, mini)]
    assert {"table-1", "table-2", "table-3", "table-4", "figures-3b-8"} <= of[0]
    assert {f"figure-{name}" for name in ("3a", "4a", "4b", "5", "7a", "7b")} <= of[0]
    assert of[0] <= of[1]


def test_the_miniature_has_every_way_of_training_but_for_other_teachers(study, mini):
    used = [shown(each, "strategy", "strategies") for each in (study, mini)]
    assert used[0] - {"distill-gemma", "distill-llama-3"} == used[1]


def test_the_miniatures_data_is_there(mini, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_local_files(mini.config)
