"""The study of Yamaguchi et al. holds exactly the cells of the paper; its miniature each axis."""

import re
from collections import Counter
from itertools import product

import pytest

from lexigraft.cells import Cell
from lexigraft.errors import UserError
from lexigraft.report.items import read_items
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import copy_project, open_study, shown
from workflow.config.checks import check_local_files
from workflow.config.registries import ROOT
from workflow.inputs.vocabulary import settings

LLAMA_2, LLAMA_3, GEMMA_2 = "llama-2-7b", "llama-3-8b", "gemma-2-9b"
TEN = ("ar", "my", "de", "el", "hi", "ja", "si", "sw", "te", "th")
SIX = ("ar", "my", "el", "hi", "si", "te")
THREE = ("my", "si", "te")
SIZES = [f"expand-{size}-append" for size in ("50", "100", "500", "1k", "5k")]
STRATEGIES = [
    "-".join(parts)
    for parts in product(("lora", "two-stage", "2x2ls"), ("clm", "mtp"), ("2048", "512"))
]
DEFAULT, BEST = "lora-clm-2048", "2x2ls-mtp-512"


@pytest.fixture(scope="module")
def lowres():
    return open_study("lowres")


@pytest.fixture(scope="module")
def mini():
    return open_study("lowres-mini")


def cells(source, languages, vocabularies, initializers, strategies):
    """The cells of one block, written out by hand: all of seed 0."""
    names = product([source], languages, vocabularies, initializers, strategies)
    return {Cell(*axes, seed=0) for axes in names}


def table_1():
    # Mean is Align under another name; the other two Means and Merges are the code's.
    lapt = cells(LLAMA_2, TEN, ["source"], ["none"], [DEFAULT])
    initializers = ["random", "focus", "mean-as-published", "merge", "merge-as-published", "align"]
    return lapt | cells(LLAMA_2, TEN, ["expand-100-append"], initializers, [DEFAULT])


def table_4():
    return cells(LLAMA_2, SIX, ["expand-100-append"], ["align"], STRATEGIES)


def figure_2(source):
    # Of Gemma 2 the published Mean is Mean, and so Align.
    means = [] if source == GEMMA_2 else ["mean-as-published"]
    return cells(source, THREE, SIZES, ["random", *means, "align"], [BEST])


def only_tables_9_and_10():
    heads = [f"{procedure}-mtp-random-head-2048" for procedure in ("lora", "two-stage", "2x2ls")]
    words = cells(LLAMA_2, THREE, ["expand-100-append"], ["focus-word"], [DEFAULT])
    return words | cells(LLAMA_2, ("ar", "el", "hi"), ["expand-100-append"], ["align"], heads)


def test_the_llama_2_cells_are_the_178_of_tables_1_and_4_and_figure_2(lowres):
    expected = table_1() | table_4() | figure_2(LLAMA_2)
    assert (len(table_1()), len(table_4()), len(figure_2(LLAMA_2)), len(expected)) == (
        70, 72, 45, 178,
    )  # fmt: skip
    trained = {cell for cell in lowres.cells if cell.source == LLAMA_2 and cell.strategy != "none"}
    assert trained - only_tables_9_and_10() == expected


@pytest.mark.parametrize(("source", "count"), [(LLAMA_3, 48), (GEMMA_2, 33)])
def test_llama_3_and_gemma_2_have_those_of_figure_2_and_lapt(source, count, lowres):
    expected = figure_2(source) | cells(source, THREE, ["source"], ["none"], [BEST])
    trained = {cell for cell in lowres.cells if cell.source == source and cell.strategy != "none"}
    assert len(expected) == count
    assert trained == expected


def test_the_rest_are_tables_9_and_10_and_the_models_as_they_are(lowres):
    assert len(only_tables_9_and_10()) == 3 + 9
    assert only_tables_9_and_10() <= set(lowres.cells)
    as_they_are = {cell for cell in lowres.cells if cell.strategy == "none"}
    assert as_they_are == (
        cells(LLAMA_2, TEN, ["source"], ["none"], ["none"])
        | cells(LLAMA_3, THREE, ["source"], ["none"], ["none"])
        | cells(GEMMA_2, THREE, ["source"], ["none"], ["none"])
    )
    assert len(lowres.cells) == 178 + 48 + 33 + 12 + 16


def test_the_settings_are_the_papers(lowres):
    tasks, runs = lowres.config["tasks"], lowres.config["run_tasks"]
    for name in ("translation", "summarization-mt5"):
        assert (tasks[name]["samples"], tasks[name]["max_new_tokens"]) == (500, 128)
        assert runs[name]["runs"] == 5
    assert tasks["summarization-mt5"]["select"] == "random"
    assert tasks["summarization-mt5"]["max_prompt_tokens"] == 4096
    for name in SIZES:
        vocabulary = lowres.config["vocabularies"][name]
        assert (vocabulary["merges"], vocabulary["auxiliary_size"]) == ("append", 50_000)
        assert vocabulary["auxiliary_trainer"] == "sentencepiece"  # C.3
        assert not vocabulary["protect_latin"]  # §3: the most frequent tokens, in any script
    trainers = {
        (source, language): settings(
            lowres,
            {
                "source": source,
                "language": language,
                "vocabulary": "expand-100-as-published",
            },
        )["auxiliary_trainer"]
        for source, language in product((LLAMA_2, GEMMA_2), TEN)
    }  # of the code
    by_tokenizers = {cell for cell, trainer in trainers.items() if trainer == "tokenizers"}
    assert by_tokenizers == set(product([LLAMA_2], THREE))
    sizes = [lowres.config["vocabularies"][name]["new_tokens"] for name in SIZES]
    assert sizes == [50, 100, 500, 1000, 5000]
    for name in TEN:
        language = lowres.config["languages"][name]
        assert (language["train_sentences"], language["heldout_sentences"]) == (30_000, 100_000)
    for name in STRATEGIES:
        strategy = lowres.config["strategies"][name]
        assert (strategy["epochs"], strategy["batch_sequences"]) == (2, 8)
        assert (strategy["learning_rate"], strategy["lora"]["r"]) == (1e-4, 8)
        assert {str(phase["length"]) for phase in strategy["phases"]} == {name.split("-")[-1]}


