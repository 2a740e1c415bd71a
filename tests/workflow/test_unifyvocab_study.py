"""The study of UnifyVocab holds the paper's initialization grid, and its miniature every axis."""

from collections import Counter
from itertools import product

import pytest

from lexigraft.cells import Cell
from lexigraft.report.items import read_items
from lexigraft.training.settings import read_strategy
from tests.workflow.conftest import open_study, shown
from workflow.config.checks import check_local_files
from workflow.config.registries import ROOT

BASELINES = ["gaussian-small", "permutation", "wechsel-english", "ofa-none", "focus"]
FOUR, THREE = ["gemma", "qwen2", "llama-2", "llama-3"], ["gemma", "qwen2", "llama-3"]
OURS = ["unifyvocab-1b"]


@pytest.fixture(scope="module")
def study():
    return open_study("unifyvocab")


@pytest.fixture(scope="module")
def mini():
    return open_study("unifyvocab-mini")


def cells(sources, vocabularies, initializers, strategies, language="pile"):
    names = product(sources, [language], vocabularies, initializers, strategies)
    return {Cell(*axes, seed=0) for axes in names}


def test_it_has_every_row_of_table_1_that_can_be_had(study):
    ours = [*OURS, "unifyvocab-slimpajama", "unifyvocab-relative-1b"]
    rows = cells(["pythia-1b"], ["gemma"], ours, ["none", "progressive"])
    rows |= cells(["pythia-1b"], ["gemma"], BASELINES, ["none", "progressive-baseline"])
    larger = ["gaussian-small", "permutation", "focus"]
    rows |= cells(["pythia-2.8b"], ["gemma"], larger, ["progressive-baseline"])
    rows |= cells(["pythia-2.8b"], ["gemma"], OURS, ["progressive"])
    assert rows <= set(study.cells)


def test_glove_reads_its_own_text_whatever_the_model_is_tuned_on(study):
    read = {name: (entry["corpus"], entry["text"]["tokens"])
            for name, entry in study.config["auxiliary"].items()
            if name in ("glove-1b", "glove-slimpajama", "glove-1m")}  # fmt: skip
    assert read == {
        "glove-1b": ("unifyvocab-mix", 10**9),
        "glove-slimpajama": ("slimpajama", 10**9),
        "glove-1m": ("unifyvocab-mix", 10**6),
    }
    shares = study.config["languages"]["unifyvocab-mix"]["group"]["shares"]
    web = sum(share for name, share in shares.items() if name.startswith("culturax"))
    assert (round(web, 6), shares["the-stack"], shares["proof-pile-2"]) == (0.4, 0.3, 0.3)


def test_it_has_the_ten_replacements_of_table_2_and_the_three_of_table_6(study):
    rows = cells(["pythia-1b"], FOUR, OURS, ["progressive"])
    rows |= cells(["pythia-2.8b", "pythia-6.9b"], THREE, OURS, ["progressive"])
    assert len(rows) == 10
    assert rows | cells(["pythia-1b"], THREE, OURS, ["progressive-2b"]) <= set(study.cells)


def test_it_has_one_model_of_the_languages_of_table_4_before_and_after_training(study):
    both, name = ["pythia-1b", "pythia-6.9b"], "culturax-twelve"
    rows = cells(both, ["qwen2"], OURS, ["none", "progressive-4b"], name)
    rows |= cells(both, ["qwen2"], ["focus"], ["none", "progressive-4b-baseline"], name)
    rows |= cells([*both, "qwen2-1.5b", "qwen2-7b"], ["source"], ["none"], ["none"], name)
    assert rows <= set(study.cells)
    assert len(study.config["languages"][name]["group"]["members"]) == 12


WAYS = ["progressive-slow", "progressive-fast", "full", "full-fast"]
SHUFFLED = [f"unifyvocab-shuffled-{share}" for share in (25, 50, 75, 100)]


def test_it_has_the_ways_of_training_of_figures_4b_5_6_and_7(study):
    rows = cells(["pythia-1b"], ["gemma"], OURS, [*WAYS, "progressive"])
    rows |= cells(["pythia-1b"], FOUR, ["gaussian-small"], ["progressive-baseline"])
    rows |= cells(["pythia-1b"], ["qwen2"], [*OURS, *SHUFFLED], ["progressive"])
    amounts = [f"unifyvocab-{amount}" for amount in ("1m", "10m", "100m", "1b")]
    rows |= cells(["pythia-1b"], FOUR, amounts, ["first-step"])
    assert rows <= set(study.cells)
    for name, first in (("progressive-slow", 1.6e-4), ("progressive-fast", 2.56e-3)):
        phases = study.config["strategies"][name]["phases"]
        assert [phase.get("learning_rate", 5e-5) for phase in phases] == [first, 5e-5]
    rates = [study.config["strategies"][name]["learning_rate"] for name in ("full", "full-fast")]
    assert rates == [5e-5, 6.4e-4]


def test_it_has_the_teachers_of_table_3_each_with_its_own_vocabulary(study):
    both = ["pythia-1b", "pythia-6.9b"]
    teachers = {"gemma": "distill-gemma", "qwen2": "distill", "llama-3": "distill-llama-3"}
    rows = cells(both, ["source"], ["none"], ["direct-tuning", "sentence-distill"])
    for vocabulary, strategy in teachers.items():
        rows |= cells(both, [vocabulary], OURS, [strategy])
        entry = study.config["strategies"][strategy]["phases"][-1]
        teacher = study.config["sources"][entry["distill"]["teacher"]]["hub"]
        assert teacher == study.config["vocabularies"][vocabulary]["tokenizer"]
        assert entry["data"] == {"monolingual": 0.85, "tasks": 0.15}
    assert rows <= set(study.cells)


