"""How far a study is, by what lies on disk; each state brought about by hand."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest

from lexigraft.artifacts.atomic import write_json
from lexigraft.artifacts.cards import INPUTS, relative_paths
from lexigraft.artifacts.completion import begin, complete, output_checksums
from lexigraft.yaml_files import read_yaml
from tests.workflow.conftest import copy_project
from workflow.config.registries import load_registries, resolve
from workflow.stages import Study
from workflow.status.cost import costs
from workflow.status.cost import planned as to_run
from workflow.status.estimates import Finished
from workflow.status.results_folder import at_work, hold
from workflow.status.states import states
from workflow.status.summary import as_text, page, status

TRAINED = "training/tiny/telugu/expand-50/align/short/seed-0"
FITTED = "initialization/tiny/telugu/expand-50/align/all-seeds"
TESTED = "evaluation/tiny/telugu/expand-50/align/short/seed-0"


def opened(config, results, registries=None) -> Study:
    config = config | {"results": str(results)}
    return Study(resolve(config, registries or load_registries()))


def finish(study, job, at, seconds=60.0, ended="done", gpus=0):
    """Leave what a job leaves, at a time in seconds."""
    folder = Path(job.output)
    folder.mkdir(parents=True, exist_ok=True)
    described = study.described(job.rule, job.output.wildcards)
    write_json(folder / "job.json", described)
    line = {"seconds": seconds, "ended": ended, "gpus": gpus}
    (folder / "usage.jsonl").write_text(json.dumps(line) + "\n")
    for file in (folder / "job.json", folder / "usage.jsonl"):
        os.utime(file, (at, at))
    if ended == "done":
        read = relative_paths(output_checksums(described["inputs"]), Path(job.output.card).parent)
        write_json(job.output.card, {"job": described, INPUTS: read})
        complete(described, begin(described))
        os.utime(job.output.card, (at, at))


START = 1_700_000_000


@pytest.fixture
def config(miniature, tmp_path):
    """The miniature with texts of its own, from before the study began."""
    languages = {}
    for name, language in miniature["languages"].items():
        own = shutil.copy(language["text"]["paths"][0], tmp_path)
        os.utime(own, (START - 1, START - 1))
        pairs = shutil.copy(language["parallel"]["path"], tmp_path)
        os.utime(pairs, (START - 1, START - 1))
        texts = {"loader": "text", "paths": [str(own)]}
        parallel = {"loader": "tsv", "path": str(pairs)}
        languages[name] = language | {"text": texts, "parallel": parallel}
    return miniature | {"languages": languages}


@pytest.fixture
def finished(config, tmp_path):
    """A study all of whose jobs are done, a second after one another."""
    study = opened(config, tmp_path / "results")
    for number, job in enumerate(study.jobs().values()):
        finish(study, job, at=START + number)
    return study


def found(study) -> dict[str, str]:
    """Folder below the results -> state."""
    jobs = study.jobs()
    return {
        jobs[card].output.removeprefix(f"{study.results}/"): state.name
        for card, state in states(study, jobs).items()
    }


# Prints card -> log of each job of Snakemake's own plan; a report has pages beside its card.
PLAN = """
import json
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings

with SnakemakeApi(OutputSettings(quiet={Quietness.ALL}, dryrun=True)) as api:
    flow = api.workflow(
        resource_settings=ResourceSettings(cores=1),
        config_settings=ConfigSettings(configfiles=[Path("study.yaml")]),
    )
    flow.dag()
    flow._workflow._prepare_dag(forceall=True, ignore_incomplete=True, lock_warn_only=True)
    flow._workflow._build_dag()
    jobs = [job for job in flow._workflow.dag.jobs if job.rule.name != "all"]
    cards = [[file for file in job.output if Path(file).stem.startswith("card")] for job in jobs]
    print(json.dumps({card: job.log[0] for job, (card,) in zip(jobs, cards)}))
