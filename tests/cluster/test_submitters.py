"""A Snakemake that is started twice, killed, and started again while its jobs still run."""

import json
import re

import pytest

from tests.cluster.conftest import CELL, card, evaluation_card
from tests.cluster.slurm import wait_until

TARGET = CELL.format(0)


def facts(checkout):
    """What the target's card says, and how many times the cell was trained."""
    file = checkout.folder / card(TARGET)
    usage = (file.parent / "usage.jsonl").read_text(encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8")), len(usage.splitlines())


@pytest.fixture(scope="module")
def runs(prepared, copied):
    """A run, a second one beside it, and two more after the first was killed."""
    checkout = copied(prepared)
    checkout.pause_training()
    first = checkout.start("--", card(TARGET))
    wait_until(lambda: checkout.has_checkpoint(TARGET), 120, "the cell has a checkpoint")
    concurrent = checkout.run("--", card(TARGET))
    first.kill()
    locked = checkout.run("--", card(TARGET))
    assert checkout.snakemake("--unlock").returncode == 0
    last = checkout.start("--", card(TARGET))
    log = checkout.folder / f"results/logs/training/{TARGET}.log"
    wait_until(lambda: log.exists() and "waiting" in log.read_text(), 120, "the new job waits")
    checkout.resume_training()
    last.wait()
    return checkout, concurrent, locked, last


@pytest.mark.fault(
    "parallel",
    "a second Snakemake is started in the same folder",
    "it is refused with a message that the folder is locked",
)
def test_a_second_snakemake_on_the_same_folder_is_refused(runs):
    _, concurrent, _, _ = runs
    assert concurrent.process.returncode != 0
    assert "Directory cannot be locked" in concurrent.output


@pytest.mark.fault(
    "cluster", "the working folder stays locked after a kill", "the message says how to unlock it"
)
def test_after_a_kill_the_message_says_how_to_unlock_the_folder(runs):
    _, _, locked, _ = runs
    assert locked.process.returncode != 0
    assert "--unlock" in locked.output


@pytest.mark.fault(
    "cluster",
    "the Snakemake process that submits is killed while its jobs run",
    "the next run lists these jobs, waits for them and reuses what they complete",
)
def test_the_next_run_names_the_jobs_that_still_run(runs):
    checkout, _, _, last = runs
    leftover = checkout.submitted()[0].number
    assert re.search(rf"1 job\(s\) of an earlier run .* scancel {leftover}\b", last.output)


@pytest.mark.fault(
    "cluster",
    "the Snakemake process that submits is killed while its jobs run",
    "the next run lists these jobs, waits for them and reuses what they complete",
)
def test_what_a_leftover_job_completes_is_not_trained_again(runs):
    checkout, _, _, last = runs
    assert last.process.returncode == 0, last.output
    # Slurm learns of an end a moment after the job has written its card.
    ended = ["COMPLETED", "COMPLETED"]
    wait_until(lambda: [job.state for job in checkout.submitted()] == ended, 60, "both jobs ended")
    log = (checkout.folder / f"results/logs/training/{TARGET}.log").read_text()
    assert "already complete: nothing to do" in log
    assert json.loads((checkout.folder / card(TARGET)).read_text())["resumed_from_step"] is None


@pytest.mark.fault(
    "cluster",
    "the Snakemake process that submits is killed while its jobs run",
    "the next run lists these jobs, waits for them and reuses what they complete",
)
def test_what_completes_between_two_runs_is_not_trained_again(prepared, copied):
    checkout = copied(prepared)
    checkout.pause_training()
    first = checkout.start("--", card(TARGET))
    wait_until(lambda: checkout.has_checkpoint(TARGET), 120, "the cell has a checkpoint")
    first.kill()
    checkout.resume_training()
    wait_until(lambda: checkout.submitted()[0].state == "COMPLETED", 120, "its job ended")
    before = facts(checkout)
    assert checkout.snakemake("--unlock").returncode == 0
    again = checkout.run("--", card(TARGET))
    assert again.process.returncode == 0, again.output
    assert facts(checkout) == before

    def train_on_fewer_sentences(config):
        config["strategies"]["short"]["sentences"] = 19

    checkout.change(train_on_fewer_sentences)
    assert any("Training" in job for job in checkout.planned("--", card(TARGET)))


@pytest.mark.fault(
    "cluster",
    "Slurm rejects a job whose folder has outputs of earlier settings",
    "the job does not count as complete",
)
def test_a_job_that_slurm_refuses_does_not_count_as_complete(prepared, copied):
    """Results of an earlier configuration are in the folder of the refused job."""
    checkout = copied(prepared)
    wanted = evaluation_card(TARGET)
    assert checkout.snakemake("--", wanted).returncode == 0
    assert checkout.planned("--", wanted) == set()

    less = "kind: perplexity\n    heldout_sentences: 5"
    checkout.edit("config/tasks.yaml", "kind: perplexity\n    heldout_sentences: null", less)
    refused = checkout.run(
        "--retries", "0", "--set-resources", "evaluate:slurm_partition=nowhere", "--", wanted
    )
    assert refused.process.returncode != 0
    assert "nowhere" in refused.output
    assert len(checkout.planned("--", wanted)) == 1


@pytest.mark.fault(
    "parallel", "two checkouts with a shared results folder run the same cell", "it is trained once"
)
def test_two_folders_that_share_results_train_each_cell_once(prepared, copied):
    checkouts = [copied(prepared) for _ in range(2)]
    for checkout in checkouts[1:]:
        (checkout.folder / "results").rename(checkout.folder / "unused-results")
        (checkout.folder / "results").symlink_to(checkouts[0].folder / "results")
    for checkout in checkouts:
        checkout.pause_training()
    first = checkouts[0].start("--", card(TARGET))
    wait_until(lambda: checkouts[0].has_checkpoint(TARGET), 120, "the first one has a checkpoint")
    second = checkouts[1].start("--", card(TARGET))
    log = checkouts[0].folder / f"results/logs/training/{TARGET}.log"
    wait_until(lambda: log.exists() and "waiting" in log.read_text(), 120, "the other one waits")
    for checkout in checkouts:
        checkout.resume_training()
    for submitter in (first, second):
        assert submitter.wait() == 0, submitter.output
    assert "already complete: nothing to do" in log.read_text()
