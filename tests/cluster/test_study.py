"""A small study from nothing: its jobs on Slurm, what each requests, and where its log is."""

import re

import pytest

from tests.cluster.conftest import CELL

BASELINE = "tiny/telugu/source/none/none/seed-0"
TRAINED = CELL.format(0)


@pytest.fixture(scope="module")
def finished(project, copied):
    """The study with one trained cell and its baseline, run on Slurm."""
    checkout = copied(project)

    def one_cell(config):
        config["cells"] = config["cells"][:2]
        config["cells"][1]["seeds"] = [0]

    checkout.change(one_cell)
    submitter = checkout.run()
    assert submitter.process.returncode == 0, submitter.output
    return checkout


@pytest.fixture(scope="module")
def jobs(finished):
    """Rule -> its jobs on Slurm."""
    found = {}
    for job in finished.submitted():
        assert job.state == "COMPLETED", f"{job}\n{job.log.read_text(encoding='utf-8')}"
        rule = job.comment.removeprefix("rule_").partition("_wildcards_")[0]
        found.setdefault(rule, []).append(job)
    return found


def requested(job):
    return job.partition, job.gpus, job.cpus, job.megabytes, job.minutes


def test_the_report_is_complete_and_nothing_remains_to_run(finished):
    assert (finished.folder / "results/report/miniature/report.html").exists()
    assert finished.planned() == set()


def test_rules_that_are_light_or_use_the_network_are_not_submitted(jobs):
    assert all(
        rule.startswith(("build", "initialize", "train", "evaluate", "measure")) for rule in jobs
    )


def test_training_requests_the_resources_of_its_source(jobs):
    by_cell = {"none" in job.comment: job for job in jobs["train"]}
    assert requested(by_cell[False]) == ("gpu", 1, 4, 2500, 9)
    # A cell that is not trained requests what an evaluation does.
    assert requested(by_cell[True]) == ("gpu", 1, 4, 2200, 7)


def test_rules_that_need_no_gpu_request_none(jobs):
    assert [requested(job) for job in jobs["initialize"]] == [("cpu", 0, 1, 1500, 30)]
    assert [requested(job) for job in jobs["build_vocabulary"]] == [("cpu", 0, 1, 4000, 30)]


def test_each_cell_is_evaluated_by_one_job_on_one_gpu(jobs):
    assert len(jobs["evaluate"]) == 2  # the baseline and the trained cell
    assert {requested(job) for job in jobs["evaluate"]} == {("gpu", 1, 4, 2200, 3 * 7)}


def test_the_speed_of_each_cell_is_measured_on_a_gpu(jobs):
    assert len(jobs["measure_speed"]) == 2
    assert {requested(job) for job in jobs["measure_speed"]} == {("gpu", 1, 4, 2200, 7)}


@pytest.mark.parametrize("cell", [BASELINE, TRAINED])
def test_an_evaluation_loads_its_model_once_for_each_precision(finished, cell):
    log = (finished.folder / f"results/logs/evaluation/{cell}.log").read_text(encoding="utf-8")
    assert log.count("lexigraft.evaluation.evaluate: evaluating ") == 3
    loaded = re.findall(r"lexigraft.evaluation.evaluate: loading (.+)", log)
    assert len(loaded) == len(set(loaded)) < 3


def test_logs_are_found_from_the_name_of_the_cell(finished, jobs):
    logs = finished.folder / "results/logs"
    for log in (f"training/{TRAINED}", f"evaluation/{TRAINED}", f"evaluation/{TRAINED}/speed"):
        assert (logs / f"{log}.log").exists()
    name = "tiny_telugu_expand-50_align_short_0"
    found = [job.log for ones in jobs.values() for job in ones if name in str(job.log)]
    assert len(found) == 3  # trained, evaluated, speed measured
    assert all(log.exists() and log.is_relative_to(logs / "slurm") for log in found)
