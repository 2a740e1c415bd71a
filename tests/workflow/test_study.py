"""The miniature study for real: killed in the middle, started again, complete, and then idle."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import run_command
from tests.workflow.conftest import Checkout, copy_project, errors_of
from workflow.config.registries import load_registries, resolve
from workflow.jobs import jobs_of
from workflow.records import Record, as_text, study_record

FITTED = [
    f"results/initialization/tiny/{name}/card.json"
    for name in (
        "telugu/expand-50/align/all-seeds",
        "telugu/expand-50/multivariate/seed-0",
        "greek/expand-50/align/all-seeds",
    )
]
KILL_AFTER = "results/training/tiny/telugu/expand-50/align/short/seed-0/card.json"


@pytest.fixture(scope="module")
def killed(tmp_path_factory, miniature) -> tuple[Checkout, dict[Path, int]]:
    """A run whose whole process group got SIGKILL once a cell was trained, and what was there.

    What comes before training is there already.
    """
    checkout = copy_project(tmp_path_factory.mktemp("study") / "project")
    checkout.config = miniature
    begun = checkout.snakemake("--", *FITTED)
    assert begun.returncode == 0, begun.stdout + begun.stderr
    with (checkout.folder / "first.log").open("w") as log:
        process = subprocess.Popen(
            checkout.command("--prioritize", KILL_AFTER),
            cwd=checkout.folder,
            env=checkout.environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while process.poll() is None and not (checkout.folder / KILL_AFTER).exists():
            time.sleep(0.2)
        assert process.poll() is None, (checkout.folder / "first.log").read_text()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    cards = (checkout.folder / "results").rglob("card.json")
    return checkout, {path: path.stat().st_mtime_ns for path in cards}


@pytest.fixture(scope="module")
def finished(killed) -> tuple[Checkout, dict[Path, int]]:
    """The same study, started again after the kill."""
    checkout, before = killed
    assert checkout.snakemake("--unlock").returncode == 0
    result = checkout.snakemake()
    assert result.returncode == 0, result.stdout + result.stderr
    return checkout, before


@pytest.mark.fault(
    "kill",
    "a running study, including Snakemake and all jobs, is killed with SIGKILL",
    "the next run resumes; finished work is not recomputed",
)
def test_what_was_finished_before_the_kill_is_not_done_again(finished):
    checkout, before = finished
    # Trained right before the kill, a cell may lack Snakemake's own note that it is complete.
    kept = {path for path, time in before.items() if path.stat().st_mtime_ns == time}
    assert checkout.folder / "results/source/tiny/card.json" in kept
    assert len(before) - len(kept) <= 2


def test_a_finished_study_plans_nothing(finished):
    assert finished[0].planned() == set()


# Prints the folder of each job of the study -> its state.
STATES = """
import json
from workflow.jobs import jobs_of
from workflow.state import states

