"""What jobs cost: against arithmetic by hand, and against the model's own inputs."""

import json
import re
from math import ceil

import pytest

from lexigraft import UserError
from lexigraft.training.settings import Curve, read_strategy
from tests.workflow.conftest import edited, open_study, planned_jobs
from workflow.config.languages import AnsweredSamples, LanguageResources, QuestionSamples
from workflow.config.study import Run
from workflow.cost import (
    CostModel,
    JobCosts,
    changed_parameters,
    chosen_device,
    cost_of,
    cost_text,
    costs_by_rule,
)
from workflow.jobs import Job
from workflow.study import Study

CELL = {
    "source": "llama-2-7b",
    "language": "te",
    "vocabulary": "expand-100-append",
    "initializer": "align",
    "strategy": "2x2ls-mtp-512",
    "seed": "0",
}
OTHER = CELL | {"source": "gemma-2-9b"}


@pytest.fixture(scope="module")
def lowres():
    """The low-resource study."""
    return open_study("lowres")


def trained(study, device="A100", **changed) -> float:
    """Seconds of a training without loading and without held-out sentences."""
    curve = Curve.model_construct(sentences=0, points=10)
    bare = edited(study, "strategies", CELL["strategy"], curve=curve)
    return CostModel(bare, device).training(CELL | changed)["training"]


def job(rule, wildcards, folder="results", gpus=1, minutes=60, **description) -> Job:
    """A job as Snakemake plans it."""
    card = f"{folder}/{rule}/{'/'.join(wildcards.values())}/card.json"
    return Job(rule, wildcards, card, (), "", description, gpus=gpus, minutes=minutes)


