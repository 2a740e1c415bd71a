"""Two results folders are compared by what their cards, records and files say."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lexigraft import UserError
from lexigraft.artifacts.atomic import write_json, write_jsonl
from lexigraft.artifacts.cards import write_card
from lexigraft.artifacts.comparison import (
    ALONE,
    CONTENT,
    NUMBER,
    SEED,
    SETTING,
    VERSION,
    Difference,
    compare,
)
from lexigraft.artifacts.completion import begin, complete
from lexigraft.commands.app import main

CELL = "tiny/te/expand-50/align/short/seed-0"
TRAINED, RUN = f"training/{CELL}", f"evaluation/{CELL}/perplexity/run-0"


def train(results: Path, loss=(3.0, 2.0), weights=(0.5, -2.0), seed=0, **settings) -> None:
    folder = results / TRAINED
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"event": "step", "step": step, "loss": one, "seconds": len(str(results)) / 10}
        for step, one in enumerate(loss, 1)
    ]
    write_jsonl(folder / "log.jsonl", lines)
    np.savez(folder / "adapter.npz", allow_pickle=False, rows=np.array(weights))
    job = {
        "rule": "train",
        "settings": {"learning_rate": 1e-4, "phases": [{"length": 64}, {"length": 64}], **settings},
        "seed": [seed, "training"],
        "versions": {"stage": 1},
        "inputs": {"corpus": str(results / "corpus")},
        "outputs": {"folder": str(folder), "replaced": str(results / "replaced")},
    }
    facts = {"steps": len(loss), "seconds": 1.5, "device": "CPU"}
    write_card(folder, job, ["log.jsonl", "adapter.npz"], **facts)


def evaluate(results: Path, bits=2.0, accuracy=0.5, output="one", speed=10.0) -> None:
    folder = results / RUN
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "task": "perplexity",
        "metrics": {"bits": bits, "accuracy": accuracy, "tokens_per_second_batch_1": speed},
        "settings": {"kind": "perplexity"},
        "seed": [0, "evaluation"],
        "versions": {"torch": str(speed)},
    }
    write_json(folder / "record.json", record)
    rows = [{"id": 1, "output": output}, {"id": 2, "output": "two"}]
    write_jsonl(folder / "predictions.jsonl", rows)
    job = {"rule": "evaluate", "settings": {}, "inputs": {}, "outputs": {"folder": str(folder)}}
    complete(job, begin(job), ["record.json", "predictions.jsonl"])


@pytest.fixture
def results(tmp_path) -> Path:
    """A cell that was trained and evaluated."""
    folder = tmp_path / "results"
    train(folder)
    evaluate(folder)
    return folder


@pytest.fixture
def other(tmp_path, results) -> Path:
    """The same from another run."""
    folder = tmp_path / "elsewhere" / "results"
    train(folder)
    evaluate(folder)
    return folder


def seen(results: Path, other: Path, **options) -> list[tuple[str, str, str]]:
    found = compare(results, other, **options).differences
    return [(one.kind, one.place, one.name) for one in found]


def test_where_results_lie_and_how_long_they_took_makes_no_difference(results, other):
    card = json.loads((other / TRAINED / "card.json").read_text())
    facts = {"steps": 2, "seconds": 99.0, "device": "another", "resumed_from_step": 1}
    write_card(other / TRAINED, card["job"], list(card["files"]), **facts)
    evaluate(other, speed=11.0)
    found = compare(results, other)
    assert (found.outputs, found.differences) == (2, [])
    assert {one.name for one in found.circumstances} >= {
        "seconds", "device", "resumed_from_step", "metrics.tokens_per_second_batch_1",
        "versions.torch",
    }  # fmt: skip


def test_outputs_of_one_folder_alone_are_named(results, other):
    shutil.move(other / RUN, other / RUN.replace("perplexity", "translation"))
    found = compare(results, other).differences
    assert [(one.kind, one.place, one.first, one.second) for one in found] == [
        (ALONE, RUN, "there", None),
        (ALONE, RUN.replace("perplexity", "translation"), None, "there"),
    ]


def test_reports_and_what_was_replaced_are_left_aside(results, other):
    shutil.copytree(other / TRAINED, other / "replaced/2026-01-01T00-00-00" / TRAINED)
    report = other / "report/mine"
    report.mkdir(parents=True)
    write_card(report, {"rule": "build_report", "outputs": {}}, [])
    assert seen(results, other) == []


def test_settings_seeds_and_versions_are_told_apart(results, other):
    train(other, seed=1, learning_rate=2e-4, phases=[{"length": 64}, {"length": 128}])
    evaluation = {"rule": "evaluate", "inputs": {}, "outputs": {}, "settings": {}}
    for folder, version in ((results, 1), (other, 2)):
        job = evaluation | {"tasks": {"perplexity": {"versions": {"task perplexity": version}}}}
        (folder / f"evaluation/{CELL}" / "job.json").write_text("{}")
        write_card(folder / f"evaluation/{CELL}" / "card-abc.json", job, [])
    card = f"{TRAINED}/card.json"
    assert seen(results, other) == [
        (SETTING, card, "settings.learning_rate"),
        (SETTING, card, "settings.phases.length (1 of 2)"),
        (VERSION, f"evaluation/{CELL}/card-abc.json", "tasks.perplexity.versions.task perplexity"),
        (SEED, card, "seed (1 of 2)"),
    ]


def test_numbers_come_with_the_largest_relative_difference_first(results, other):
    evaluate(other, bits=2.5, accuracy=0.25)
    accuracy, bits = compare(results, other).differences
    where = f"{RUN}/record.json"
    assert accuracy == Difference(NUMBER, where, "metrics.accuracy", 0.5, 0.25, 0.25, 0.5)
    assert bits == Difference(NUMBER, where, "metrics.bits", 2.0, 2.5, 0.5, 0.2)
    assert compare(results, other, tolerance=0.2).differences == [accuracy]
    assert compare(results, other, tolerance=0.5).differences == []


def test_what_is_no_number_does_not_hide_behind_a_small_difference(results, other):
    train(results, loss=(3.0, 2.0, 1.0))
    train(other, loss=(3.0001, 2.0))
    found = seen(results, other, tolerance=1e-3)
    assert (CONTENT, f"{TRAINED}/log.jsonl", "loss (1 of 3)") in found


def test_a_tensor_differs_by_its_largest_gap_over_its_largest_magnitude(results, other):
    train(other, weights=(0.75, -2.0))
    (found,) = compare(results, other).differences
    where = f"{TRAINED}/adapter.npz"
    assert found == Difference(NUMBER, where, "rows", 0.5, 0.75, 0.25, 0.125)
    train(other, weights=(0.5, -2.0, 1.0))
    assert [one[0] for one in seen(results, other)] == [CONTENT]
    train(other, weights=(0.5, float("nan")))
    assert [one[0] for one in seen(results, other, tolerance=9.0)] == [CONTENT]


def test_tensors_in_bfloat16_are_compared(tmp_path):
    import torch
    from safetensors.torch import save_file

    for name, value in (("a", 1.0), ("b", 1.5)):
        folder = tmp_path / name
        folder.mkdir()
        rows = torch.tensor([value, -3.0], dtype=torch.bfloat16)
        save_file({"rows": rows, "same": torch.ones(2)}, folder / "changed.safetensors")
        write_card(folder, {"rule": "train"}, ["changed.safetensors"])
    (found,) = compare(tmp_path / "a", tmp_path / "b").differences
    assert (found.name, found.absolute, found.relative) == ("rows", 0.5, pytest.approx(0.5 / 3))


def gone(folder: Path) -> None:
    shutil.rmtree(folder)


def empty(folder: Path) -> None:
    shutil.rmtree(folder / "training")
    shutil.rmtree(folder / "evaluation")


def without_a_file(folder: Path) -> None:
    evaluate(folder, output="uno")
    (folder / RUN / "predictions.jsonl").unlink()


def with_a_damaged_card(folder: Path) -> None:
    card = folder / TRAINED / "card.json"
    card.write_text(card.read_text().replace('"steps": 2', '"steps": 3'))


def with_a_damaged_file(folder: Path) -> None:
    train(folder, weights=(1.0, 1.0))
    (folder / TRAINED / "adapter.npz").write_bytes(b"PK cut off")


@pytest.mark.bad_input(
    "command", "results folders that cannot be compared", "a one-line error message and exit code 2"
)
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (gone, "there is no such folder"),
        (empty, "contains no outputs of finished jobs"),
        (without_a_file, "predictions.jsonl: missing"),
        (with_a_damaged_card, "card.json: damaged"),
        (with_a_damaged_file, "adapter.npz: cannot be read"),
    ],
)
def test_what_cannot_be_compared_is_an_error_with_exit_code_2(
    results, other, damage, message, capsys
):
    damage(other)
    with pytest.raises(UserError, match=message):
        compare(results, other)
    with pytest.raises(SystemExit) as end:
        main(["compare", str(results), str(other)])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and message in said


def test_the_command_ends_with_0_or_1_and_writes_a_table(results, other, tmp_path, capsys):
    def run(*options: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["compare", str(results), str(other), *options])
        return end.value.code or 0, capsys.readouterr().out

    assert run() == (0, "2 outputs in both folders: no difference; 1 time or fact of the machine "
                        "ignored (see --all)\n")  # fmt: skip
    evaluate(other, bits=2.5, speed=11.0)
    train(other, learning_rate=2e-4)
    code, shown = run("--csv", str(tmp_path / "all.csv"))
    assert code == 1
    assert f"  {TRAINED}/card.json: settings.learning_rate: 0.0001 and 0.0002\n" in shown
    assert f"0.2 relative, 0.5 absolute: {RUN}/record.json: metrics.bits: 2 and 2.5" in shown
    assert "versions" not in shown and "versions.torch" in run("--all")[1]
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["kind"], row["absolute"]) for row in rows] == [(SETTING, ""), (NUMBER, "0.5")]
    assert run("--tolerance", "0.5")[0] == 1  # a setting is the same or not