def test_revisions_are_commits_and_memory_holds_the_bfloat16_weights(lowres):
    parameters = {LLAMA_2: 6_738_415_616, LLAMA_3: 8_030_261_248, GEMMA_2: 9_241_705_984}
    for name, count in parameters.items():
        source = lowres.config["sources"][name]
        assert re.fullmatch("[0-9a-f]{40}", source["revision"])
        assert 2 * count < source["resources"]["training_mb"] * 1e6
        assert 2 * count < source["resources"]["evaluation_mb"] * 1e6


def test_the_jobs_are_those_of_the_papers_cells(lowres):
    counts = Counter(job.rule for job in lowres.jobs().values())
    assert counts["train"] == 271 + 16
    # Table 1 and figure 2 name a vocabulary for each language of each model.
    assert counts["build_vocabulary"] == 10 + 3 * 3 * 5 - 3
    # Figure 3: English and the ten languages in FLORES-200, by the tokenizers of three models.
    assert counts["measure_tokenizer"] == 11 * 3
    assert counts["prepare_source"] == 3 and counts["prepare_corpus"] == 10 + 11
    # fastText in ten languages; word vectors in three.
    assert counts["compute_vectors"] == 10 + 3
    # Table 1 and its LAPT, figure 2, its strategy in Table 4's other languages, Table 9, the other
    # models' LAPT, and Source.
    timed = 70 + 2 * 45 + 30 + 3 + 3 + 6 + 16
    assert (counts["evaluate"], counts["measure_speed"]) == (287, timed)
    # The ten languages of Llama 2, and three of each other model.
    assert counts["score_predictions"] == 10 + 3 + 3


def test_each_table_with_mean_has_it_as_written_and_as_published(lowres):
    items = {item.name: item for item in read_items(lowres.config["report"]["items"])}
    for name in ("table-1", "table-2", "table-3", "table-5", "table-11", "table-12", "figure-2a"):
        shown = items[name].where["initializer"]
        assert {"mean", "mean-as-published", "align"} <= {*shown}, name
    assert {"merge", "merge-as-published"} <= {*items["table-1"].where["initializer"]}
    assert [*items["figure-3"].where["language"]] == [f"{name}-flores" for name in ("en", *TEN)]


def test_a_job_of_a_cell_runs_all_tasks_of_the_paper(lowres):
    for cell in lowres.cells:
        job = lowres.described("evaluate", cell.wildcards)
        runs = {task: given["runs"] for task, given in job["tasks"].items()}
        assert runs == {"translation": 5, "summarization-mt5": 5, "perplexity-windows": 1}


def test_snakemake_plans_them_for_a_cluster_before_any_data_is_there(lowres, tmp_path):
    checkout = copy_project(tmp_path / "project")
    checkout.config = read_yaml(ROOT / "config" / "studies" / "lowres.yaml")
    plan = checkout.snakemake("--profile", "profiles/slurm", "--dry-run", "--quiet", "rules")
    output = plan.stdout + plan.stderr
    assert plan.returncode == 0, output[-2000:]
    counts = {
        rule: int(count)
        for rule, count in re.findall(r"^(\w+)\s+(\d+)$", output, flags=re.MULTILINE)
    }
    assert counts.pop("total") < 1500
    assert counts.pop("all") == 1
    assert counts == Counter(job.rule for job in lowres.jobs().values())


def test_a_run_without_its_data_names_what_is_missing(lowres, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"languages\.ar\.parallel\.source: data/flores200_dataset"):
        check_local_files(lowres)


def short(strategy):
    """The miniature's strategy in place of one of the paper's: a quarter or an eighth as long."""
    return strategy.replace("2048", "256").replace("512", "64")


def names(study, axis):
    return {getattr(cell, axis) for cell in study.cells}


def test_the_miniature_has_every_initializer_strategy_task_and_item_of_the_paper(lowres, mini):
    assert shown(mini, "initializer", "initializers") == names(lowres, "initializer")
    strategies = {short(name) for name in names(lowres, "strategy")}
    assert shown(mini, "strategy", "strategies") == strategies
    kinds = [
        [study.config["tasks"][name]["kind"] for name in study.config["run_tasks"]]
        for study in (lowres, mini)
    ]
    assert kinds[0] == kinds[1]
    items = [
        [
            (item.kind, item.name, item.metrics)
            for item in read_items(study.config["report"]["items"])
            if item.kind != "published"  # numbers of the models of the paper
        ]
        for study in (lowres, mini)
    ]
    assert items[0] == items[1]


def test_the_miniature_has_two_families_three_languages_three_sizes_and_two_seeds(mini):
    assert names(mini, "source") == {"stories15m", "smollm2-135m"}
    assert len(names(mini, "language")) == 3
    assert len(names(mini, "vocabulary") - {"source"}) == 3
    assert names(mini, "seed") == {0, 1}
    assert Counter(cell.source for cell in mini.cells)["stories15m"] > 50


def test_the_miniatures_long_sequences_are_four_times_its_short_ones_and_fit(mini):
    for name in STRATEGIES:
        lengths = {phase["length"] for phase in mini.config["strategies"][short(name)]["phases"]}
        assert lengths == ({256} if name.endswith("2048") else {64})


def test_the_miniatures_data_is_there(mini, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_local_files(mini)
