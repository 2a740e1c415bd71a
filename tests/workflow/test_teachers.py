"""Teachers in a study: checked before the first job, prepared, and read where they are needed."""

import json
from copy import deepcopy

import pytest

from lexigraft import UserError
from tests.workflow.plan import Plan
from workflow.config.checks import check_local_files
from workflow.config.registries import load_registries, resolve
from workflow.inputs.training import memory

DISTILL = {"trainable": ["all"], "length": 64, "objective": "distill", "data": "tasks"}


@pytest.fixture(scope="module")
def config(miniature, texts, smollm2_folder_tiny):
    """Token-level distillation, sentence-level distillation, and training without a teacher."""
    config = deepcopy(miniature)
    tasks = {"kind": "parallel", "text": {"loader": "tsv", "path": str(texts / "telugu.tsv")}}
    answered = {"kind": "answered", "prompts": "tasks", "teacher": "large"}
    config["languages"]["telugu"]["samples"] = {"tasks": tasks, "answered": answered}
    config["sources"]["large"] = {
        "folder": str(smollm2_folder_tiny),
        "resources": {"evaluation_mb": 700, "evaluation_minutes": 9},
    }
    short = config["strategies"]["short"]
    phase = {**short["phases"][0], "data": {"monolingual": 0.85, "answered": 0.15}}
    config["strategies"] |= {
        "distilled": {**short, "phases": [{**DISTILL, "distill": {"teacher": "large"}}]},
        "distilled-sentences": {**short, "phases": [phase]},
    }
    config["cells"] = [
        {
            "sources": ["tiny"],
            "languages": ["telugu"],
            "vocabularies": ["source"],
            "initializers": ["none"],
            "strategies": ["distilled", "distilled-sentences", "short"],
        }
    ]
    config["run_tasks"] = {"perplexity": {}}
    return config


@pytest.fixture
def study(config):
    return Plan(config)


def wildcards(strategy):
    return {
        "source": "tiny", "language": "telugu", "vocabulary": "source", "initializer": "none",
        "strategy": strategy, "seed": "0",
    }  # fmt: skip


def refused(config, change):
    own = deepcopy(config)
    change(own)
    with pytest.raises(UserError) as error:
        check_local_files(resolve(own, load_registries()))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_plan_prepares_the_teacher_and_its_answers(checkout, config):
    checkout.config = config
    planned = checkout.planned()
    assert {message for message in planned if message.startswith(("Preparing", "Answering"))} == {
        "Preparing the source model tiny",
        "Preparing the source model large",
        "Preparing the texts of telugu",
        "Preparing the samples tasks of telugu",
        "Answering the samples answered of telugu",
    }


def test_only_the_job_of_a_cell_with_a_teacher_names_one(study):
    teachers = {
        strategy: json.loads(study.job("train", wildcards(strategy)))["inputs"].get("teacher")
        for strategy in ("distilled", "distilled-sentences", "short")
    }
    assert teachers == {
        "distilled": "results/source/large",
        "distilled-sentences": None,
        "short": None,
    }


def test_the_source_of_a_cell_teaches_it_where_no_other_model_does(config):
    own, short = deepcopy(config), config["strategies"]["short"]
    teachers = {"matched": "tiny", "matched-large": "large"}
    for name, given in (("matched", {}), ("matched-large", {"alm": {"teacher": "large"}})):
        phases = [{**phase, "objective": "alm", **given} for phase in short["phases"]]
        own["strategies"][name] = {**short, "phases": phases}
        own["cells"][0]["strategies"].append(name)
    made = Plan(own)
    for name, teacher in teachers.items():
        job = json.loads(made.job("train", wildcards(name)))
        assert job["inputs"]["teacher"] == f"results/source/{teacher}"
        assert memory(made, wildcards(name)) > memory(made, wildcards("short"))


def test_a_job_with_a_teacher_requests_memory_for_it_too(study):
    with_teacher, without = (memory(study, wildcards(name)) for name in ("distilled", "short"))
    assert with_teacher - without == 700


def test_the_job_of_answered_samples_names_the_prompts_and_the_teacher(study):
    described = json.loads(
        study.job("answer_samples", {"language": "telugu", "samples": "answered"})
    )
    assert described["settings"] == {"max_new_tokens": 128, "batch_size": None}
    assert described["inputs"] == {
        "prompts": "results/corpus/telugu/samples/tasks/samples.jsonl",
        "teacher": "results/source/large",
    }
    assert described["outputs"]["folder"] == "results/corpus/telugu/samples/answered"
    assert described["versions"] == {"stage": 1}


