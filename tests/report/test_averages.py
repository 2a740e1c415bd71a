"""Columns of means in a table of results, against means worked out by hand."""

import json
import math
from pathlib import Path

import pytest

from lexigraft.report.items import read_items
from lexigraft.report.models import Average, average_columns, in_order
from lexigraft.report.records import read_study
from lexigraft.report.tables.results import results

FULL = "full-clm-512"
TASKS = ("arc", "boolq")


def score(made, cell, language, task, value):
    made.record(("m", language, *cell), task, "multiple_choice", {"accuracy": value})


@pytest.fixture
def table(made_study):
    """Source and Align, which has two seeds, on two tasks in two languages; Mean lacks one."""

    def build(*averages, **options):
        made_study.settings["reference"] = {"strategy": FULL}
        for language, shift in (("te-made", 0.0), ("el-made", 0.2)):
            for task, value in zip(TASKS, (0.2, 0.4), strict=True):
                source = ("source", "none", "none", 0)
                score(made_study, source, language, task, value + shift)
                for seed in (0, 1):
                    align = ("big", "align", FULL, seed)
                    score(made_study, align, language, task, value + shift + 0.1 * (seed + 1))
                if (language, task) != ("el-made", "boolq"):
                    score(made_study, ("big", "mean", FULL, 0), language, task, value)
        study = read_study(made_study.settings, made_study.inputs)
        (item,) = read_items([{"item": "results", "averages": list(averages), **options}])
        return results(study.part(item))

    return build


def row(table, name):
    """Heading of a column -> what a row has there."""
    heads = [" ".join(filter(None, head)).split(":")[0].lower() for head in table.columns]
    (found,) = [one for one in table.rows if one.stub[-1] == name]
    return dict(zip(heads, found.cells, strict=True))


def test_a_mean_over_tasks_stands_behind_its_languages_columns(table):
    found = table({"title": "Avg", "over": ["tasks"]})
    assert [head.split(":")[0] for _, head in found.columns] == [*TASKS, "Avg"] * 2
    source = row(found, "Source")
    assert source["telugu avg"].value == pytest.approx(0.3)
    assert source["greek avg"].value == pytest.approx(0.5)


def test_the_deviation_of_a_mean_is_that_of_the_means_of_each_seed(table):
    cell = row(table({"title": "Avg", "over": ["tasks"]}), "Align")["telugu avg"]
    # Seeds 0 and 1 have 0.3 + 0.1 and 0.3 + 0.2: mean 0.45, deviation 0.1 / sqrt(2).
    assert (cell.text, cell.deviation, cell.change) == ("0.450", "0.071", "+0.150")


def test_a_mean_over_tasks_and_languages_is_the_last_column(table):
    found = table({"title": "Avg"})
    assert found.columns[-1] == ("", "Avg: accuracy ↑")
    assert row(found, "Source")["avg"].value == pytest.approx(0.4)
    assert "Avg: the mean over arc and boolq, and over Telugu and Greek; not tested." in found.notes
    means = found.data[found.data["task"] == "Avg"].set_index("initializer")["mean"]
    assert means["none"] == pytest.approx(0.4)


def test_a_row_that_lacks_a_score_has_no_mean_over_it(table):
    found = table({"title": "Avg", "over": ["tasks"]}, {"title": "Both", "over": ["languages"]})
    mean = row(found, "Mean")
    assert mean["greek avg"].text == mean["both boolq"].text == "–"
    assert mean["both arc"].value == pytest.approx(0.2)


def test_an_average_of_some_columns_leaves_the_others_out():
    columns = [("te", task, name) for task in "abc" for name in ("f1", "accuracy")]
    average = Average(title="Avg", tasks=("a", "c"), metrics=("f1",))
    means = average_columns([average], columns)
    assert means == {("", "Avg", "f1"): [("te", "a", "f1"), ("te", "c", "f1")]}
    assert in_order(columns, means) == [*columns, ("", "Avg", "f1")]


@pytest.mark.parametrize(
    ("options", "align", "mean"),
    [
        # Align has 0.35 and Mean 0.2 where Source has 0.2, see the fixture.
        ({"change": "percent"}, "+75.0 %", "0.0 %"),
        ({"change": "share"}, "175.00 %", "100.00 %"),
        ({"change": "times"}, "1.75×", "1.00×"),
        ({"change": "share", "relative_to": "align"}, "", "57.14 %"),
    ],
)
def test_a_change_is_of_the_kind_and_from_the_model_that_the_item_names(
    table, options, align, mean
):
    rows = {row.stub[-1]: row.cells[0].change for row in table(**options).rows}
    assert (rows["Align"], rows["Mean"]) == (align, mean)


def test_numbers_of_logs_cards_and_vocabularies_are_scores(made_study):
    cell = ("m", "te-made", "expand-500", "mean", "full-clm-512", 0)
    made_study.settings["reference"] = {"strategy": "full-clm-512"}
    made_study.record(cell, "ppl", "perplexity", {"bits_per_byte": 1.0})
    made_study.trained(cell, 2.0, 1.0, steps=60, parameters=7)
    made_study.vocabulary("te-made", new_tokens=500, source="m")
    made_study.initialized("te-made", "mean", source="m")
    log = Path(next(iter(made_study.inputs["training"]))) / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if line["event"] == "step":
            line["loss"] = 4.0 - line["step"] / 20  # 3.95 to 1.0, running means of two steps
        else:
            line["perplexity"] = math.exp(3 - line["step"] / 60)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = {
        "last_loss": 1.0, "validation_loss_33": 3 - 1 / 3, "validation_loss_100": 2.0,
        # The mean of steps 40 and 41 is 1.975, the first that is at most 2.
        "tokens_to_loss_2": 41 * 512 / 1e6, "total_parameters": 7, "copied_tokens": 1500,
        "flops_per_token": 2e8,
        "new_tokens": 500,
    }  # fmt: skip
    tasks = ["training", "initialization", "vocabulary"]
    (item,) = read_items([{"item": "results", "tasks": tasks, "metrics": list(names)}])
    table = results(read_study(made_study.settings, made_study.inputs).part(item))
    by_metric = table.data.set_index("metric")["mean"].to_dict()
    assert by_metric == pytest.approx(names)
