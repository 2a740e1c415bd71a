"""A Snakemake that is started twice, killed, and started again, while its jobs live on."""

import json
import re

import pytest

from tests.cluster.conftest import CELL, card, record
from tests.cluster.slurm import wait_until

TARGET = CELL.format(0)


@pytest.fixture(scope="module")
def story(prepared, copied):
    """A run that is joined by a second one, killed, and followed by a third and a fourth."""
    checkout = copied(prepared)
    checkout.hold()
    first = checkout.start("--", card(TARGET))
    wait_until(lambda: checkout.stands(TARGET), 120, "the cell has a checkpoint")
    while_it_runs = checkout.run("--", card(TARGET))
    first.process.kill()
    first.wait()
    locked = checkout.run("--", card(TARGET))
    assert checkout.snakemake("--unlock").returncode == 0
    last = checkout.start("--", card(TARGET))
    log = checkout.folder / f"results/logs/training/{TARGET}.log"
    wait_until(lambda: log.exists() and "waiting" in log.read_text(), 120, "the new job waits")
    checkout.release()
    last.wait()
    return checkout, while_it_runs, locked, last


def test_a_second_snakemake_on_the_same_folder_is_refused(story):
    _, while_it_runs, _, _ = story
    assert while_it_runs.process.returncode != 0
    assert "Directory cannot be locked" in while_it_runs.said


def test_after_a_kill_the_lock_is_named_and_how_to_take_it_away(story):
    _, _, locked, _ = story
    assert locked.process.returncode != 0
    assert "--unlock" in locked.said


def test_the_next_run_names_the_jobs_that_live_on(story):
    checkout, _, _, last = story
    orphan = checkout.submitted()[0].number
    assert re.search(rf"1 job\(s\) of an earlier run .* scancel {orphan}\b", last.said)


def test_what_an_orphan_finishes_is_not_done_again(story):
    checkout, _, _, last = story
    assert last.process.returncode == 0, last.said
    assert [job.state for job in checkout.submitted()] == ["COMPLETED", "COMPLETED"]
    log = (checkout.folder / f"results/logs/training/{TARGET}.log").read_text()
    assert "nothing is left to do" in log
    assert json.loads((checkout.folder / card(TARGET)).read_text())["resumed_from_step"] is None


def test_what_ends_before_the_next_run_begins_is_not_done_again(prepared, copied):
    checkout = copied(prepared)
    checkout.hold()
    first = checkout.start("--", card(TARGET))
    wait_until(lambda: checkout.stands(TARGET), 120, "the cell has a checkpoint")
    first.process.kill()
    first.wait()
    checkout.release()
    wait_until(lambda: checkout.submitted()[0].state == "COMPLETED", 120, "its job is over")
    before = (checkout.folder / card(TARGET)).stat().st_mtime_ns
    assert checkout.snakemake("--unlock").returncode == 0
    again = checkout.run("--", card(TARGET))
    assert again.process.returncode == 0, again.said
    assert len(checkout.submitted()) == 1
    assert (checkout.folder / card(TARGET)).stat().st_mtime_ns == before

    def train_otherwise(config):
        config["strategies"]["short"]["sentences"] = 19

    checkout.change(train_otherwise)  # it is known how it was made
    assert any("Training" in job for job in checkout.planned("--", card(TARGET)))


def test_what_slurm_refuses_is_not_taken_for_done(prepared, copied):
    """The results of an earlier configuration lie where those of the refused job belong."""
    checkout = copied(prepared)
    wanted = record(TARGET, "perplexity")
    assert checkout.snakemake("--", wanted).returncode == 0
    assert checkout.planned("--", wanted) == set()

    less = "kind: perplexity\n    heldout_sentences: 5"
    checkout.edit("config/tasks.yaml", "kind: perplexity\n    heldout_sentences: null", less)
    refused = checkout.run(
        "--retries", "0", "--set-resources", "evaluate:slurm_partition=nowhere", "--", wanted
    )
    assert refused.process.returncode != 0
    assert "nowhere" in refused.said
    assert len(checkout.planned("--", wanted)) == 1


def test_two_folders_that_share_their_results_do_each_thing_once(prepared, copied):
    checkouts = [copied(prepared) for _ in range(2)]
    for checkout in checkouts[1:]:
        (checkout.folder / "results").rename(checkout.folder / "own-results")
        (checkout.folder / "results").symlink_to(checkouts[0].folder / "results")
    for checkout in checkouts:
        checkout.hold()
    first = checkouts[0].start("--", card(TARGET))
    wait_until(lambda: checkouts[0].stands(TARGET), 120, "the first one has a checkpoint")
    second = checkouts[1].start("--", card(TARGET))
    log = checkouts[0].folder / f"results/logs/training/{TARGET}.log"
    wait_until(lambda: log.exists() and "waiting" in log.read_text(), 120, "the other one waits")
    for checkout in checkouts:
        checkout.release()
    for head in (first, second):
        assert head.wait() == 0, head.said
    assert "nothing is left to do" in log.read_text()