def test_the_report_knows_the_teacher(study):
    settings = json.loads(study.job("build_report", {}))["settings"]["study"]
    assert set(settings["sources"]) == {"tiny", "large"}


def test_a_teacher_must_be_a_source(config):
    def change(config):
        config["strategies"]["distilled"]["phases"][0]["distill"]["teacher"] = "larg"

    message = refused(config, change)
    assert message.startswith("strategies.distilled.phases: distill.teacher: ")
    assert "did you mean 'large'?" in message


def test_the_teacher_of_likelihood_matching_must_be_a_source(config):
    def change(config):
        phase = config["strategies"]["short"]["phases"][0]
        phase |= {"objective": "alm", "alm": {"teacher": "larg"}}

    assert refused(config, change).startswith("strategies.short.phases: alm.teacher: ")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("teacher", "larg", "languages.telugu.samples.answered.teacher: "),
        ("prompts", "task", "languages.telugu.samples.answered.prompts: "),
        ("prompts", "answered", "languages.telugu.samples.answered.prompts: "),
    ],
)
def test_the_prompts_and_the_teacher_must_be_there(config, key, value, expected):
    def change(config):
        config["languages"]["telugu"]["samples"]["answered"][key] = value

    assert refused(config, change).startswith(expected)


def test_one_name_is_of_answers_in_all_languages_or_in_none(config):
    def change(config):
        samples = config["languages"]["telugu"]["samples"]
        config["languages"]["greek"]["samples"] = {"answered": samples["tasks"]}

    assert "of kind parallel in languages.greek" in refused(config, change)


def test_the_files_of_the_prompts_must_be_there(config):
    def change(config):
        config["languages"]["telugu"]["samples"]["tasks"]["text"]["path"] = "no/such.tsv"
        config["cells"][0]["strategies"] = ["distilled-sentences"]

    assert "languages.telugu.samples.tasks.text.path: no/such.tsv" in refused(config, change)


def test_the_folder_of_a_teacher_must_be_there(config, tmp_path):
    def change(config):
        config["sources"]["large"]["folder"] = str(tmp_path)

    assert f"sources.large.folder: {tmp_path} contains no config.json" in refused(config, change)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ({"distill": {"teacher": "large"}}, "only objective distill takes this key"),
        ({"objective": "distill"}, "'distill' is missing"),
    ],
)
def test_a_teacher_goes_with_its_objective(config, phase, expected):
    def change(config):
        config["strategies"]["short"]["phases"][0] |= phase

    assert expected in refused(config, change)


def test_a_cell_has_one_teacher(config):
    def change(config):
        phase = config["strategies"]["distilled"]["phases"][0]
        phases = [{**phase, "share": 0.5, "distill": {"teacher": t}} for t in ("large", "tiny")]
        config["strategies"]["distilled"]["phases"] = phases

    assert "phases: use the teachers large and tiny; a cell can have only one" in refused(
        config, change
    )


def test_a_cell_is_not_taught_by_its_source_and_by_another_model(config):
    def change(config):
        [phase] = config["strategies"]["distilled"]["phases"]
        matched = {**phase, "share": 0.5, "objective": "alm"}
        del matched["distill"]
        config["strategies"]["distilled"]["phases"] = [{**phase, "share": 0.5}, matched]

    assert "the teachers large and the cell's own source; a cell can have only one" in refused(
        config, change
    )


def test_unifyvocab_distills_after_a_new_vocabulary_and_its_baselines_have_none():
    entries = load_registries()["strategies"]
    (direct,) = entries["direct-tuning"]["phases"]
    (sentences,) = entries["sentence-distill"]["phases"]
    *adapted, distill = entries["distill"]["phases"]
    assert adapted == entries["progressive"]["phases"]
    assert direct["data"] == distill["data"] == {"monolingual": 0.85, "tasks": 0.15}
    assert sentences["data"] == {"monolingual": 0.85, "answered": 0.15}
    # 235 M tokens, of which 85 % are of the first text.
    for phase in (direct, sentences, distill):
        assert phase["tokens"] / 0.85 == pytest.approx(235e6, rel=0.01)
