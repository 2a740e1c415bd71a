"""The study of VocADT holds the paper's cells, and its miniature every axis of them."""

from collections import Counter
from itertools import product

import pytest

from lexigraft.cells import Cell
from lexigraft.report.items import read_items
from lexigraft.training.settings import read_strategy
from tests.workflow.conftest import open_study, shown
from workflow.config.checks import check_local_files
from workflow.config.registries import ROOT

GROUPS = ["madlad-latin", "madlad-mixed", "madlad-cyrillic"]
ZETT = ("sw", "id", "et", "ht", "ko", "el", "ru", "bg")
TEN = [f"madlad-{code}" for code in (*ZETT, "uk", "kk")]
MISTRAL, LLAMA = "mistral-7b", "llama-2-7b"


@pytest.fixture(scope="module")
def study():
    return open_study("vocadt")


@pytest.fixture(scope="module")
def mini():
    return open_study("vocadt-mini")


def cells(source, languages, initializers, strategies, vocabulary="replace-50k-madlad"):
    own = [name if name == "none" else f"{name}-madlad" for name in strategies]
    names = product([source], languages, [vocabulary], initializers, own)
    return {Cell(*axes, seed=0) for axes in names}


def adapters(source):
    """Alpha is 0.1 but for the Latin group."""
    return cells(source, GROUPS[1:], ["vocadt-start"], ["vocadt"]) | cells(
        source, GROUPS[:1], ["vocadt-start"], ["vocadt-alpha-0"]
    )


def test_it_has_the_adapters_of_both_models_of_all_languages_and_of_figure_5(study):
    wanted = adapters(MISTRAL) | adapters(LLAMA)
    wanted |= cells(MISTRAL, ["madlad-all"], ["vocadt-start"], ["vocadt-alpha-0"])
    wanted |= cells(MISTRAL, ["madlad-latin"], ["vocadt-start"], ["vocadt"])
    wanted |= cells(MISTRAL, ["madlad-mixed"], ["vocadt-start"], ["vocadt-alpha-0"])
    of_paper = {"vocadt-madlad", "vocadt-alpha-0-madlad"}
    assert {cell for cell in study.cells if cell.strategy in of_paper} == wanted
    assert len(wanted) == 3 + 3 + 1 + 2


def test_it_has_the_baselines_before_and_after_alma(study):
    wanted = cells(MISTRAL, GROUPS, ["ofa-none"], ["none", "alma"])
    wanted |= cells(MISTRAL, TEN, ["focus"], ["none", "alma-mono"])
    wanted |= cells(MISTRAL, TEN[:8], ["zett-mistral-multilingual"], ["none", "alma-mono"])
    wanted |= cells(MISTRAL, ["madlad-en"], ["focus", "zett-mistral-multilingual"], ["none"])
    wanted |= cells(MISTRAL, GROUPS, ["none"], ["alma"], "source")
    assert wanted <= set(study.cells)


def test_every_adapter_of_table_2_is_followed_by_alma(study):
    wanted = cells(MISTRAL, GROUPS[1:], ["vocadt-start"], ["vocadt-alma"])
    wanted |= cells(MISTRAL, GROUPS[:1], ["vocadt-start"], ["vocadt-alpha-0-alma"])
    assert wanted <= set(study.cells)


def test_the_settings_are_the_papers(study):
    strategies = {name.removesuffix("-madlad"): read_strategy(entry)
                  for name, entry in study.config["strategies"].items()
                  if name.endswith("-madlad")}  # fmt: skip
    for name, alpha in (("vocadt", 0.1), ("vocadt-alpha-0", 0)):
        (phase,) = strategies[name].phases
        assert (phase.trainable, phase.length, phase.learning_rate) == (("adapter",), 512, 2e-6)
        assert (phase.adapter.form, phase.adapter.alpha) == ("dense", alpha)
        assert (strategies[name].batch_sequences, strategies[name].warmup) == (128, 0.01)
        assert strategies[f"{name}-alma"].after == f"{name}-madlad"
        full = strategies[f"{name}-alma"].phases
        assert [phase.batch_sequences for phase in full] == [256, 256]
        assert [list(phase.data) for phase in full] == [["monolingual"], ["parallel"]]
        assert {phase.trainable for phase in full} == {("all",)}
        # 0.5 B tokens a language, 5 B of a group of five, and one pass over the pairs
        each = [phase.tokens_per_language for phase in (*strategies[name].phases, *full)]
        assert (each, full[1].epochs) == ([500_000_000, 1_000_000_000, None], 1)
    shares = study.config["languages"]["madlad-latin"]["group"]["shares"]
    assert list(shares.values()) == [0.17, 0.16, 0.32, 0.23, 0.12]  # Appendix C
    for language in TEN:
        parallel = study.config["languages"][language]["samples"]["parallel"]
        assert parallel["pairs"] == 15_000
        assert parallel["text"]["quality_column"]
    vocabulary = study.config["vocabularies"]["replace-50k-madlad"]
    assert (vocabulary["size"], vocabulary["text"]) == (50_000, {"tokens_per_language": 2_000_000})


