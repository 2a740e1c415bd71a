"""Tasks whose data was not at hand: a column that says so, and none where nothing was planned."""

import json
from pathlib import Path

import pytest

from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.results import results

FULL = "full-clm-512"
WHY = "Rowan/hellaswag (default) cannot be read: offline"
CHOICE = "multiple_choice"


def cell(language, initializer="none", strategy="none"):
    return ("m", language, "source" if initializer == "none" else "big", initializer, strategy, 0)


@pytest.fixture
def study(made_study):
    """Two languages; ARC of both, HellaSwag of Telugu, which has no data."""
    made_study.settings["reference"] = {"strategy": FULL}
    for language in ("te-made", "el-made"):
        for axes in (cell(language), cell(language, "align", FULL)):
            made_study.record(axes, "arc-0-shot", CHOICE, {"accuracy": 0.25, "acc": 0.3})
            if language == "te-made":
                made_study.record(axes, "hellaswag-0-shot", CHOICE, {})
                record = Path(made_study.inputs["records"][-1])
                record = made_study.folder / record
                found = json.loads(record.read_text())
                record.write_text(json.dumps({**found, "not_scored": WHY}))
    return made_study


def table(made, **item):
    (asked,) = read_items([{"item": "results", **item}])
    found = read_study(made.settings, made.inputs).part(asked)
    return results(found)


HEADS = {
    ("Telugu", "arc-0-shot: accuracy ↑"),
    ("Telugu", "hellaswag-0-shot: accuracy ↑"),
    ("Greek", "arc-0-shot: accuracy ↑"),
}


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"tasks": ["arc-0-shot", "hellaswag-0-shot"]},
        {"tasks": ["arc-0-shot", "hellaswag-0-shot"], "metrics": ["accuracy"]},
    ],
)
def test_what_could_not_be_scored_is_a_column_with_its_reason(study, item):
    made = table(study, **item)
    assert set(made.columns) == HEADS
    assert f"accuracy not scored (2 runs): {WHY}" in made.notes


def test_a_task_that_is_short_over_a_column_keeps_its_examples_in_sight():
    from lexigraft.report.names import task_name

    assert task_name("arc-easy-5-shot", CHOICE) == "ARC-E 5-shot"
    assert task_name("xnli-0-shot", CHOICE) == "XNLI 0-shot"
    assert task_name("my-own-5-shot", CHOICE) == "My own 5 shot"
    assert task_name("xnli", "classification") == "Xnli"
