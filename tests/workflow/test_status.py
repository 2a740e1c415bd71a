"""How far a study is, by what lies on disk; each state brought about by hand."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from lexigraft.atomic import write_json
from workflow.config.registries import load_registries, resolve
from workflow.stages import Study
from workflow.status.activity import at_work, hold
from workflow.status.page import page
from workflow.status.states import states
from workflow.status.summary import as_text, status

TRAINED = "training/tiny/telugu/expand-50/align/short/seed-0"
FITTED = "initialization/tiny/telugu/expand-50/align/all-seeds"
TESTED = "evaluation/tiny/telugu/expand-50/align/short/seed-0/perplexity/run-0"


def opened(config, results, registries=None) -> Study:
    config = config | {"results": str(results)}
    return Study(resolve(config, registries or load_registries(), require_files=False))


def finish(study, work, at, seconds=60.0, ended="done", gpus=0):
    """Leave what a job leaves, at a time in seconds."""
    folder = Path(work.folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "job.json", study.described(work.rule, work.wildcards))
    line = {"seconds": seconds, "ended": ended, "gpus": gpus}
    (folder / "usage.jsonl").write_text(json.dumps(line) + "\n")
    for file in (folder / "job.json", folder / "usage.jsonl"):
        os.utime(file, (at, at))
    if ended == "done":
        Path(work.whole).write_text("{}")
        os.utime(work.whole, (at, at))


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
    """A study all of whose works are done, a second after one another."""
    study = opened(config, tmp_path / "results")
    for number, work in enumerate(works(study).values()):
        finish(study, work, at=START + number)
    return study


def found(study) -> dict[str, str]:
    """Folder below the results -> state."""
    by_folder = states(study, works(study))
    return {
        folder.removeprefix(f"{study.results}/"): state.name for folder, state in by_folder.items()
    }


# Prints output -> log of each job of Snakemake's own plan.
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
    jobs = [job for job in flow._workflow.dag.jobs if job.log]
    print(json.dumps({output: job.log[0] for job in jobs for output in job.output}))
"""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def work_of(study, folder):
    return works(study)[f"{study.results}/{folder}"]


def lost(study, folder):
    """Take away the file that is written last."""
    Path(work_of(study, folder).whole).unlink()