jobs = jobs_of("study.yaml")
print(json.dumps({jobs[card].folder: state.name for card, state in states(jobs).items()}))
"""


def test_every_job_of_a_finished_study_is_done_in_its_status(finished):
    checkout, _ = finished
    command = [sys.executable, "-c", STATES]
    shown = subprocess.check_output(command, cwd=checkout.folder, env=checkout.environment())
    states = json.loads(shown)
    assert "results/report/miniature" in states
    assert {folder: name for folder, name in states.items() if name != "done"} == {}


def test_every_record_holds_finite_numbers_and_where_they_come_from(finished):
    records = list((finished[0].folder / "results/evaluation").rglob("run-0/record.json"))
    assert len(records) == 4 * 3
    for path in records:
        record = json.loads(path.read_text())
        assert record["metrics"]
        assert all(value == value for value in record["metrics"].values())
        assert {"cell", "task", "seed", "settings", "versions"} <= set(record)


def test_every_file_that_a_stage_leaves_has_its_checksum_in_a_card(finished):
    results = finished[0].folder / "results"
    cards = [*results.rglob("card.json"), *results.rglob("card-miniature.json")]
    listed = {
        (path.parent / name).resolve()
        for path in cards
        for name in json.loads(path.read_text())["files"]
    }
    # What jobs leave beside their outputs, and what is made from the results as they are.
    own = re.compile(r"card(-miniature)?\.json|job\.json|usage\.jsonl|\.lock|\.completed.*\.json")
    stages = [folder for folder in results.iterdir() if folder.name not in ("logs", "status")]
    left = {path for stage in stages for path in stage.rglob("*") if path.is_file()}
    left = {path for path in left if not own.fullmatch(path.name) and ".tokens" not in path.parts}
    assert {path.resolve() for path in left} == listed
    assert {path.relative_to(results).parts[0] for path in listed} == {
        "source", "corpus", "vocabulary", "initialization", "training", "evaluation", "report",
    }  # fmt: skip
    for path in cards:
        assert json.loads(path.read_text())["versions"]["torch"]


def verified(checkout: Checkout) -> subprocess.CompletedProcess[str]:
    command = [checkout.python, "scripts/verify.py", "results"]
    return run_command(command, cwd=checkout.folder, env=checkout.environment())


@pytest.mark.fault(
    "damage",
    "a bit of a trained cell flips in a finished study",
    "`verify` names the file, its evaluation stops, and nothing else is recomputed",
)
def test_a_damaged_file_is_found_stops_who_reads_it_and_costs_what_was_lost(finished):
    checkout, _ = finished
    assert verified(checkout).returncode == 0, verified(checkout).stdout
    cell = "tiny/telugu/expand-50/align/short/seed-0"
    file = checkout.folder / "results/training" / cell / "changed.safetensors"
    record = checkout.folder / "results/evaluation" / cell / "perplexity/run-0/record.json"
    whole, measured = file.read_bytes(), record.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    found = verified(checkout)
    assert found.returncode == 1
    assert re.findall(r"^(.*): damaged, ", found.stdout, re.MULTILINE) == [
        f"results/training/{cell}/changed.safetensors"
    ]
    # So that a job reads the cell.
    record.unlink()
    target = f"results/evaluation/{cell}/card-miniature.json"
    (checkout.folder / target).unlink()
    stopped = checkout.snakemake("--", target)
    assert stopped.returncode != 0
    lines = errors_of(stopped.stdout + stopped.stderr)
    assert len(lines) == 1
    assert lines.pop().startswith(f"results/training/{cell}/changed.safetensors: damaged, ")
    file.write_bytes(whole)
    assert checkout.planned("--", target) == {f"Evaluating {named(cell)}"}
    assert checkout.snakemake("--", target).returncode == 0
    assert record.read_bytes() == measured


def named(cell: str) -> str:
    """A cell as messages name it."""
    _, *names, seed = cell.split("/")
    return f"{' '.join(names)} seed {seed.removeprefix('seed-')}"


def test_the_report_shows_tables_figures_and_a_page(finished):
    report = finished[0].folder / "results/report/miniature"
    page = (report / "report.html").read_text(encoding="utf-8")
    assert "Telugu" in page
    assert "Greek" in page
    for table in ("results", "speed", "perplexity", "fragmentation", "new_tokens"):
        for suffix in ("csv", "md", "tex"):
            assert (report / "tables" / f"{table}.{suffix}").stat().st_size > 0
    for figure in ("learning_curves", "loss_curves"):
        for suffix in ("pdf", "png"):
            assert (report / "figures" / f"{figure}.{suffix}").stat().st_size > 0


def test_its_numbers_are_recorded_for_the_documentation(finished, monkeypatch):
    checkout, _ = finished
    monkeypatch.chdir(checkout.folder)
    study = resolve(checkout.config, load_registries())
    content = study_record(study, jobs_of("study.yaml").values())
    path = checkout.folder / "record.json"
    path.write_text(as_text(content))
    numbers = Record(path)
    cell = {"language": "telugu", "vocabulary": "expand-50", "initializer": "align"}
    measured = list(checkout.folder.glob(
        "results/evaluation/tiny/telugu/expand-50/align/short/seed-0/perplexity*/run-0/record.json"
    ))  # fmt: skip
    metrics = json.loads(measured[0].read_text())["metrics"]
    [score] = numbers.rows("scores", metric="bits_per_byte", strategy="short", **cell)
    assert score["mean"] == pytest.approx(metrics["bits_per_byte"], rel=1e-5)
    [training] = numbers.rows("training", strategy="short", **cell)
    assert training["steps"] > 0
    curve = [row["bits_per_byte"] for row in numbers.rows("heldout", strategy="short", **cell)]
    assert curve[-1] < curve[0]
    assert numbers.run["jobs"] > len(study.cells)
    assert numbers.run["elapsed"] > 0


def test_a_step_is_repeated_by_hand_from_its_job_file(finished):
    checkout = finished[0]
    folder = checkout.folder / "results/initialization/tiny/telugu/expand-50/align/all-seeds"
    recipe = (folder / "recipe.npz").read_bytes()
    (folder / "recipe.npz").unlink()
    command = [checkout.command()[0], "scripts/initialize.py", str(folder / "job.json")]
    subprocess.run(command, cwd=checkout.folder, env=checkout.environment(), check=True)
    assert (folder / "recipe.npz").read_bytes() == recipe


def test_a_cell_is_exported_as_a_plain_folder_by_the_command_that_the_report_gives(finished):
    checkout = finished[0]
    report = checkout.folder / "results/report/miniature"
    summary = json.loads((report / "summary.json").read_text(encoding="utf-8"))
    command = summary["recommendations"][0]["export"]
    assert command.split()[1] in (report / "report.html").read_text(encoding="utf-8")
    result = run_command(
        [checkout.python, "-m", *shlex.split(command)],
        cwd=checkout.folder,
        env=checkout.environment(),
    )
    assert result.returncode == 0, result.stderr
    cell = Path(shlex.split(command)[1]).parent.relative_to("results/export")

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from lexigraft import load_cell

    folder = checkout.folder / "results/export" / cell
    exported = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model, tokenizer = load_cell(checkout.folder / "results/training" / cell, torch.float32)
    ids = AutoTokenizer.from_pretrained(folder)("తెలుగు text", return_tensors="pt").input_ids
    assert torch.equal(ids, tokenizer("తెలుగు text", return_tensors="pt").input_ids)
    with torch.inference_mode():
        assert torch.equal(exported(ids).logits, model(ids).logits)


def test_snakemakes_own_report_is_built_without_a_number_of_cores(finished):
    command = finished[0].command("--report", "results/report/miniature/workflow.html")
    at = command.index("--cores")
    result = run_command(
        command[:at] + command[at + 2 :], cwd=finished[0].folder, env=finished[0].environment()
    )
    assert result.returncode == 0, result.stderr
    page = finished[0].folder / "results/report/miniature/workflow.html"
    assert "the whole study on one page" in page.read_text(encoding="utf-8")
