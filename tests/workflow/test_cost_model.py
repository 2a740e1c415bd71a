"""What the cost model says, against arithmetic done elsewhere and against its own inputs."""

import json
from copy import deepcopy
from math import ceil

import pytest

from lexigraft import UserError
from tests.workflow.conftest import open_study
from workflow.cost import CostModel
from workflow.stages import STAGES, Job, Study
from workflow.status.cost import costs
from workflow.status.estimates import Finished, similarity_key

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
    return open_study("lowres")


def edited(study, edit) -> Study:
    """A study of the same config but for an edit."""
    config = deepcopy(study.config)
    edit(config)
    return Study(config)


def trained(study, device="A100", **changed) -> float:
    """Seconds of a training without loading and without held-out sentences."""
    bare = edited(
        study, lambda config: config["strategies"][CELL["strategy"]]["curve"].update(sentences=0)
    )
    return CostModel(bare, device).training(CELL | changed)["training"]


def test_the_low_resource_study_takes_about_what_a_review_calculated(lowres, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEXIGRAFT_DEVICE", "H100")
    found = costs(lowres, lowres.jobs().values(), Finished()).values()
    assert 80 < sum(cost.gpu_hours for cost in found) < 250
    assert not any(cost.most_gpu_hours for cost in found)  # none is counted with its time limit
    hours = {}
    for cost in found:
        for work, own in cost.work.items():
            hours[work] = hours.get(work, 0) + own
    # H100-hours by hand, before there was this model: each within a factor of two.
    for work, expected in {"training": 48, "perplexity": 28, "generation": 24, "speed": 24}.items():
        assert expected / 2 < hours[work] < 2 * expected


def test_a_training_takes_six_operations_a_parameter_and_token_at_a_share_of_the_peak(lowres):
    # 30,000 sentences of 120 characters, twice; of 100 new tokens each is a character.
    operations = 30_000 * 120 * 2 * 6.74e9 * 6
    assert trained(lowres) == pytest.approx(operations / (0.45 * 312e12))
    assert trained(lowres) == pytest.approx(trained(lowres, "H100") * 989 / 312)


def test_time_is_proportional_to_parameters_tokens_and_what_is_computed_again(lowres):
    base = trained(lowres)

    def change(registry, name, **values):
        return trained(edited(lowres, lambda config: config[registry][name].update(values)))

    strategy = lowres.config["strategies"][CELL["strategy"]]
    larger = lowres.config["sources"][CELL["source"]]["resources"] | {"billion_parameters": 13.48}
    assert change("sources", CELL["source"], resources=larger) == pytest.approx(2 * base)
    assert change("strategies", CELL["strategy"], epochs=6.0) == pytest.approx(3 * base)
    assert change("strategies", CELL["strategy"], sentences=10_000) == pytest.approx(base / 3)
    longer = {"characters": 360}
    assert change("languages", "te", resources=longer) == pytest.approx(3 * base)
    stored = change("strategies", CELL["strategy"], gradient_checkpointing=False)
    assert stored == pytest.approx(base * 4 / 6)
    everything = [strategy["phases"][0] | {"trainable": ["all"]}]
    assert change("strategies", CELL["strategy"], phases=everything) == pytest.approx(base * 8 / 6)


def test_a_budget_in_tokens_costs_the_same_with_any_vocabulary(lowres):
    def limit(config):
        config["strategies"][CELL["strategy"]]["tokens"] = 1_000_000

    seconds = [trained(edited(lowres, limit), vocabulary=name) for name in ("source", "expand-1k")]
    assert seconds == pytest.approx(2 * [1_000_000 * 6.74e9 * 6 / (0.45 * 312e12)])


def test_a_larger_vocabulary_shortens_the_text(lowres):
    sizes = ("source", "expand-100-append", "expand-1k-append", "expand-5k-append")
    seconds = [trained(lowres, vocabulary=name) for name in sizes]
    assert seconds == sorted(seconds, reverse=True) and len(set(seconds)) == 4


def test_tasks_of_every_kind_are_estimated_and_add_up(lowres):
    runs = dict.fromkeys(("sources", "languages", "initializers", "strategies", "seeds"))

    def run_everything(config):
        for name in config["tasks"]:
            config["run_tasks"][name] = {"runs": 2, "learned_metrics": [], **runs}

    model = CostModel(edited(lowres, run_everything), "A100")
    loading = model.evaluation(CELL, [])["loading"]
    tasks = sorted(model.config["tasks"])
    each = [sum(model.evaluation(CELL, [task]).values()) - loading for task in tasks]
    assert all(seconds > 0 for seconds in each)
    assert sum(model.evaluation(CELL, tasks).values()) == pytest.approx(sum(each) + loading)


def test_the_answers_of_a_teacher_are_estimated_by_its_parameters(lowres):
    answered = {"kind": "answered", "prompts": "asked", "teacher": "gemma-2-9b"}
    samples = {"asked": {"kind": "questions"}, "answered": answered | {"max_new_tokens": 128}}
    taught = edited(lowres, lambda config: config["languages"]["te"].update(samples=samples))
    named = {"language": "te", "samples": "answered"}
    output = taught.output("answer_samples", **named)
    found = costs(taught, [Job(output, (), (), "")], Finished())["answer_samples"]
    assert found.modelled == 1
    assert found.gpu_hours * 3600 == pytest.approx(sum(taught.cost_model.answers(**named).values()))


def test_a_finished_job_calibrates_all_of_its_rule_on_its_device(lowres, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known, slower = Finished(), 3.0
    key = similarity_key(CostModel(lowres, "H100"), "train", CELL)
    usage = {"seconds": slower * key.amount, "gpus": 1, "device": "NVIDIA H100 80GB HBM3"}
    known.add(key, usage, megabytes=1)
    jobs = [job for job in lowres.jobs().values() if job.output.wildcards == OTHER]

    def hours(finished, rule):
        return costs(lowres, jobs, finished)[rule].gpu_hours

    monkeypatch.setenv("LEXIGRAFT_DEVICE", "H100")
    assert hours(known, "train") == pytest.approx(slower * hours(Finished(), "train"))
    assert hours(known, "evaluate") == hours(Finished(), "evaluate")
    monkeypatch.setenv("LEXIGRAFT_DEVICE", "A100")
    assert hours(known, "train") == hours(Finished(), "train")
    monkeypatch.delenv("LEXIGRAFT_DEVICE")  # then that of the finished jobs is planned for
    assert known.planning_device(lowres) == "H100"


def test_cards_take_the_place_of_assumptions_but_not_in_time_limits(lowres, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def hours():
        known = CostModel(lowres, "A100", reads_cards=True)
        return known.training(CELL)["training"], STAGES["train"].resources(lowres, **CELL).minutes

    before, limit = hours()
    corpus = tmp_path / lowres.output("prepare_corpus", language="te")
    corpus.mkdir(parents=True)
    size = {"sentences": 30_000, "characters": 30_000 * 240, "bytes": 30_000 * 700}
    (corpus / "card.json").write_text(json.dumps({"sizes": {"train": size}}))
    after, same = hours()
    assert after == pytest.approx(2 * before, rel=0.05) and same == limit


def test_time_limits_are_three_times_the_estimate(lowres):
    usual = edited(lowres, lambda config: None)  # whose device no other test has chosen
    model, asked = usual.cost_model, STAGES["train"].resources(usual, **OTHER).minutes
    assert asked == 10 * ceil(3 * sum(model.training(OTHER).values()) / 600)
    assert 30 < asked < 3 * 60
    fast = edited(lowres, lambda config: config["machine"].update(device="H100"))
    assert STAGES["train"].resources(fast, **OTHER).minutes < asked
    untrained = STAGES["train"].resources(usual, **CELL | {"strategy": "none"})
    assert untrained.minutes == 30  # the least


@pytest.mark.bad_input(
    "config",
    "an unknown device for cost estimates",
    "rejected with a message that lists the known devices",
)
def test_a_device_that_is_not_listed_is_refused(lowres, monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_DEVICE", "Voodoo2")
    with pytest.raises(UserError, match=r"LEXIGRAFT_DEVICE.*'Voodoo2' is not known; choose one of"):
        edited(lowres, lambda config: None).cost_model  # noqa: B018


def test_amounts_of_phases_cost_what_the_same_amount_of_a_strategy_does(lowres):
    def amounts(whole=None, first=None, second=None):
        def edit(config):
            strategy = config["strategies"][CELL["strategy"]]
            phases = [strategy["phases"][0] for _ in range(2)]
            if whole:
                strategy |= {"tokens": whole, "phases": [p | {"share": 0.5} for p in phases]}
            else:
                bare = [{k: v for k, v in p.items() if k != "share"} for p in phases]
                strategy["phases"] = [bare[0] | first, bare[1] | second]

        return trained(edited(lowres, edit))

    parts = amounts(first={"tokens": 7 * 10**8}, second={"tokens_per_language": 3 * 10**8})
    assert parts == pytest.approx(amounts(whole=10**9))


def test_text_is_as_long_as_its_characters_allow(lowres):
    def train(**limits):
        study = edited(lowres, lambda config: config["languages"]["te"].update(limits))
        return CostModel(study, "A100").text("te").sentences

    assert train(train_sentences=None, train_characters=12 * 10**9) == 10**8
    assert train(train_sentences=7, train_characters=12 * 10**9) == 7
