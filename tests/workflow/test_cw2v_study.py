"""The study of CW2V holds the paper's initialization grid, and its miniature every axis."""

from inspect import signature

import pytest

from lexigraft.cells import Cell
from lexigraft.report.items import read_items
from tests.workflow.conftest import open_study, shown
from workflow.config.checks import check_local_files

PAPER = [
    "cw2v-dictionary-2m",
    "ofa-none",
    "multivariate-small",
    "univariate",
    "mean-of-all",
    "gaussian",
]


@pytest.fixture(scope="module")
def study():
    return open_study("cw2v")


@pytest.fixture(scope="module")
def mini():
    return open_study("cw2v-mini")


def fitted(study, rule):
    """Wildcards of a rule's jobs."""
    return [job.wildcards for job in study.jobs().values() if job.rule == rule]


def test_it_has_every_row_of_table_2_before_and_after_training(study):
    wanted = {
        Cell("llama-2-7b", "cw2v-mix", "expand-26k", initializer, strategy, seed=0)
        for initializer in PAPER
        for strategy in ("none", "cpt")
    }
    assert wanted <= set(study.cells)


def test_the_settings_are_the_papers(study):
    vocabulary = study.config["vocabularies"]["expand-26k"]
    assert vocabulary["new_tokens"] == 25948  # Table 4 and section 4.2
    entry = study.config["initializers"]["cw2v-dictionary-2m"]
    assert (entry["method"], entry["dictionary"]) == ("cw2v", True)
    assert entry["options"] == {"window": 5, "subsampling": 2}  # its code; a window of 10 in all
    assert entry["text"]["target_tokens_per_language"] == 2_000_000  # section 4.3
    from lexigraft.initialization.registry import initializer

    defaults = signature(type(initializer("cw2v"))).parameters
    assert [defaults[name].default for name in ("negatives", "rank")] == [5, 1024]
    strategy = study.config["strategies"]["cpt"]
    assert (strategy["learning_rate"], strategy["warmup"]) == (5e-5, 0.1)
    assert strategy["tokens_per_language"] == 500_000_000  # section 4.3
    assert strategy["schedule"] == "linear"
    assert strategy["checkpoints"] == 5  # Figure 3
    assert strategy["phases"][0]["length"] == 2048


def test_its_tokens_are_learned_from_the_text_of_another_group(study):
    axes = {"source": "llama-2-7b", "language": "cw2v-mix", "vocabulary": "expand-26k"}
    given = study.described("build_vocabulary", axes)
    assert given["inputs"]["corpus"] == "results/corpus/cw2v-sentences"
    assert "corpus" not in given["settings"] and given["settings"]["ascii"] is False
    members = study.config["languages"]["cw2v-sentences"]["group"]["members"]
    assert len(members) == 4 and not any("en" in name.split("-") for name in members)


def test_checkpoints_are_scored_beside_the_ends(study):
    tasks = {
        (wildcards["initializer"], wildcards["strategy"], int(wildcards["checkpoint"])): [
            *study.described("evaluate_checkpoint", wildcards)["tasks"]
        ]
        for wildcards in (
            job.wildcards for job in study.jobs().values() if job.rule == "evaluate_checkpoint"
        )
    }
    for name in PAPER:
        assert all("perplexity" in tasks[name, "cpt", number] for number in (1, 2, 3, 4))


def test_every_language_but_english_brings_its_dictionary(study, mini):
    for each, language in ((study, "cw2v-mix"), (mini, "cw2v-mix-mini")):
        suffix = "-mini" if each is mini else "-2m"
        read = {
            wildcards["initializer"]: each.described("learn_initialization", wildcards)["inputs"]
            for wildcards in fitted(each, "learn_initialization")
            if wildcards["language"] == language
        }
        assert len(read[f"cw2v-dictionary{suffix}"]["dictionaries"]) == 4
        assert "dictionaries" not in read[f"cw2v{suffix}"]


def test_what_learns_from_the_model_runs_where_the_model_is_trained(study, mini):
    names = {"cw2v", "cw2v-dictionary", "cw2v-from-mean"}
    learned = {"distill", *(f"{name}-2m" for name in names)}
    of_mini = {f"{name}-mini" for name in ("distill", *names)}
    for each, used in ((study, learned), (mini, of_mini)):
        rule = "learn_initialization"
        assert {wildcards["initializer"] for wildcards in fitted(each, rule)} == used


# The miniature's text is interface messages: no data for questions, translation or summaries; and
# the paper has no numbers of its models.
NOT_IN_MINIATURE = {f"{place}-{task}" for place in ("table-2", "figure-3")
                    for task in ("questions", "translation", "titles")}  # fmt: skip
NOT_IN_MINIATURE |= {"figure-3-averages", "figure-3-headlines", "published"}


def test_the_miniature_has_every_initializer_and_item_and_its_files(study, mini):
    # Those of either that differ in their text or options alone have the title of the others.
    assert shown(mini, "initializer", "initializers") == shown(study, "initializer", "initializers")
    items = [
        [(item.kind, item.name) for item in read_items(each.config["report"]["items"])]
        for each in (study, mini)
    ]
    assert {name for _, name in items[0]} > NOT_IN_MINIATURE
    assert [item for item in items[0] if item[1] not in NOT_IN_MINIATURE] == items[1]
    check_local_files(mini)