def test_works_files_and_logs_are_those_of_snakemakes_rules(checkout, monkeypatch):
    def change(config):
        config["run_tasks"] = {
            "perplexity": {"checkpoints": True},
            "translation-short": {"runs": 2},
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
    planned = works(study)
    assert {work.whole for work in planned.values()} <= logs.keys()
    assert {work.whole: work.log for work in planned.values()}.items() <= logs.items()
    # And no job of a stage is left out: each output lies in a folder of a work.
    folders = tuple(planned)
    stages = {"source", "corpus", "vocabulary", "auxiliary", "initialization", "training"}
    for output in logs:
        if output.split("/")[1] in stages | {"evaluation", "report"}:
            assert output.startswith(folders), output
    assert set(planned) == {work.folder for work in planned.values()}
    order = {folder: number for number, folder in enumerate(planned)}
    for folder, work in planned.items():
        assert all(order[need] < order[folder] for need in work.needs)


def test_a_finished_study_is_done(finished):
    assert set(found(finished).values()) == {"done"}
    shown = status(finished)
    assert (shown.finished_cells, shown.cells, shown.unknown) == (4, 4, 0)
    assert "Nothing is left to do." in as_text(shown)


def test_an_empty_results_folder_is_all_queued(miniature, tmp_path):
    study = opened(miniature, tmp_path / "results")
    assert set(found(study).values()) == {"queued"}
    shown = status(study)
    assert shown.finished_cells == 0
    assert shown.unknown == len(works(study))
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
    work = work_of(finished, FITTED)
    os.utime(work.whole, (1_800_000_000, 1_800_000_000))
    stale = {folder for folder, name in found(finished).items() if name == "stale"}
    assert {TRAINED, TESTED} <= stale
    assert FITTED not in stale
    assert not any("greek" in folder for folder in stale)


def test_a_text_that_changed_makes_its_language_stale(finished):
    os.utime(finished.config["languages"]["greek"]["text"]["paths"][0])
    names = found(finished)
    assert names["corpus/greek"] == "stale"
    assert names["corpus/telugu"] == "done"


def test_a_job_that_holds_its_folder_is_running(finished):
    lost(finished, TESTED)
    with (Path(finished.results) / TESTED / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert found(finished)[TESTED] == "running"
        shown = status(finished)
        assert [name for name, _ in shown.running] == [TESTED]
        assert f"  {TESTED}, " in as_text(shown)
    assert found(finished)[TESTED] == "queued"  # its last attempt ended well


def test_a_job_that_ended_without_its_output_failed_and_says_why(finished):
    work = work_of(finished, TRAINED)
    lost(finished, TRAINED)
    finish(finished, work, at=time.time(), ended="failed")
    Path(work.log).parent.mkdir(parents=True)
    Path(work.log).write_text("12:00:00 lexigraft: step 3\nerror: the loss is not finite\n")
    assert found(finished)[TRAINED] == "failed"
    shown = status(finished)
    assert shown.failed == [(TRAINED, "the loss is not finite", work.log)]
    assert f"{TRAINED}: the loss is not finite" in as_text(shown)
    assert shown.finished_cells == 3


@pytest.mark.parametrize("before", ["nothing", "a finished run"])
def test_a_job_that_was_refused_before_it_began_failed(config, finished, tmp_path, before):
    """Its inputs are damaged, say: it notes nothing but its log."""
    study = finished if before == "a finished run" else opened(config, tmp_path / "others")
    work = work_of(study, TRAINED)
    Path(work.whole).unlink(missing_ok=True)
    Path(work.log).parent.mkdir(parents=True)
    Path(work.log).write_text("error: card.json: damaged\n")
    assert found(study)[TRAINED] == "failed"
    assert status(study).failed[0][1] == "card.json: damaged"


def test_a_job_that_was_killed_failed_without_a_word(finished):
    work = work_of(finished, TRAINED)
    lost(finished, TRAINED)
    os.utime(f"{work.folder}/job.json")  # begun again, and nothing noted since
    Path(work.log).parent.mkdir(parents=True)
    Path(work.log).write_text("12:00:00 lexigraft: step 3\n")
    assert found(finished)[TRAINED] == "failed"
    assert "killed, out of memory or out of time" in status(finished).failed[0][1]


def test_a_job_that_failed_with_other_settings_is_still_to_be_tried(finished, config, tmp_path):
    lost(finished, TRAINED)
    finish(finished, work_of(finished, TRAINED), at=time.time(), ended="failed")
    strategies = {"short": config["strategies"]["short"] | {"learning_rate": 1e-3}}
    study = opened(config | {"strategies": strategies}, tmp_path / "results")
    assert found(study)[TRAINED] == "queued"


def test_hours_used_count_every_attempt_and_hours_to_go_come_from_finished_ones(finished):
    for folder, work in works(finished).items():
        if work.stage == "training":
            seconds, gpus = (7200.0, 2) if folder.endswith(TRAINED) else (3600.0, 1)
            finish(finished, work, at=START + 500, seconds=seconds, gpus=gpus)
        elif work.stage in ("evaluation", "report"):
            finish(finished, work, at=START + 1000)
    work = work_of(finished, TRAINED)
    with (Path(work.folder) / "usage.jsonl").open("a") as file:
        file.write(json.dumps({"seconds": 3600, "ended": "failed", "gpus": 2}) + "\n")
    lost(finished, TRAINED)
    shown = status(finished)
    # Three cells at an hour on one GPU; one at two hours on two, and an hour lost on two.
    assert shown.gpu_hours == pytest.approx(3 + 4 + 2)
    others = (len(works(finished)) - 4) * 60 / 3600
    assert shown.job_hours == pytest.approx(3 + 3 + others)
    # To do: the cell, as the other one of its language; its three tasks, a minute each; and the
    # report, of which there is no other.
    assert shown.left_hours == pytest.approx(1 + 3 * 60 / 3600)
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
        "import sys, types; from workflow.status.activity import hold\n"
        f"hold(types.SimpleNamespace(results={study.results!r}, name='miniature'))\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    assert at_work(study)
    assert "Snakemake is at work" in as_text(status(study))
    holder.kill()
    holder.wait()
    assert not at_work(study)
    assert file.exists()


def test_nothing_is_held_where_nothing_can_be_written(miniature, tmp_path):
    (tmp_path / "results").write_text("a file")
    hold(opened(miniature, tmp_path / "results"))


def test_the_page_shows_the_same_numbers_and_escapes_what_jobs_say(finished):
    work = work_of(finished, TRAINED)
    lost(finished, TRAINED)
    finish(finished, work, at=time.time(), ended="failed")
    Path(work.log).parent.mkdir(parents=True)
    Path(work.log).write_text("error: <b>no</b>\n")
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
    command = [checkout.python, "scripts/status.py", "study.yaml"]
    result = run(command, cwd=checkout.folder, env=checkout.environment())
    assert result.returncode == 0, result.stderr
    assert "miniature: 0 of 4 cells finished" in result.stdout
    assert re.search(r"^training +· +· +4 +· +· +4$", result.stdout, re.MULTILINE)
    assert (checkout.folder / "results/status/miniature.html").stat().st_size > 1000
