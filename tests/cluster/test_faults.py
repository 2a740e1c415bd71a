"""Five cells in training, and an accident for each: all of them in one run of Snakemake."""

import json
from types import SimpleNamespace

import pytest

from tests.cluster.conftest import CELL, CRAMPED, HASTY, card
from tests.cluster.slurm import wait_until

DONE, CANCELLED, KILLED, LOST = (CELL.format(seed) for seed in range(4))
HIT = (CANCELLED, KILLED, LOST, CRAMPED, HASTY)


@pytest.fixture(scope="module")
def undisturbed(prepared, copied):
    """Checksums of two of the cells, trained on this machine without an accident."""
    checkout = copied(prepared)
    result = checkout.snakemake("--", card(CANCELLED), card(LOST))
    assert result.returncode == 0, result.stderr
    return {cell: checksum(checkout, cell) for cell in (CANCELLED, LOST)}


@pytest.fixture(scope="module")
def survived(prepared, copied, cluster):
    """What came out, the jobs by cell, and what Snakemake said."""
    checkout = copied(prepared)
    # One cell is finished before.
    assert checkout.snakemake("--", card(DONE)).returncode == 0
    before = (checkout.folder / card(DONE)).stat().st_mtime_ns

    checkout.hold()
    head = checkout.start("--retries", "5", "--", *map(card, HIT), card(DONE))
    wait_until(
        lambda: all(map(checkout.stands, (CANCELLED, KILLED, LOST, HASTY))),
        240,
        "all cells have a checkpoint",
    )
    # On a slow machine the one without time needs more than one attempt for a checkpoint.
    hit = {cell: jobs[-1] for cell, jobs in by_cell(checkout).items() if jobs}
    cluster.cancel(hit[CANCELLED].number)
    cluster.kill_script(hit[KILLED].number, "scripts/train.py")
    wait_until(lambda: is_over(checkout, hit[HASTY]), 400, "the time limit passed")
    wait_until(lambda: is_over(checkout, by_cell(checkout)[CRAMPED][0]), 60, "the memory ran out")
    cluster.lose_node(hit[LOST].node)
    wait_until(lambda: is_over(checkout, hit[LOST]), 120, "the node is known to be gone")
    checkout.release()
    status = head.wait()
    cluster.start_node(hit[LOST].node)
    return SimpleNamespace(
        checkout=checkout, status=status, said=head.said, jobs=by_cell(checkout), before=before
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


def test_all_cells_come_out(survived):
    assert survived.status == 0, survived.said
    for cell in HIT:
        assert (survived.checkout.folder / card(cell)).exists()


def test_what_was_finished_is_left_alone(survived):
    assert survived.jobs[DONE] == []
    assert (survived.checkout.folder / card(DONE)).stat().st_mtime_ns == survived.before


def test_nothing_but_what_was_lost_is_sent_again(survived):
    assert len(survived.checkout.submitted()) == sum(map(len, survived.jobs.values()))
    for cell in HIT:
        assert [job.state for job in survived.jobs[cell]].count("COMPLETED") == 1
        assert survived.jobs[cell][-1].state == "COMPLETED"


@pytest.mark.parametrize("cell", [CANCELLED, KILLED, LOST, HASTY])
def test_training_goes_on_from_its_last_checkpoint(survived, cell):
    assert facts(survived.checkout, cell)["resumed_from_step"] >= 1


@pytest.mark.parametrize("cell", [CANCELLED, LOST])
def test_the_result_is_that_of_a_run_without_an_accident(survived, undisturbed, cell):
    assert checksum(survived.checkout, cell) == undisturbed[cell]


def test_a_job_without_memory_gets_more(survived):
    jobs = survived.jobs[CRAMPED]
    assert [job.megabytes for job in jobs] == [500 * (n + 1) for n in range(len(jobs))]
    assert len(jobs) > 1


def test_a_job_without_time_gets_more(survived):
    jobs = survived.jobs[HASTY]
    assert [job.minutes for job in jobs] == [n + 1 for n in range(len(jobs))]
    assert jobs[0].state == "TIMEOUT"


def test_a_lost_node_is_left(survived):
    jobs = survived.jobs[LOST]
    assert jobs[0].state == "NODE_FAIL"
    assert jobs[-1].node != jobs[0].node  # it is started again only after the run


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "NODE_FAIL", "FAILED"])
def test_snakemake_says_what_happened(survived, state):
    assert f"SLURM status is: '{state}'" in survived.said


def test_nothing_half_written_is_left(survived):
    for cell in HIT:
        folder = (survived.checkout.folder / card(cell)).parent
        assert not (folder / "checkpoints").exists()
        assert not list(folder.glob(".partial-*"))
