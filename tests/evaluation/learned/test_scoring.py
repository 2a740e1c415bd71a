"""The record of a learned metric, with a stand-in for the program of the other environment."""

import ast
import json
import sys
from pathlib import Path

import pytest

from lexigraft.evaluation.learned import scoring
from lexigraft.evaluation.learned.checkpoint import learned_kind, learned_kinds
from lexigraft.evaluation.learned.scoring import score_predictions, with_predictions

ROWS = [
    {"id": "b", "source": "two\u2028lines", "output": "δύο", "reference": "δύο γραμμές", "chrf": 1},
    {"id": "a", "source": "one", "output": "", "reference": "ένα", "chrf": 0},
]


def write_rows(file: Path, rows: list[dict]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    file.write_text("".join(lines), "utf-8")


@pytest.fixture
def job(tmp_path) -> dict:
    """A job on one run; `runs(job, n)` makes them several."""
    place = {"name": "./m", "revision": None, "folder": str(tmp_path / "m"), "files": {}}
    card = {"available": True, "why": None, "checkpoint": place}
    (tmp_path / "card.json").write_text(json.dumps(card))
    job = {
        "rule": "score_predictions",
        "settings": {"kind": "bleurt", "metric": "bleurt", "uses_source": False, "batch_size": 2},
        "inputs": {"metric": str(tmp_path / "card.json"), "python": sys.executable},
        "outputs": {
            "folder": str(tmp_path / "learned" / "tiny" / "te"),
            "records": str(tmp_path / "evaluation"),
        },
        "metric": "tiny",
        "cells": [["tiny/te/seed-0", {"translation": 1}]],
    }
    return runs(job, 1)


def runs(job: dict, count: int) -> dict:
    """The job on so many runs, with the texts and the record of each."""
    expanded = with_predictions({**job, "cells": [["tiny/te/seed-0", {"translation": count}]]})
    for number, file in enumerate(map(Path, expanded["inputs"]["predictions"])):
        write_rows(file, ROWS)
        record = {"task": "translation", "kind": "translation", "cell": {"seed": 0}, "run": number}
        (file.parent / "record.json").write_text(json.dumps(record))
    return expanded


def score(job: dict, run: int = 0) -> dict:
    """Score, and read the record of a run."""
    score_predictions(job)
    return scored(job, run)


def scored(job: dict, run: int = 0) -> dict:
    folder = Path(job["inputs"]["predictions"][run]).parent
    return json.loads((folder / "learned" / "tiny.json").read_text("utf-8"))


@pytest.fixture
def scorer(tmp_path, monkeypatch):
    """Put a program in the scorer's place; it sees its job as `job` and its texts as `rows`."""

    def build(body: str) -> None:
        head = (
            "import json, os, sys\nfrom pathlib import Path\n"
            "job = json.loads(sys.argv[1])\n"
            "rows = [json.loads(line) for line in sys.stdin.buffer]\n"
            "of_runs = {}\n"
            "for row in rows:\n"
            "    of_runs.setdefault(row['run'], []).append(row)\n"
            "def say(*lines):\n"
            "    for line in lines:\n"
            "        print(json.dumps(line), flush=True)\n"
            "def scores(*numbers):\n"
            "    return {'scores': numbers, 'seconds': 1}\n"
        )
        program = tmp_path / "stand_in.py"
        program.write_text(head + body)
        monkeypatch.setattr(scoring, "SCORER", program)

    return build


def test_scores_are_stored_with_their_ids_and_their_mean(job, scorer):
    scorer("say({'device': 'cpu'}, scores(*[len(row['output']) / 4 for row in rows]))")
    record = score(job)
    assert (record["ids"], record["scores"]) == (["b", "a"], [0.75, 0.0])
    assert record["metrics"] == {"bleurt": 0.375}
    assert record["learned_metric"] == "tiny"
    assert (record["task"], record["run"], record["cell"]) == ("translation", 0, {"seed": 0})
    assert "not_scored" not in record


def test_the_scorer_reaches_no_hub_and_unpickles_tensors_only(job, scorer):
    names = "('HF_HUB_OFFLINE', 'TORCH_FORCE_WEIGHTS_ONLY_LOAD')"
    scorer(f"say({{'device': [os.environ[name] for name in {names}]}}, scores(0.5, 0.5))")
    assert score(job)["device"] == ["1", "1"]


COUNTED = (
    "(Path(job['checkpoint']).parent / 'starts').open('a').write('x')\n"
    "say({'device': 'cpu'}, *[scores(*[len(row['output']) for row in own])"
    " for own in of_runs.values()])"
)


def starts(job) -> int:
    """How often the scorer was started."""
    file = Path(job["inputs"]["metric"]).with_name("starts")
    return len(file.read_text()) if file.exists() else 0


def test_only_new_and_changed_predictions_are_scored(job, scorer):
    scorer(COUNTED)
    score_predictions(runs(job, 2))
    score_predictions(runs(job, 2))  # the same texts, written again
    assert starts(job) == 1
    job = runs(job, 3)
    changed = [{**ROWS[0], "output": "άλλο"}]
    write_rows(Path(job["inputs"]["predictions"][1]), changed)
    scorer(COUNTED.replace("'cpu'", "len(of_runs)"))
    score_predictions(job)
    assert [scored(job, run)["device"] for run in range(3)] == ["cpu", 2, 2]
    assert scored(job, 1)["scores"] == [4]
    assert starts(job) == 2


@pytest.mark.fault(
    "kill",
    "the scoring process of a learned metric is killed between two runs",
    "scores of finished runs are kept; the other records give the reason and are scored next time",
)
def test_after_a_kill_the_scores_of_finished_runs_are_kept(job, scorer):
    scorer(
        "say({'device': 'cpu'}, scores(1, 2))\n"
        "first = Path(job['checkpoint']).parent / 'evaluation/tiny/te/seed-0/translation/run-0'\n"
        "import time\n"
        "while not (first / 'learned' / '.completed-tiny.json').exists():\n"
        "    time.sleep(0.01)\n"  # written while the scorer goes on
        "os.kill(os.getpid(), 9)"
    )
    job = runs(job, 3)
    score_predictions(job)
    assert scored(job, 0)["scores"] == [1, 2]
    assert "status -9" in scored(job, 1)["not_scored"]
    scorer(COUNTED.replace("'cpu'", "len(of_runs)"))
    score_predictions(job)
    assert [scored(job, run)["device"] for run in range(3)] == ["cpu", 2, 2]


@pytest.mark.fault(
    "machine",
    "a process is killed because memory runs out",
    "the record of the metric says so; the status of the study names the job",
)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("say({'failed': 'the checkpoint cannot be loaded (x)'})", "cannot be loaded (x)"),
        (
            "os.kill(os.getpid(), 9)",
            "status -9; it was killed, possibly because it ran out of memory",
        ),
        ("sys.exit(3)", "exited with status 3"),
        ("pass", "exited with status 0"),
        ("say({'device': 'cpu'})", "exited with status 0"),
        ("say({'device': 'cpu'}); print('{\"sco', end='')", "exited with status 0"),
        ("say({'device': 'cpu'}, scores(0.5))", "not one finite number per prediction"),
        ("say({'device': 'cpu'}, scores(0.5, float('nan')))", "not one finite number"),
    ],
)
def test_the_record_has_the_reason_of_a_failed_scorer(body, reason, job, scorer):
    scorer(body)
    record = score(job)
    assert record["metrics"] == {}
    assert reason in record["not_scored"]
    assert "\n" not in record["not_scored"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "no predictions"), ('{"id": "a"}\n', "has no output"), ("{", "cannot be read")],
)
def test_the_reason_says_what_is_wrong_with_predictions(text, reason, job):
    Path(job["inputs"]["predictions"][0]).write_text(text)
    assert reason in score(job)["not_scored"]


@pytest.mark.parametrize("name", ["scorer", *learned_kinds()])
def test_what_the_metrics_environment_runs_imports_nothing_of_lexigraft(name):
    file = scoring.SCORER if name == "scorer" else Path(learned_kind(name).__file__)
    tree = ast.parse(file.read_text("utf-8"))
    modules = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules
    assert not any(module.startswith(("lexigraft", "workflow")) for module in modules)
