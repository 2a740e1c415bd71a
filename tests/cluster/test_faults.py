"""Five cells in training, each hit by a fault, all in one run of Snakemake."""

import json
from types import SimpleNamespace

import pytest

from tests.cluster.conftest import CELL, LITTLE_MEMORY, LITTLE_TIME, card
from tests.cluster.slurm import wait_until

DONE, CANCELLED, KILLED, LOST = (CELL.format(seed) for seed in range(4))
HIT = (CANCELLED, KILLED, LOST, LITTLE_MEMORY, LITTLE_TIME)


@pytest.fixture(scope="module")
def without_faults(prepared, copied):
    """Checksums of two of the cells, trained on this machine without a fault."""
    checkout = copied(prepared)
    result = checkout.snakemake("--", card(CANCELLED), card(LOST))
    assert result.returncode == 0, result.stderr
    return {cell: checksum(checkout, cell) for cell in (CANCELLED, LOST)}


@pytest.fixture(scope="module")
def faulty_run(prepared, copied, cluster):
    """A run with a fault in each cell: exit status, output, and jobs by cell."""
    checkout = copied(prepared)
    # One cell is complete before the run.
    assert checkout.snakemake("--", card(DONE)).returncode == 0
    before = (checkout.folder / card(DONE)).stat().st_mtime_ns

    checkout.pause_training()
    submitter = checkout.start("--retries", "5", "--", *map(card, HIT), card(DONE))
    wait_until(
        lambda: all(map(checkout.has_checkpoint, (CANCELLED, KILLED, LOST, LITTLE_TIME))),
        240,
        "all cells have a checkpoint",
    )
    # On a slow machine the cell with little time needs several attempts for a checkpoint.
    hit = {cell: jobs[-1] for cell, jobs in by_cell(checkout).items() if jobs}
    cluster.cancel(hit[CANCELLED].number)
    cluster.kill_script(hit[KILLED].number, "scripts/train.py")
    wait_until(lambda: is_over(checkout, hit[LITTLE_TIME]), 400, "the time limit passed")
    wait_until(
        lambda: is_over(checkout, by_cell(checkout)[LITTLE_MEMORY][0]), 60, "the memory ran out"
    )
    cluster.lose_node(hit[LOST].node)
    wait_until(lambda: is_over(checkout, hit[LOST]), 120, "Slurm noticed the lost node")
    checkout.resume_training()
    status = submitter.wait()
    cluster.start_node(hit[LOST].node)
    return SimpleNamespace(
        checkout=checkout,
        status=status,
        output=submitter.output,
        jobs=by_cell(checkout),
        before=before,
    )


def by_cell(checkout):
    """Cell -> its jobs, in the order of submission."""
    names = {cell: "_".join(cell.replace("seed-", "").split("/")) for cell in (*HIT, DONE)}
    return {
        cell: [job for job in checkout.submitted() if job.comment == f"rule_train_wildcards_{name}"]
        for cell, name in names.items()
    }


def is_over(checkout, job):
    now = next(one for one in checkout.submitted() if one.number == job.number)
    return now.state not in ("RUNNING", "PENDING", "COMPLETING")


def facts(checkout, cell):
    return json.loads((checkout.folder / card(cell)).read_text())


def checksum(checkout, cell):
    return facts(checkout, cell)["files"]["changed.safetensors"]["sha256"]


def test_all_cells_complete(faulty_run):
    assert faulty_run.status == 0, faulty_run.output
    for cell in HIT:
        assert (faulty_run.checkout.folder / card(cell)).exists()


@pytest.mark.fault(
    "cluster",
    "five faults affect five cells in one run",
    "only failed jobs are resubmitted; a complete cell is not trained again",
)
def test_a_complete_cell_is_not_trained_again(faulty_run):
    assert faulty_run.jobs[DONE] == []
    assert (faulty_run.checkout.folder / card(DONE)).stat().st_mtime_ns == faulty_run.before


@pytest.mark.fault(
    "cluster",
    "five faults affect five cells in one run",
    "only failed jobs are resubmitted; a complete cell is not trained again",
)
def test_only_failed_jobs_are_submitted_again(faulty_run):
    assert len(faulty_run.checkout.submitted()) == sum(map(len, faulty_run.jobs.values()))
    for cell in HIT:
        assert [job.state for job in faulty_run.jobs[cell]].count("COMPLETED") == 1
        assert faulty_run.jobs[cell][-1].state == "COMPLETED"


@pytest.mark.fault(
    "cluster",
    "a job is cancelled, or its process is killed",
    "it is resubmitted and resumes from its checkpoint; the result is bit-identical",
)
@pytest.mark.parametrize("cell", [CANCELLED, KILLED, LOST, LITTLE_TIME])
def test_training_resumes_from_its_last_checkpoint(faulty_run, cell):
    assert facts(faulty_run.checkout, cell)["resumed_from_step"] >= 1


@pytest.mark.fault(
    "cluster",
    "a job is cancelled, or its process is killed",
    "it is resubmitted and resumes from its checkpoint; the result is bit-identical",
)
@pytest.mark.parametrize("cell", [CANCELLED, LOST])
def test_the_result_equals_that_of_a_run_without_faults(faulty_run, without_faults, cell):
    assert checksum(faulty_run.checkout, cell) == without_faults[cell]


@pytest.mark.fault(
    "cluster", "a job exceeds its requested memory", "it is resubmitted with more memory"
)
def test_a_job_that_ran_out_of_memory_gets_more(faulty_run):
    jobs = faulty_run.jobs[LITTLE_MEMORY]
    assert [job.megabytes for job in jobs] == [500 * (n + 1) for n in range(len(jobs))]
    assert len(jobs) > 1


@pytest.mark.fault(
    "cluster",
    "a job exceeds its time limit",
    "it is resubmitted with more time and resumes from its checkpoint",
)
def test_a_job_that_ran_out_of_time_gets_more(faulty_run):
    jobs = faulty_run.jobs[LITTLE_TIME]
    assert [job.minutes for job in jobs] == [n + 1 for n in range(len(jobs))]
    assert jobs[0].state == "TIMEOUT"


@pytest.mark.fault("cluster", "a node loses power", "its job runs on another node")
def test_the_job_of_a_lost_node_runs_on_another(faulty_run):
    jobs = faulty_run.jobs[LOST]
    assert jobs[0].state == "NODE_FAIL"
    assert jobs[-1].node != jobs[0].node  # the node starts again only after the run


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "NODE_FAIL", "FAILED"])
def test_snakemake_reports_the_state_of_each_failed_job(faulty_run, state):
    assert f"SLURM status is: '{state}'" in faulty_run.output


def test_no_partial_file_remains(faulty_run):
    for cell in HIT:
        folder = (faulty_run.checkout.folder / card(cell)).parent
        assert not (folder / "checkpoints").exists()
        assert not list(folder.glob(".partial-*"))
