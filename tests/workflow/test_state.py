"""The states of a study's jobs, each brought about by hand, and the texts about them."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lexigraft.artifacts.completion import move_replaced
from lexigraft.errors import UserError
from tests.conftest import run_command
from tests.workflow.conftest import REPOSITORY, Checkout, copy_project, finish, plan
from workflow.config.registries import load_registries, resolve
from workflow.jobs import Job, jobs_of
from workflow.state import (
    check_writable,
    explain_job,
    explain_study,
    failures,
    is_at_work,
    plan_text,
    replaced_jobs,
    replacement_notice,
    states,
    status_text,
)
from workflow.study import Study

CELL = "results/training/tiny/telugu/expand-50/multivariate/short/seed-0/card.json"
FITTED = "results/initialization/tiny/telugu/expand-50/multivariate/seed-0/card.json"
EVALUATED = "results/evaluation/tiny/telugu/expand-50/multivariate/short/seed-0"
DEVICE = "A100"


@pytest.fixture(scope="module")
def config(miniature, texts, tmp_path_factory) -> dict:
    """The miniature with texts in the folder in which it is planned."""
    languages = {}
    for name, language in miniature["languages"].items():
        text = {"loader": "text", "paths": [f"{name}.txt"]}
        languages[name] = language | {
            "text": text,
            "parallel": {"loader": "tsv", "path": f"{name}.tsv"},
        }
    return miniature | {"languages": languages}


@pytest.fixture(scope="module")
def planned(config, texts, tmp_path_factory) -> tuple[Study, dict[str, Job]]:
    """The study and its jobs."""
    folder = tmp_path_factory.mktemp("planned")
    shutil.copytree(texts, folder, dirs_exist_ok=True)
    return resolve(config, load_registries()), plan(config, folder)


@pytest.fixture
def nothing_run(planned, texts, tmp_path, monkeypatch) -> tuple[Study, dict[str, Job]]:
    """The same in an empty folder."""
    shutil.copytree(texts, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    study, jobs = planned
    return study, dict(jobs)


@pytest.fixture
def finished(nothing_run) -> tuple[Study, dict[str, Job]]:
    """The same with all jobs done: training took two hours on one GPU, others one."""
    study, jobs = nothing_run
    for job in jobs.values():
        finish(job, 7200 if job.rule == "train" else 3600, gpus=int(job.rule == "train"))
    return study, jobs


def names(jobs: dict[str, Job]) -> dict[str, str]:
    """Card -> name of its state."""
    return {card: state.name for card, state in states(jobs).items()}


def with_settings(jobs: dict[str, Job], card: str, **settings) -> dict[str, Job]:
    """The jobs with other settings of one of them."""
    description = jobs[card].description
    changed = description | {"settings": description["settings"] | settings}
    return jobs | {card: replace(jobs[card], description=changed)}


def lose(job: Job) -> None:
    """Take away what a job writes last."""
    Path(job.card).unlink()
    Path(job.folder, ".completed.json").unlink()


def write_log(job: Job, text: str) -> None:
    Path(job.log).parent.mkdir(parents=True, exist_ok=True)
    Path(job.log).write_text(text)


# ---- jobs ---------------------------------------------------------------------------------------


def test_jobs_have_what_snakemake_says_of_them(planned):
    _, jobs = planned
    job = jobs[CELL]
    assert job.rule == "train" and job.wildcards["initializer"] == "multivariate"
    assert job.message == "Training telugu expand-50 multivariate short seed 0"
    assert FITTED in job.inputs and job.log.startswith("results/logs/training/")
    assert (job.gpus, job.minutes, job.memory_mb) == (1, 60, 6000)
    assert job.description["rule"] == "train" and job.description["seed"][1] == "training"
    cards = list(jobs)
    for number, card in enumerate(cards):
        assert not set(jobs[card].inputs) & set(cards[number:])


# Between them samples, teachers, examples, test sets, benchmarks, learned metrics and groups.
@pytest.mark.parametrize("name", ["unifyvocab-mini", "salt-mini"])
def test_all_jobs_of_a_study_are_those_that_snakemake_counts(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkout = copy_project(tmp_path / "project")
    monkeypatch.chdir(checkout.folder)
    shutil.copy(f"config/studies/{name}.yaml", "study.yaml")
    counted = checkout.snakemake("--dry-run", "--quiet", "rules")
    table = re.findall(r"^(\w+) +(\d+)$", counted.stdout + counted.stderr, re.MULTILINE)
    expected = {rule: int(count) for rule, count in table}
    jobs = jobs_of("study.yaml")
    assert len(jobs) == expected.pop("total") - expected.pop("all")
    assert Counter(job.rule for job in jobs.values()) == expected
    assert all(job.description["rule"] for job in jobs.values())


def test_quotes_and_other_scripts_in_a_description_stay(nothing_run, config, tmp_path):
    title = 'Tokens of "తెలుగు" that don\'t split $HOME'
    (report,) = [
        job
        for job in plan(config | {"title": title}, tmp_path).values()
        if job.rule == "build_report"
    ]
    assert report.description["settings"]["study"]["title"] == title


def test_a_study_that_cannot_be_planned_is_one_error(config, tmp_path):
    with pytest.raises(UserError, match=r"study.yaml: Snakemake cannot plan it.*seed"):
        plan(config | {"seed": "no"}, tmp_path)


# ---- states -------------------------------------------------------------------------------------


def test_without_results_all_jobs_are_queued(nothing_run, tmp_path):
    study, jobs = nothing_run
    assert set(names(jobs).values()) == {"queued"}
    assert "0 of 4 cells finished" in status_text(study, jobs, DEVICE)
    assert not (tmp_path / "results").exists()


def test_a_finished_study_is_done(finished):
    study, jobs = finished
    assert set(names(jobs).values()) == {"done"}
    text = status_text(study, jobs, DEVICE)
    assert "4 of 4 cells finished" in text and "Nothing to do." in text
    assert "Nothing to do: all" in plan_text(study, "mine.yaml", jobs, DEVICE)
    assert "are done and up to date" in explain_study(study, jobs)


def test_another_setting_makes_a_job_stale_and_all_that_read_its_output(finished):
    study, jobs = finished
    jobs = with_settings(jobs, FITTED, options={"covariance_scale": 0.5})
    stale = {card for card, name in names(jobs).items() if name == "stale"}
    assert stale >= {FITTED, CELL}
    assert all("/multivariate/" in card or "/report/" in card for card in stale)
    assert "3 of 4 cells finished" in status_text(study, jobs, DEVICE)


def test_an_output_with_other_content_makes_those_that_read_it_stale(finished):
    _, jobs = finished
    card = json.loads(Path(FITTED).read_text())
    Path(FITTED).write_text(json.dumps(card | {"statistic": 2}))
    stale = {card for card, name in names(jobs).items() if name == "stale"}
    assert CELL in stale and FITTED not in stale
    assert not any("/greek/" in card for card in stale)


def test_a_changed_text_makes_its_language_stale_and_a_new_date_nothing(finished, config, tmp_path):
    study, _ = finished
    os.utime("telugu.txt")
    assert set(names(plan(config, tmp_path)).values()) == {"done"}
    with Path("telugu.txt").open("a") as file:
        file.write("ఇంకొక వాక్యం.\n")
    jobs = plan(config, tmp_path)
    state = names(jobs)
    assert state["results/corpus/telugu/card.json"] == "stale"
    assert state["results/corpus/greek/card.json"] == "done"
    text = explain_job(study, jobs, CELL)
    assert "stale: reads telugu.txt, whose content has changed" in text
    assert "reads corpus/telugu, which is stale" in text
    assert "greek" not in explain_study(study, jobs)


def test_a_job_that_holds_its_folder_is_running_and_shows_its_progress(finished):
    study, jobs = finished
    lose(jobs[CELL])
    log = Path(jobs[CELL].folder, "checkpoints", "0" * 32, "log.jsonl")
    line = {"event": "step", "phase": 0, "step": 30, "steps": 120, "loss": 2.5, "seconds": 2.0}
    line |= {"tokens_per_second": 512.0, "share_of_peak": None, "peak_memory_bytes": 1 << 30}
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps(line) + "\n")
    with Path(jobs[CELL].folder, ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert names(jobs)[CELL] == "running"
        text = status_text(study, jobs, DEVICE)
        assert "step 30 of 120 (25%), loss 2.500" in text
        os.utime(log, (1, 1))  # of an attempt before the running one
        assert "step 30" not in status_text(study, jobs, DEVICE)
    assert names(jobs)[CELL] == "queued"  # its last attempt ended well


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("12:00:00 step 3\nerror: the loss is not finite\n", "the loss is not finite"),
        ("Traceback (most recent call last):\nValueError: no\n", "ValueError: no"),
        ("12:00:00 step 3\n", "it stopped without a message"),
    ],
)
def test_a_job_that_ended_without_its_output_has_failed(finished, log, reason):
    study, jobs = finished
    lose(jobs[CELL])
    finish(jobs[CELL], ended="failed")
    write_log(jobs[CELL], log)
    assert names(jobs)[CELL] == "failed"
    assert reason in status_text(study, jobs, DEVICE)
    assert f"failed: failed: {reason}" in explain_job(study, jobs, CELL)
    # With other settings, it has not been tried.
    assert names(with_settings(jobs, CELL, learning_rate=1e-3))[CELL] == "queued"


@pytest.mark.fault(
    "machine",
    "a process is killed because memory runs out",
    "the record of the metric says so; the status of the study names the job",
)
def test_a_job_that_was_killed_has_failed(finished):
    study, jobs = finished
    lose(jobs[CELL])
    Path(jobs[CELL].folder, "job.json").touch()  # started again, and nothing recorded since
    os.utime(Path(jobs[CELL].folder, "usage.jsonl"), (1, 1))
    assert names(jobs)[CELL] == "failed"
    assert "killed, out of memory or out of time" in status_text(study, jobs, DEVICE)


# ---- texts --------------------------------------------------------------------------------------


def test_the_status_adds_up_hours_and_bytes_of_this_study(finished):
    study, jobs = finished
    with Path(jobs[CELL].folder, "usage.jsonl").open("a") as file:
        file.write(json.dumps({"seconds": 3600, "ended": "failed", "gpus": 2}) + "\n")
    others = len(jobs) - 4
    expected = f"So far: 10.0 GPU-hours and {8 + 1 + others:.1f} job-hours, 0.0 GB."
    assert expected in status_text(study, jobs, DEVICE)
    other = Path("results/training/other/telugu/source/none/none/seed-0")
    other.mkdir(parents=True)
    (other / "changed.safetensors").write_bytes(bytes(10**8))
    assert expected in status_text(study, jobs, DEVICE)
    (Path(jobs[CELL].folder) / "changed.safetensors").write_bytes(bytes(10**8))
    assert "job-hours, 0.1 GB." in status_text(study, jobs, DEVICE)


def test_a_plan_counts_the_jobs_of_each_rule(finished):
    study, jobs = finished
    lose(jobs[CELL])
    lines = plan_text(study, "mine.yaml", jobs, DEVICE).splitlines()
    assert lines[0].startswith("miniature: 4 cells of 1 source model, 2 languages, 2 vocabularies")
    assert any(re.match(r"train +1 +4 +≤ ", line) for line in lines)
    assert lines[-1] == "To run it: lexigraft run mine.yaml"


def test_a_plan_names_missing_files_and_downloads(nothing_run):
    study, jobs = nothing_run
    Path("greek.txt").unlink()
    text = plan_text(study, "mine.yaml", jobs, DEVICE)
    assert "Missing, and needed before the first job:" in text and "greek.txt" in text


def test_an_explanation_has_the_steps_of_a_cell_and_what_has_changed(finished):
    study, jobs = finished
    jobs = with_settings(jobs, FITTED, options={"covariance_scale": 0.5})
    lines = explain_job(study, jobs, CELL).splitlines()
    assert lines[0] == (
        "training/tiny/telugu/expand-50/multivariate/short/seed-0: "
        "Training telugu expand-50 multivariate short seed 0"
    )
    steps = [line.split(":")[0].split(". ")[1] for line in lines if re.match(r"\d+\. ", line)]
    order = ("source/tiny", "vocabulary/", "initialization/", "training/")
    found = [next(n for n, step in enumerate(steps) if step.startswith(name)) for name in order]
    assert found == sorted(found) and found[-1] == len(steps) - 1
    assert not any("evaluation" in step for step in steps)
    assert any(
        line.strip().startswith("stale: settings.options") and "0.5" in line for line in lines
    )
    text = explain_study(study, jobs)
    assert "initialize (1 of 3): settings.options" in text
    assert "reads initialization/tiny/telugu/expand-50/multivariate/seed-0, which is stale" in text


def test_results_of_the_version_before_are_explained(finished):
    study, jobs = finished
    record = Path(CELL).with_name(".completed.json")
    content = json.loads(record.read_text())
    del content["card"]["job"]["versions"]
    content["card"]["job"]["code"] = "0" * 16
    record.write_text(json.dumps(content | {"fingerprint": "of 0.2"}))
    assert "was computed by lexigraft 0.2" in explain_study(study, jobs)


# ---- before a run -------------------------------------------------------------------------------


def test_an_unchanged_study_replaces_nothing_whatever_snakemake_plans(finished):
    study, jobs = finished
    assert replacement_notice(study, jobs) == replacement_notice(study, {}) == ""


def test_another_option_of_an_initializer_replaces_its_cells(finished, monkeypatch):
    study, jobs = finished
    jobs = with_settings(jobs, FITTED, options={"covariance_scale": 0.5})
    assert Counter(jobs[card].rule for card in replaced_jobs(jobs)) == {
        "initialize": 1, "train": 1, "evaluate": 1, "measure_speed": 1,
    }  # fmt: skip
    first, second = replacement_notice(study, jobs).splitlines()
    assert "replaces up to 4 finished jobs, which took 2.0 GPU-hours and 5.0 job-hours" in first
    assert "are moved to results/replaced" in second and "multivariate/short/seed-0" in second
    monkeypatch.setenv("LEXIGRAFT_KEEP_REPLACED", "0")
    assert "are not kept" in replacement_notice(study, jobs)
    # What the run does not include is not replaced by it.
    other = {card: job for card, job in jobs.items() if "/align/" in card}
    assert replacement_notice(study, other) == ""


def test_failed_attempts_count_and_those_of_an_earlier_cell_do_not(finished):
    study, jobs = finished
    lines = [("done", 7200), ("failed", 1800), ("done", 3600)]
    text = "".join(
        json.dumps({"ended": ended, "seconds": seconds, "gpus": 2}) + "\n"
        for ended, seconds in lines
    )
    Path(jobs[CELL].folder, "usage.jsonl").write_text(text)
    jobs = with_settings(jobs, CELL, learning_rate=1e-3)
    notice = replacement_notice(study, {CELL: jobs[CELL]})
    assert "took 3.0 GPU-hours and 1.5 job-hours" in notice


def test_a_new_task_replaces_nothing_and_an_edited_one_the_evaluation(finished):
    _, jobs = finished
    (card,) = [card for card in jobs if card.startswith(f"{EVALUATED}/card")]
    description = jobs[card].description
    task = description["tasks"]["perplexity"]
    read = description["inputs"]["read"]
    more = {"tasks": description["tasks"] | {"more": task}}
    more["inputs"] = description["inputs"] | {"read": read | {"more": read["perplexity"]}}
    jobs[card] = replace(jobs[card], description=description | more)
    assert names(jobs)[card] == "stale" and replaced_jobs(jobs) == {}
    edited = task | {"settings": task["settings"] | {"heldout_sentences": 3}}
    tasks = {"tasks": description["tasks"] | {"perplexity": edited}}
    jobs[card] = replace(jobs[card], description=description | tasks)
    assert list(replaced_jobs(jobs)) == [card]


def test_a_replaced_cell_is_moved_with_links_to_what_it_was_made_from(finished, tmp_path):
    _, jobs = finished
    assert move_replaced(jobs[CELL].description) is None  # the same cell, damaged for example
    folder = Path(CELL).parent
    Path(CELL).unlink()  # as Snakemake does
    (folder / "changed.safetensors").write_text("weights")
    # Made again: the initializer with other content.
    Path(FITTED).write_text('{"statistic": 2}')
    description = with_settings(jobs, CELL, learning_rate=1e-3)[CELL].description
    moved = move_replaced(description)
    assert moved is not None
    assert (moved / "changed.safetensors").read_text() == "weights"
    assert json.loads((moved / "card.json").read_text())["job"]["rule"] == "train"
    assert [path.name for path in folder.iterdir()] == ["usage.jsonl"]
    top = Path(*moved.parts[:3])
    vocabulary = "vocabulary/tiny/telugu/expand-50"
    assert (top / vocabulary).samefile(f"results/{vocabulary}")
    assert not (top / Path(FITTED).parent.relative_to("results")).exists()
    assert move_replaced(description) is None  # interrupted, it starts again


def test_a_process_is_visible_while_it_works_on_a_study(nothing_run):
    study, jobs = nothing_run
    assert not is_at_work(study)
    code = (
        "import sys, types; from workflow.state import hold\n"
        "hold(types.SimpleNamespace(results='results', name='miniature'))\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout.readline() == b"held\n"
    assert "Snakemake is running this study" in status_text(study, jobs, DEVICE)
    holder.kill()
    holder.wait()
    assert not is_at_work(study)


@pytest.mark.bad_input(
    "config",
    "a results folder that cannot be written",
    "an error message before the first job; existing results are unchanged",
)
def test_a_results_folder_that_cannot_be_written_is_refused(nothing_run):
    study, _ = nothing_run
    Path("results").write_text("a file")
    with pytest.raises(UserError, match="results: results cannot be written there"):
        check_writable(study.results)


# ---- commands -----------------------------------------------------------------------------------


def command(checkout: Checkout, name: str, *arguments: str) -> str:
    done = run_command(
        [checkout.python, "-m", "lexigraft", name, "study.yaml", *arguments],
        cwd=checkout.folder,
        env=checkout.environment(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_describe_a_study_before_its_first_run(checkout):
    (checkout.folder / "results").mkdir()  # as a run makes it
    status = command(checkout, "status")
    assert "miniature: 0 of 4 cells finished" in status
    assert re.search(r"^train +· +· +4 +· +· +4$", status, re.MULTILINE)
    assert re.search(r"^train +4 +≤ 4.0 +≤ 4.0 +\?$", command(checkout, "cost"), re.MULTILINE)
    assert re.search(r"^train +4 +4 +≤ ", command(checkout, "plan"), re.MULTILINE)
    assert "train (4 of 4): has not run yet" in command(checkout, "explain")
    assert "training/tiny/greek" in command(checkout, "explain", "greek/expand-50").splitlines()[0]
    assert list((checkout.folder / "results").iterdir()) == []


def test_a_run_says_what_it_replaces_and_keeps_the_cell(checkout):
    """Computed for real: the baseline, which is only scored."""
    scored = {"base": "none", "curve": {"sentences": 4}}
    checkout.change(lambda config: config["strategies"].update(scored=scored))
    checkout.change(lambda config: config["cells"][0].update(strategies=["scored"]))
    cell = "training/tiny/telugu/source/none/scored/seed-0"
    target = f"results/{cell}/card.json"
    first = checkout.snakemake(target)
    assert first.returncode == 0, first.stderr
    assert "replaces up to" not in first.stderr
    usage = checkout.folder / "results" / cell / "usage.jsonl"
    again = checkout.snakemake(target, "--forcerun", "train")
    assert again.returncode == 0 and "replaces up to" not in again.stderr
    assert len(usage.read_text().splitlines()) == 1
    checkout.change(lambda config: config["strategies"]["scored"].update(curve={"sentences": 6}))
    edited = checkout.snakemake(target)
    assert edited.returncode == 0, edited.stderr
    assert "replaces up to 1 finished jobs, which took 0.0 GPU-hours" in edited.stderr
    (moved,) = (checkout.folder / "results/replaced").glob(f"*/{cell}")
    curves = [
        json.loads((folder / "card.json").read_text())["job"]["settings"]["curve"]["sentences"]
        for folder in (moved, usage.parent)
    ]
    assert curves == [4, 6]
    assert len(usage.read_text().splitlines()) == 2


def test_the_reasons_of_failed_jobs_are_told_once_each(tmp_path):
    reasons = {"a.log": "error: too long", "b.log": "error: too long", "c.log": ""}
    for name, text in reasons.items():
        (tmp_path / name).write_text(text)
    output = "".join(
        f"Error in rule train:\n    jobid: 3\n"
        f"    log: {tmp_path / name}, slurm/13.log (check log file(s))\n"
        f"    shell:\n        python train.py\n"
        for name in [*reasons, "a.log"]  # a second attempt
    )
    twice, killed = failures(output)
    assert twice == f"too long (2 jobs, see {tmp_path / 'a.log'})"
    assert killed.startswith("it stopped without a message")
    assert killed.endswith(f"(see {tmp_path / 'c.log'})")
