"""A small study from nothing: what is sent to Slurm, what each job asks for, where its log is."""

import itertools

import pytest

from tests.cluster.conftest import CELL

BASELINE = "tiny/telugu/source/none/none/seed-0"
TRAINED = CELL.format(0)


@pytest.fixture(scope="module")
def finished(project, copied):
    """The study with one trained cell and its baseline, run by Slurm."""
    checkout = copied(project)

    def one_cell(config):
        config["cells"] = config["cells"][:2]
        config["cells"][1]["seeds"] = [0]

    checkout.change(one_cell)
    head = checkout.run()
    assert head.process.returncode == 0, head.said
    return checkout


@pytest.fixture(scope="module")
def jobs(finished):
    """Rule -> jobs of it that Slurm saw."""
    found = {}
    for job in finished.submitted():
        assert job.state == "COMPLETED"
        rule = job.comment.removeprefix("rule_").partition("_wildcards_")[0]
        found.setdefault(rule, []).append(job)
    return found


def asked(job):
    return job.partition, job.gpus, job.cpus, job.megabytes, job.minutes


def test_the_report_is_there_and_nothing_is_left_to_do(finished):
    assert (finished.folder / "results/report/miniature/report.html").exists()
    assert finished.planned() == set()


def test_what_is_light_or_reaches_the_network_is_not_sent(jobs):
    assert all(
        rule.startswith(("expand", "initialize", "train", "evaluate", "measure")) for rule in jobs
    )


def test_training_asks_for_what_its_source_needs(jobs):
    by_cell = {"none" in job.comment: job for job in jobs["train"]}
    assert asked(by_cell[False]) == ("gpu", 1, 4, 2500, 9)
    # What trains nothing takes no more than an evaluation.
    assert asked(by_cell[True]) == ("gpu", 1, 4, 2200, 7)


def test_stages_without_a_model_on_a_gpu_ask_for_none(jobs):
    assert [asked(job) for job in jobs["initialize"]] == [("cpu", 0, 1, 1500, 30)]
    assert [asked(job) for job in jobs["expand_vocabulary"]] == [("cpu", 0, 1, 4000, 30)]


def test_the_measurements_of_a_cell_are_one_job_on_one_gpu(jobs):
    grouped = [job for rule, ones in jobs.items() if rule.startswith("evaluate") for job in ones]
    assert len(grouped) == 2  # of three evaluations each
    assert {asked(job) for job in grouped} == {("gpu", 1, 4, 2200, 3 * 7)}


def test_they_take_turns(finished):
    """Each is over before the next one begins: there is one GPU for them."""
    for cell in (BASELINE, TRAINED):
        folders = sorted((finished.folder / "results/evaluation" / cell).glob("*/run-*"))
        assert len(folders) == 3
        spans = sorted(
            ((folder / "job.json").stat().st_mtime, (folder / "card.json").stat().st_mtime)
            for folder in folders
        )
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


def test_logs_are_found_from_the_name_of_the_cell(finished, jobs):
    logs = finished.folder / "results/logs"
    assert (logs / f"training/{TRAINED}.log").exists()
    for task in ("perplexity-0", "translation-short-0", "translation-short-1"):
        assert (logs / f"evaluation/{TRAINED}/{task}.log").exists()
    name = "tiny_telugu_expand-50_align_short_0"
    slurms = [job.log for ones in jobs.values() for job in ones if name in str(job.log)]
    assert len(slurms) == 2  # trained, evaluated
    assert all(log.exists() and log.is_relative_to(logs / "slurm") for log in slurms)
