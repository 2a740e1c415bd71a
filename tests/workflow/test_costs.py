"""What a study will take: hand-worked sums, and Snakemake's own count of jobs."""

import re
import subprocess

import pytest

from tests.workflow.conftest import open_study
from workflow.config.registries import load_registries, resolve
from workflow.cost import CostModel
from workflow.stages import Job, Study
from workflow.status.cost import as_text, changed_parameters, costs, modelled
from workflow.status.estimates import Finished, similarity_key

CELL = {
    "source": "tiny",
    "language": "telugu",
    "vocabulary": "expand-50",
    "initializer": "align",
    "strategy": "short",
    "seed": "0",
}


@pytest.fixture
def study(miniature, tmp_path):
    source = miniature["sources"]["tiny"] | {"resources": {"evaluation_minutes": 45}}
    config = miniature | {"results": str(tmp_path / "results"), "sources": {"tiny": source}}
    return Study(resolve(config, load_registries()))


def job(study, rule, **wildcards):
    return Job(study.output(rule, **wildcards), needs=(), files=(), log="")


def test_similar_finished_jobs_count_with_their_mean_and_others_with_their_limit(study):
    known = Finished()
    usage = {"seconds": 1800, "gpus": 2, "device": "Made-Up"}
    key = similarity_key(CostModel(study, "Made-Up"), "train", CELL)
    known.add(key, usage, megabytes=500)
    planned = [
        job(study, "train", **CELL | {"seed": "1"}),
        job(study, "train", **CELL | {"seed": "2"}),
        job(study, "evaluate", **CELL),
        job(study, "prepare_corpus", language="telugu"),
    ]
    found = costs(study, planned, known)
    trained, tested = found["train"], found["evaluate"]
    assert (trained.jobs, trained.measured) == (2, 2)
    known_costs = (trained.job_hours, trained.gpu_hours, trained.gigabytes)
    assert known_costs == pytest.approx((1.0, 2.0, 1.0))
    assert (trained.most_job_hours, trained.most_gpu_hours) == (0, 0)
    # Two tasks of the study are run in that job, 45 minutes each at most.
    assert (tested.gpu_hours, tested.most_gpu_hours, tested.most_job_hours) == (0, 1.5, 1.5)
    text = as_text("made-up", found, "Made-Up")
    assert re.search(r"^all +4 +2 +≤ 3.5 +≤ 2.5 +1.0$", text, re.MULTILINE)
    assert "known: 2 jobs are estimated by the mean of similar finished jobs, on Made-Up" in text


def test_the_modelled_cost_of_a_study_is_that_of_all_jobs_by_the_model_and_limits(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # where nothing has run
    study = open_study("salt-german")
    fast, slow = modelled(study, "H200"), modelled(study, "A100")
    jobs = list(study.jobs().values())
    # If no job has finished, `costs` estimates for an A100.
    by_rule = costs(study, jobs, Finished()).values()
    assert (slow.jobs, slow.measured) == (len(jobs), 0)
    assert slow.gpu_hours == pytest.approx(sum(cost.gpu_hours for cost in by_rule))
    assert slow.most_job_hours == pytest.approx(sum(cost.most_job_hours for cost in by_rule))
    assert 0 < fast.gpu_hours < slow.gpu_hours
    assert fast.most_job_hours == slow.most_job_hours


def test_of_a_source_that_is_not_prepared_the_disk_is_not_made_up(study):
    found = costs(study, [job(study, "train", **CELL)], Finished())
    assert found["train"].unsized == 1
    assert re.search(r"^train .* \?$", as_text("made-up", found, "Made-Up"), re.MULTILINE)


CARD = {"parameters": 1000, "layers": 4, "hidden_size": 10, "rows": 30, "tied": False}
# Two matrices of 30 x 10 are 600 parameters; 400 in four layers are 100 a layer.


@pytest.mark.parametrize(
    ("trainable", "rows", "expected"),
    [
        ([[]], None, 0),
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
    strategy = {"phases": [{"trainable": parts} for parts in trainable]}
    assert changed_parameters(CARD, strategy, rows, rows and 10) == expected


def test_tied_matrices_are_stored_once():
    card = CARD | {"tied": True, "parameters": 700}
    strategy = {"phases": [{"trainable": ["embeddings"]}]}
    assert changed_parameters(card, strategy, 40, 10) == 400


def test_without_training_new_rows_alone_are_stored():
    assert changed_parameters(CARD, {"phases": []}, 40, 10) == 200
    assert changed_parameters(CARD, {"phases": []}, None, None) == 0


def test_the_jobs_are_those_that_snakemake_would_run(checkout):
    counted = checkout.snakemake("--dry-run", "--quiet", "rules")
    assert counted.returncode == 0, counted.stderr
    expected = dict(re.findall(r"^(\w+) +(\d+)$", counted.stdout + counted.stderr, re.MULTILINE))
    result = subprocess.run(
        [checkout.python, "scripts/cost.py", "study.yaml"],
        cwd=checkout.folder,
        env=checkout.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = dict(re.findall(r"^(\w+) +(\d+) ", result.stdout, re.MULTILINE))
    assert found.pop("all") == str(int(expected.pop("total")) - int(expected.pop("all")))
    assert found == expected
    assert not (checkout.folder / "results").exists()