"""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def job_of(study, folder):
    """The job that writes a folder below the results."""
    place = f"{study.results}/{folder}"
    (job,) = [job for job in study.jobs().values() if job.output == place]
    return job


def lost(study, folder):
    """Take away the file that is written last."""
    Path(job_of(study, folder).output.card).unlink()


def test_jobs_and_logs_are_those_of_snakemakes_plan(checkout, monkeypatch):
    def change(config):
        config["run_tasks"] = {
            "perplexity": {"checkpoints": True},
            "translation-short": {"runs": 2},
            "speed-short": {},
        }
        config["run_tasks"]["translation-short"]["learned_metrics"] = ["comet-22"]
        config["strategies"]["short"]["checkpoints"] = 2
        for block in config["cells"][1:]:
            block["initializers"] = ["focus"]
        config["report"]["items"] = ["results", "alignment"]

    checkout.change(change)
    (checkout.folder / "plan.py").write_text(PLAN)
    command = [checkout.python, "plan.py"]
    plan = run(command, cwd=checkout.folder, env=checkout.environment())
    assert plan.returncode == 0, plan.stderr
    logs = json.loads(plan.stdout)
    monkeypatch.chdir(checkout.folder)
    study = Study(resolve(checkout.config, load_registries()))
    jobs = study.jobs()
    assert {card: job.log for card, job in jobs.items()} == logs
    assert all(Path(card).parent == Path(job.output) for card, job in jobs.items())
    order = {card: number for number, card in enumerate(jobs)}
    for card, job in jobs.items():
        assert all(order[need] < order[card] for need in job.needs)


@pytest.fixture(scope="module")
def nothing_run(tmp_path_factory):
    """A copy of the project in which studies are planned."""
    return copy_project(tmp_path_factory.mktemp("planned") / "project")


# Between them samples, teachers, examples, test sets, benchmarks, learned metrics and groups.
@pytest.mark.parametrize(
    "name", ["config", "studies/unifyvocab", "studies/vocadt", "studies/cw2v", "studies/salt"]
)
def test_every_job_of_a_study_is_shown(nothing_run, monkeypatch, name):
    """As many jobs of each rule as Snakemake plans before any data is there."""
    checkout = nothing_run
    command = [checkout.python, "-m", "snakemake", "--configfile", f"config/{name}.yaml"]
    options = ["--cores", "2", "--dry-run", "--quiet", "rules"]
    plan = run([*command, *options], cwd=checkout.folder, env=checkout.environment())
    output = plan.stdout + plan.stderr
    assert plan.returncode == 0, output[-2000:]
    # Snakemake also tries rules that are not meant for a file, and reports each that fails.
    assert "Exception" not in output
    table = re.findall(r"^(\w+) +(\d+)$", output, re.MULTILINE)
    planned = {rule: int(count) for rule, count in table}
    monkeypatch.chdir(checkout.folder)
    config = read_yaml(checkout.folder / f"config/{name}.yaml")
    study = Study(resolve(config, load_registries()))
    counts = Counter(job.rule for job in study.jobs().values())
    assert counts == {rule: n for rule, n in planned.items() if rule not in ("all", "total")}
    assert counts.total() == planned["total"] - 1
    shown = status(study)
    assert sum(count.total() for count in shown.counts.values()) == counts.total()
    by_rule = costs(study, to_run(study), Finished())
    assert {rule: cost.jobs for rule, cost in by_rule.items()} == counts


def test_a_finished_study_is_done(finished):
    assert set(found(finished).values()) == {"done"}
    shown = status(finished)
    assert (shown.finished_cells, shown.cells, shown.unknown) == (4, 4, 0)
    assert "Nothing to do." in as_text(shown)


def test_an_empty_results_folder_is_all_queued(miniature, tmp_path):
    study = opened(miniature, tmp_path / "results")
    assert set(found(study).values()) == {"queued"}
    shown = status(study)
    assert shown.finished_cells == 0
    assert shown.unknown == len(study.jobs())
    assert not (tmp_path / "results").exists()


def test_a_setting_makes_its_cells_stale_and_all_that_reads_them(finished, config, tmp_path):
    registries = load_registries()
    registries["initializers"]["multivariate"]["options"] = {"covariance_scale": 0.5}
    study = opened(config, tmp_path / "results", registries)
    stale = {folder for folder, name in found(study).items() if name == "stale"}
    assert stale
    assert all("/multivariate/" in folder or folder.startswith("report/") for folder in stale)
    assert "initialization/tiny/telugu/expand-50/multivariate/seed-0" in stale
    assert "training/tiny/telugu/expand-50/multivariate/short/seed-0" in stale
    assert status(study).finished_cells == 3


def test_what_was_made_before_what_it_reads_is_stale(finished):
    job = job_of(finished, FITTED)
    os.utime(job.output.card, (1_800_000_000, 1_800_000_000))
    stale = {folder for folder, name in found(finished).items() if name == "stale"}
    assert {TRAINED, TESTED} <= stale
    assert FITTED not in stale
    assert not any("greek" in folder for folder in stale)


def test_a_text_that_changed_makes_its_language_stale(finished):
    (text,) = finished.config["languages"]["greek"]["text"]["paths"]
    with Path(text).open("a") as file:
        file.write("Μια πρόταση ακόμη.\n")
    names = found(finished)
    assert names["corpus/greek"] == "stale"
    assert names["corpus/telugu"] == "done"


def test_a_text_that_was_copied_anew_makes_nothing_stale(finished):
    (text,) = finished.config["languages"]["greek"]["text"]["paths"]
    os.utime(text)
    assert set(found(finished).values()) == {"done"}


def test_a_job_that_holds_its_folder_is_running(finished):
    lost(finished, TESTED)
    with (Path(finished.results) / TESTED / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert found(finished)[TESTED] == "running"
        shown = status(finished)
        assert [name for name, *_ in shown.running] == [TESTED]
        assert f"  {TESTED}, " in as_text(shown)
    assert found(finished)[TESTED] == "queued"  # its last attempt ended well


def test_of_a_training_that_runs_its_progress_is_shown(finished):
    lost(finished, TRAINED)
    log = Path(finished.results, TRAINED, "checkpoints", "0" * 32, "log.jsonl")
    line = {"event": "step", "phase": 0, "step": 30, "steps": 120, "loss": 2.5, "seconds": 2.0}
    line |= {"tokens_per_second": 512.0, "share_of_peak": None, "peak_memory_bytes": 1 << 30}
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps(line) + "\n")
    with Path(finished.results, TRAINED, ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shown = status(finished)
        expected = (
            "step 30 of 120 (25%), loss 2.500, 512 tokens/s, peak memory 1.0 GiB, 0:03:00 left"
        )
        assert f"  {TRAINED}, " in as_text(shown)
        assert f" minutes\n    {expected}\n" in as_text(shown) + "\n"
        assert f" min; {expected}</dd>" in page(shown, datetime(2026, 1, 2))
        os.utime(log, (START - 1, START - 1))  # of an attempt before the one that runs
        assert status(finished).running[0][2] == ""


def test_a_job_that_ended_without_its_output_failed_and_says_why(finished):
    job = job_of(finished, TRAINED)
    lost(finished, TRAINED)
    finish(finished, job, at=time.time(), ended="failed")
    Path(job.log).parent.mkdir(parents=True)
    Path(job.log).write_text("12:00:00 lexigraft: step 3\nerror: the loss is not finite\n")
    assert found(finished)[TRAINED] == "failed"
    shown = status(finished)
    assert shown.failed == [(TRAINED, "the loss is not finite", job.log)]
    assert f"{TRAINED}: the loss is not finite" in as_text(shown)
    assert shown.finished_cells == 3


@pytest.mark.parametrize("before", ["nothing", "a finished run"])
def test_a_job_that_was_refused_before_it_began_failed(config, finished, tmp_path, before):
    """Its inputs are damaged, say: it notes nothing but its log."""
    study = finished if before == "a finished run" else opened(config, tmp_path / "others")
    job = job_of(study, TRAINED)
    Path(job.output.card).unlink(missing_ok=True)
    Path(job.log).parent.mkdir(parents=True)
    Path(job.log).write_text("error: card.json: damaged\n")
    assert found(study)[TRAINED] == "failed"
    assert status(study).failed[0][1] == "card.json: damaged"


@pytest.mark.fault(
    "machine",
    "a process is killed because memory runs out",
    "the record of the metric says so; the status of the study names the job",
)
def test_a_job_that_was_killed_failed_without_a_word(finished):
    job = job_of(finished, TRAINED)
    lost(finished, TRAINED)
    os.utime(f"{job.output}/job.json")  # begun again, and nothing noted since
    Path(job.log).parent.mkdir(parents=True)
    Path(job.log).write_text("12:00:00 lexigraft: step 3\n")
    assert found(finished)[TRAINED] == "failed"
    assert "killed, out of memory or out of time" in status(finished).failed[0][1]


def test_a_job_that_failed_with_other_settings_is_still_to_be_tried(finished, config, tmp_path):
    lost(finished, TRAINED)
    finish(finished, job_of(finished, TRAINED), at=time.time(), ended="failed")
    strategies = {"short": config["strategies"]["short"] | {"learning_rate": 1e-3}}
    study = opened(config | {"strategies": strategies}, tmp_path / "results")
    assert found(study)[TRAINED] == "queued"


def test_hours_used_count_every_attempt_and_hours_to_go_come_from_finished_ones(finished):
    for job in finished.jobs().values():
        if job.package == "training":
            seconds, gpus = (7200.0, 2) if job.output.endswith(TRAINED) else (3600.0, 1)
            finish(finished, job, at=START + 500, seconds=seconds, gpus=gpus)
        elif job.package in ("evaluation", "report"):
            finish(finished, job, at=START + 1000)
    job = job_of(finished, TRAINED)
    with (Path(job.output) / "usage.jsonl").open("a") as file:
        file.write(json.dumps({"seconds": 3600, "ended": "failed", "gpus": 2}) + "\n")
    lost(finished, TRAINED)
    shown = status(finished)
    # Three cells at an hour on one GPU; one at two hours on two, and an hour lost on two.
    assert shown.gpu_hours == pytest.approx(3 + 4 + 2)
    others = (len(finished.jobs()) - 4) * 60 / 3600
    assert shown.job_hours == pytest.approx(3 + 3 + others)
    # To do: the cell, as the other one of its language; its evaluation and its measurement of
    # speed, a minute each; and the report, of which there is no other.
    assert shown.left_hours == pytest.approx(1 + 2 * 60 / 3600)
    assert shown.unknown == 1


def test_the_disk_of_other_studies_does_not_count(finished):
    other = Path(finished.results) / "training/other/telugu/source/none/none/seed-0"
    other.mkdir(parents=True)
    (other / "job.json").write_text("{}")
    before = status(finished).gigabytes
    (other / "changed.safetensors").write_bytes(bytes(10_000_000))
    assert status(finished).gigabytes == before
    (Path(finished.results) / TRAINED / "changed.safetensors").write_bytes(bytes(10_000_000))
    assert status(finished).gigabytes == pytest.approx(before + 0.01)


def test_a_snakemake_is_seen_while_it_lives_and_no_longer(miniature, tmp_path):
    study = opened(miniature, tmp_path / "results")
    assert not at_work(study)
    file = Path(study.results) / "status" / "miniature.lock"
    code = (
        "import sys, types; from workflow.status.results_folder import hold\n"
        f"hold(types.SimpleNamespace(results={study.results!r}, name='miniature'))\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    assert at_work(study)
    assert "Snakemake is running this study" in as_text(status(study))
    holder.kill()
    holder.wait()
    assert not at_work(study)
    assert file.exists()


def test_nothing_is_held_where_nothing_can_be_written(miniature, tmp_path):
    (tmp_path / "results").write_text("a file")
    hold(opened(miniature, tmp_path / "results"))


def test_the_page_shows_the_same_numbers_and_escapes_what_jobs_say(finished):
    job = job_of(finished, TRAINED)
    lost(finished, TRAINED)
    finish(finished, job, at=time.time(), ended="failed")
    Path(job.log).parent.mkdir(parents=True)
    Path(job.log).write_text("error: <b>no</b>\n")
    shown = status(finished)
    text = page(shown, datetime(2026, 1, 2, 3, 4))
    row = re.search(r'<th class="stub">training</th>(.*?)<td class="bars">', text)[1]
    cells = re.findall(r"<td>(.*?)</td>", row)
    count = shown.counts["training"]
    named = ("done", "running", "queued", "failed", "stale")
    assert cells == [*(str(count[name] or "·") for name in named), str(count.total())]
    assert "&lt;b&gt;no&lt;/b&gt;" in text
    assert "<b>no" not in text
    assert "2026-01-02 03:04" in text


def test_the_command_prints_the_table_and_writes_the_page(checkout):
    (checkout.folder / "results").mkdir()  # as a run makes it first of all
    command = [checkout.python, "scripts/status.py", "study.yaml"]
    result = run(command, cwd=checkout.folder, env=checkout.environment())
    assert result.returncode == 0, result.stderr
    assert "miniature: 0 of 4 cells finished" in result.stdout
    assert re.search(r"^training +· +· +4 +· +· +4$", result.stdout, re.MULTILINE)
    assert (checkout.folder / "results/status/miniature.html").stat().st_size > 1000