def test_the_low_resource_study_takes_about_what_a_review_calculated(lowres, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # where nothing has run
    jobs = planned_jobs("lowres")
    costs = costs_by_rule(CostModel(lowres, "H100", jobs.values()), jobs.values())
    total = sum(costs.values(), JobCosts())
    assert total.jobs == len(jobs) and 80 < total.gpu_hours < 250
    assert not total.most_gpu_hours  # none is counted with its time limit
    # H100-hours by hand, before there was this model: each within a factor of two.
    for work, expected in {"training": 48, "perplexity": 28, "generation": 24, "speed": 24}.items():
        assert expected / 2 < total.work[work] < 2 * expected
    slower_costs = costs_by_rule(CostModel(lowres, "A100"), jobs.values())
    slower = sum(slower_costs.values(), JobCosts())
    assert slower.gpu_hours > total.gpu_hours
    assert slower.most_job_hours == total.most_job_hours
    text = cost_text("lowres", costs, "H100")
    assert "jobs are estimated for H100" in text and "GPU-hours by work: training" in text


def test_a_training_takes_six_operations_a_parameter_and_token_at_a_share_of_the_peak(lowres):
    # 30,000 sentences of 120 characters, twice; of 100 new tokens each is a character.
    operations = 30_000 * 120 * 2 * 6.74e9 * 6
    assert trained(lowres) == pytest.approx(operations / (0.45 * 312e12))
    assert trained(lowres) == pytest.approx(trained(lowres, "H100") * 989 / 312)


def test_time_is_proportional_to_parameters_tokens_and_what_is_computed_again(lowres):
    base = trained(lowres)

    def change(registry, name, **values):
        return trained(edited(lowres, registry, name, **values))

    strategy, resources = CELL["strategy"], lowres.sources[CELL["source"]].resources
    larger = resources.model_copy(update={"billion_parameters": 13.48})
    assert change("sources", CELL["source"], resources=larger) == pytest.approx(2 * base)
    assert change("strategies", strategy, epochs=6.0) == pytest.approx(3 * base)
    assert change("strategies", strategy, sentences=10_000) == pytest.approx(base / 3)
    longer = LanguageResources(characters=360)
    assert change("languages", "te", resources=longer) == pytest.approx(3 * base)
    stored = change("strategies", strategy, gradient_checkpointing=False)
    assert stored == pytest.approx(base * 4 / 6)
    phase = lowres.strategies[strategy].phases[0].model_copy(update={"trainable": ("all",)})
    assert change("strategies", strategy, phases=(phase,)) == pytest.approx(base * 8 / 6)


def test_a_budget_in_tokens_costs_the_same_with_any_vocabulary(lowres):
    limited = edited(lowres, "strategies", CELL["strategy"], tokens=1_000_000)
    seconds = [trained(limited, vocabulary=name) for name in ("source", "expand-1k")]
    assert seconds == pytest.approx(2 * [1_000_000 * 6.74e9 * 6 / (0.45 * 312e12)])


def test_tasks_of_every_kind_are_estimated_and_add_up(lowres):
    runs = {"run_tasks": dict.fromkeys(lowres.tasks, Run(runs=2))}
    study = Study(lowres.settings.model_copy(update=runs), lowres.entries, lowres.titles)
    model = CostModel(study, "A100")
    loading = model.evaluation(CELL, [])["loading"]
    tasks = sorted(model.study.tasks)
    each = [sum(model.evaluation(CELL, [task]).values()) - loading for task in tasks]
    assert all(seconds > 0 for seconds in each)
    assert sum(model.evaluation(CELL, tasks).values()) == pytest.approx(sum(each) + loading)


def test_each_kind_of_job_is_estimated_by_its_description(lowres):
    samples = {
        "asked": QuestionSamples.model_construct(kind="questions"),
        "answered": AnsweredSamples(kind="answered", prompts="asked", teacher="gemma-2-9b"),
    }
    study = edited(lowres, "languages", "te", samples=samples)
    model, task = CostModel(study, "A100"), next(iter(study.run_tasks))
    axes = {"language": "te", "samples": "answered"}
    metric = next(iter(study.metrics))
    scored = {"metric": metric, "source": "gemma-2-9b", "language": "te"}
    cells = [[f"gemma-2-9b/te/source/none/none/seed-{seed}", {task: 1}] for seed in (0, 1)]
    for planned, expected in (
        (job("train", CELL), model.training(CELL)),
        (job("evaluate", CELL, tasks={task: {}}), model.evaluation(CELL, [task])),
        (
            job("answer_samples", axes, inputs={"teacher": "results/source/gemma-2-9b"}),
            model.answers("te", "answered"),
        ),
        (job("score_predictions", scored, cells=cells), model.metric(metric, [(task, "te")] * 2)),
    ):
        cost = cost_of(model, planned)
        assert cost.estimated == 1 and not cost.most_gpu_hours
        assert cost.gpu_hours * 3600 == pytest.approx(sum(expected.values()))


def test_other_jobs_and_models_of_unknown_size_count_with_their_limit(lowres):
    resources = lowres.sources[CELL["source"]].resources
    resources = resources.model_copy(update={"billion_parameters": None})
    unknown = edited(lowres, "sources", CELL["source"], resources=resources)
    jobs = [
        job("train", CELL, gpus=2, minutes=90),
        job("prepare_corpus", {"language": "te"}, gpus=0),
    ]
    costs = costs_by_rule(CostModel(unknown, "A100"), jobs)
    assert (costs["train"].gpu_hours, costs["train"].most_gpu_hours) == (0, 3.0)
    total = sum(costs.values(), JobCosts())
    assert (total.jobs, total.estimated, total.most_job_hours) == (2, 0, 2.5)
    text = cost_text("made-up", costs, "A100")
    assert re.search(r"^train +1 +≤ 3.0 +≤ 1.5 +\?$", text, re.MULTILINE)
    assert "2 jobs count with the time limit" in text
    # Without a GPU, none is counted.
    on_cpu = costs_by_rule(CostModel(unknown, "CPU"), jobs)
    assert sum(on_cpu.values(), JobCosts()).most_gpu_hours == 0


def test_cards_take_the_place_of_assumptions_but_not_in_time_limits(lowres, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    corpus = job("prepare_corpus", {"language": "te"})
    assumed = CostModel(lowres, "A100", [corpus]).training(CELL)["training"]
    (tmp_path / corpus.folder).mkdir(parents=True)
    size = {"sentences": 30_000, "characters": 30_000 * 240, "bytes": 30_000 * 700}
    (tmp_path / corpus.card).write_text(json.dumps({"sizes": {"train": size}}))
    measured = CostModel(lowres, "A100", [corpus]).training(CELL)["training"]
    assert measured == pytest.approx(2 * assumed, rel=0.05)
    assert CostModel(lowres, "A100").training(CELL)["training"] == assumed


def test_time_limits_are_three_times_the_estimate(lowres):
    def minutes(device, axes, **resources):
        model = CostModel(lowres, device)
        given = lowres.sources[axes["source"]].resources.model_copy(update=resources)
        return model.minutes(given, "training_minutes", lambda: model.training(axes), runs=2)

    limit = minutes("A100", OTHER)
    seconds = sum(CostModel(lowres, "A100").training(OTHER).values())
    assert limit == 10 * ceil(3 * seconds / 600) and 30 < limit < 3 * 60
    assert minutes("H100", OTHER) < limit
    assert minutes("A100", CELL | {"strategy": "none"}) == 30  # the least
    assert minutes("A100", OTHER, training_minutes=45) == 2 * 45  # as given, for each run


@pytest.mark.bad_input(
    "config",
    "an unknown device for cost estimates",
    "rejected with a message that lists the known devices",
)
def test_a_device_that_is_not_listed_is_refused(lowres, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_DEVICE", "Voodoo2")
    with pytest.raises(UserError, match=r"LEXIGRAFT_DEVICE.*'Voodoo2' is not known; choose one of"):
        chosen_device(lowres.settings)


# ---- disk space ---------------------------------------------------------------------------------

CARD = {"parameters": 1000, "layers": 4, "hidden_size": 10, "rows": 30, "tied": False}
# Two matrices of 30 x 10 are 600 parameters; 400 in four layers are 100 a layer.


def strategy_of(*trainable):
    """A strategy with a phase for each list of trained parts."""
    share = 1 / max(1, len(trainable))
    phases = [{"trainable": parts, "length": 8, "share": share} for parts in trainable]
    return read_strategy({"phases": phases})


@pytest.mark.parametrize(
    ("trainable", "rows", "expected"),
    [
        ([["new-rows"]], 40, 800),
        ([["lora"]], None, 0),
        ([["lora"]], 40, 800),  # both matrices are new, trained or not
        ([["embeddings", "head"]], None, 600),
        ([["embeddings", "head", {"layers": [0, 1, -2, -1]}]], 40, 800 + 400),
        ([["embeddings"], [{"layers": [0]}], [{"layers": [0, -1]}]], 40, 800 + 200),
        ([["all"]], None, 1000),
        ([["embeddings"], ["all"]], 40, 1200),
    ],
)
def test_a_cell_stores_what_its_phases_train(trainable, rows, expected):
    assert changed_parameters(CARD, strategy_of(*trainable), rows, rows and 10) == expected


def test_tied_matrices_are_stored_once():
    card = CARD | {"tied": True, "parameters": 700}
    assert changed_parameters(card, strategy_of(["embeddings"]), 40, 10) == 400


def test_without_training_new_rows_alone_are_stored():
    assert changed_parameters(CARD, strategy_of(), 40, 10) == 200
    assert changed_parameters(CARD, strategy_of(), None, None) == 0