def test_the_settings_are_the_papers(study):
    glove = study.config["auxiliary"]["glove-1b"]
    assert (glove["dimensions"], glove["window"], glove["epochs"]) == (300, 15, 15)
    first = {"progressive": 6.4e-4, "progressive-baseline": 5e-5, "progressive-2b": 6.4e-4}
    tokens = {"progressive": (2 << 20, 2500), "progressive-baseline": (2 << 20, 2500),
              "progressive-2b": (1 << 20, 1000)}  # fmt: skip
    for name, rate in first.items():
        strategy = read_strategy(study.config["strategies"][name])
        vocabulary, everything = strategy.phases
        assert (vocabulary.trainable, everything.trainable) == (("embeddings", "head"), ("all",))
        assert (vocabulary.learning_rate, everything.learning_rate) == (rate, 5e-5)
        assert (strategy.weight_decay, strategy.warmup) == (0.01, 0.03)
        step, steps = tokens[name]
        assert {phase.batch_sequences * phase.length for phase in strategy.phases} == {step}
        assert [phase.tokens for phase in strategy.phases] == [steps * step] * 2
    options = study.config["initializers"]["unifyvocab-relative-1b"]["options"]
    assert options == {"anchors": 300}


def test_revisions_are_commits(study):
    pinned = [study.config["sources"][f"pythia-{size}"] for size in ("1b", "2.8b", "6.9b")]
    pinned += [study.config["vocabularies"][name] for name in ("gemma", "qwen2", "llama-2")]
    for entry in pinned:
        assert len(entry["revision"]) == 40
        int(entry["revision"], 16)


def test_the_miniature_has_every_initializer_but_the_variants_of_glove(study, mini):
    variants = {"unifyvocab-100d", "unifyvocab-window-5", "unifyvocab-5-epochs"}
    variants |= {"unifyvocab-x-max-100", "unifyvocab-slimpajama"}
    variants |= {f"unifyvocab-{amount}" for amount in ("1m", "10m", "100m")}
    used = shown(study, "initializer", "initializers")
    assert used - variants <= shown(mini, "initializer", "initializers")


def test_the_miniature_has_three_families_and_the_items_of_the_paper(study, mini):
    families = {
        mini.config["vocabularies"][cell.vocabulary]["family"]
        for cell in mini.cells
        if cell.vocabulary != "source"
    }
    assert families == {"sentencepiece-bpe", "sentencepiece-unigram", "byte-level-bpe"}
    of = [{(item.kind, item.name) for item in read_items(each.config["report"]["items"])
           if item.kind != "published"}
          for each in (study, mini)]  # fmt: skip
    # Table 6 is Table 2 with fewer tokens.
    assert of[0] - {("comparison", "table-6")} == of[1]


def test_the_miniature_has_every_way_of_training_but_for_amounts_and_other_teachers(study, mini):
    used = [shown(each, "strategy", "strategies") for each in (study, mini)]
    amounts = {"progressive-2b", "progressive-4b", "progressive-4b-baseline", "first-step"}
    assert used[0] - amounts - {"distill-gemma", "distill-llama-3"} == used[1]


def test_the_miniatures_data_is_there(mini, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_local_files(mini)


def test_glove_is_trained_once_for_each_tokenizer_and_text(study):
    """Pythia's sizes have one tokenizer, and what GloVe reads does not depend on the cell."""
    trained, read = [], {}
    for job in study.jobs().values():
        axes = job.wildcards
        settings = study.config["auxiliary"].get(axes.get("auxiliary"), {})
        if settings.get("kind") == "glove":
            trained.append((axes["vocabulary"], tuple(sorted(map(repr, settings.items())))))
            assert axes["source"] == "pythia-1b" and axes["language"] == settings["corpus"]
        if job.rule in ("initialize", "learn_initialization"):
            inputs = job.description["inputs"].get("auxiliary", {})
            read[axes["source"], axes["language"], axes["vocabulary"], axes["initializer"]] = inputs
    assert len(trained) == len(set(trained)) == 30
    # 5 tokenizers at 1 B tokens and three smaller amounts, 2 of SlimPajama's and of other settings
    assert Counter(name for name, _ in trained) == {
        "source": 9, "gemma": 9, "qwen2": 4, "llama-2": 4, "llama-3": 4
    }  # fmt: skip
    one, other = (
        read[size, "pile", "gemma", "unifyvocab-1b"] for size in ("pythia-1b", "pythia-2.8b")
    )
    assert one == other and one.keys() == {"target", "source"}
    twelve = read["pythia-6.9b", "culturax-twelve", "qwen2", "unifyvocab-1b"]
    assert twelve == read["pythia-1b", "pile", "qwen2", "unifyvocab-1b"]


def test_a_source_with_another_s_tokenizer_is_compared_with_it(study):
    inputs = study.described("prepare_source", {"source": "pythia-6.9b"})["inputs"]
    assert inputs == {"tokenizer_of": "results/source/pythia-1b"}