def test_every_cell_of_zett_is_given_its_language(study):
    codes = {
        cell.language: study.language_option(cell.initializer, cell.language)
        for cell in study.cells
        if cell.initializer.startswith("zett")
    }
    assert codes == {f"madlad-{code}": {"language": code} for code in ("en", *ZETT)}
    assert (
        "multilingual"
        in study.config["initializers"]["zett-mistral-multilingual"]["options"]["hypernetwork"]
    )


def test_every_language_is_translated_by_the_models_that_have_it(study):
    for language in TEN:
        code = language.removeprefix("madlad-")
        both = (f"en-{code}", f"{code}-en")
        (tested,) = {tuple(study.config["run_tasks"][task]["languages"]) for task in both}
        groups = study.config["languages"]
        having = {name for name in [*GROUPS, "madlad-all"]
                  if language in groups[name]["group"]["members"]}  # fmt: skip
        assert set(tested) == having | {language}
        tasks = [study.config["tasks"][task] for task in both]
        assert [task["language"] for task in tasks] == [language] * 2
        assert [task.get("into_english", False) for task in tasks] == [False, True]
        assert {task["prompt"] for task in tasks} == {"alma"}


def test_the_jobs_are_those_of_the_papers_cells(study):
    counts = Counter(job.rule for job in study.jobs().values())
    # As they are; the starts of adapters for Mistral and Llama 2; OFA; FOCUS and ZeTT.
    untrained = (4 + 3) + (4 + 3) + 3 + (11 + 9)
    # Mistral's own vocabulary; adapters; those before ALMA; baselines under ALMA; sparse ones.
    trained = 3 + 9 + 3 + (3 + 10 + 8) + (3 + 6)
    assert counts["train"] == untrained + trained
    # A tokenizer of each group for each model, of all, and of each language and English.
    assert counts["build_vocabulary"] == 3 + 3 + 1 + 11
    # Texts of each language, FLORES in each for its tokens, and four mixtures.
    assert counts["prepare_corpus"] == 11 + 11 + 4
    # ALMA reads pairs of every language alone and of every group, to learn from and to validate.
    assert counts["prepare_samples"] == 2 * (10 + 3)
    # Examples of each language, for either direction.
    assert counts["prepare_examples"] == 20


def test_the_miniature_has_every_initializer_but_zett_and_every_strategy_and_item(study, mini):
    registries = {"initializer": "initializers", "strategy": "strategies"}
    names = {axis: [shown(each, axis, registry) for each in (study, mini)]
             for axis, registry in registries.items()}  # fmt: skip
    assert names["initializer"][0] - {"zett-mistral-multilingual"} == names["initializer"][1]
    assert names["strategy"][0] == names["strategy"][1] - {"vocadt-alpha-0-slow"}
    full, small = (read_items(each.config["report"]["items"]) for each in (study, mini))
    # Of the tables that differ in their tasks alone it has one.
    assert {(item.kind, item.name) for item in small} < {(item.kind, item.name) for item in full}
    assert {item.kind for item in small} == {item.kind for item in full} - {"published"}


def test_the_miniature_has_two_models_and_four_groups(mini):
    assert {cell.source for cell in mini.cells} == {"stories15m", "smollm2-135m"}
    groups = {
        cell.language for cell in mini.cells if "group" in mini.config["languages"][cell.language]
    }
    assert groups == {"latin-mini", "mixed-mini", "cyrillic-mini", "all-mini"}


def test_the_miniatures_data_is_there(mini, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_local_files(mini)
