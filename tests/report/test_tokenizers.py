"""Tokenizers side by side: the table, the figure, and a study that has nothing else."""

import json
from pathlib import Path

import pytest

from lexigraft.report.drawing import Look
from lexigraft.report.figures.tokens_per_sentence import tokens_per_sentence
from lexigraft.report.items import DEFAULT, read_items
from lexigraft.report.page import build_report
from lexigraft.report.records import read_study
from lexigraft.report.tables.tokenizers import tokenizers
from tests.report.conftest import write
from tests.report.drawing import legend_names


@pytest.fixture
def compared(made_study):
    """Two tokenizers in Telugu, one in Greek, which has no translations."""
    made_study.tokenizer("small", "te-made", 200.0, parity=10.0)
    made_study.tokenizer("large", "te-made", 50.0, parity=2.0)
    made_study.tokenizer("small", "el-made", 80.0)
    return made_study


def table(made, **options):
    (item,) = read_items([{"item": "tokenizers", **options}])
    study = read_study(made.settings, made.inputs).part(item)
    return tokenizers(study)


def texts(found):
    return {row.stub: [cell.text for cell in row.cells] for row in found.rows}


def test_a_row_per_language_and_tokenizer(compared):
    found = table(compared)
    assert [head for _, head in found.columns] == [
        "tokens per sentence", "tokens per word", "bytes per token", "tokens per token of English",
        "tokens", "never used", "unreachable",
    ]  # fmt: skip
    assert texts(found)["Telugu", "small"] == [
        "200.0", "25.00", "2.00", "10.00", "32,000", "90.0 %", "1.0 %",
    ]  # fmt: skip
    assert texts(found)["Greek", "large"] == ["–"] * 7


def test_changes_from_another_tokenizer_in_the_order_of_the_item(compared):
    chosen = {"tokenizers": ("large", "small"), "where": {"languages": ["te-made"]}}
    found = table(compared, compared_with=("small",), **chosen)
    assert found.columns[-1] == ("change of length from", "small")
    assert {stub: row[-1] for stub, row in texts(found).items()} == {
        ("Telugu", "large"): "−75.0 %", ("Telugu", "small"): "0.0 %",
    }  # fmt: skip
    assert not any("held-out" in note for note in found.notes)
    every = table(compared, compared_with=("small",))
    assert texts(every)["Greek", "large"][-1] == "–"
    assert any("held-out sentences" in note and "Greek" in note for note in every.notes)


def test_unknown_tokens_have_a_column_where_there_are_any(compared):
    path = Path(compared.inputs["tokenizers"][0])
    record = json.loads(path.read_text(encoding="utf-8"))
    record["metrics"]["unknown_tokens"] = 0.25
    write(path, record)
    found = table(compared)
    at = [head for _, head in found.columns].index("unknown")
    assert texts(found)["Telugu", "small"][at] == "25.0 %"


@pytest.mark.parametrize(
    ("metric", "label", "points"),
    [
        ((), "tokens per sentence", [[200.0, 80.0], [50.0]]),
        (("english_parity",), "tokens per token of English", [[10.0], [2.0]]),
    ],
)
def test_the_figure_has_a_marker_per_tokenizer(compared, metric, label, points):
    study = read_study(compared.settings, compared.inputs)
    study = study.part(*read_items([{"item": "tokens_per_sentence", "metrics": metric}]))
    figure = tokens_per_sentence(study, Look(()))
    (axis,) = figure.axes
    assert legend_names(figure) == ["small", "large"]
    drawn = [line for line in axis.lines if line.get_marker() != "None"]
    assert [list(map(float, line.get_xdata())) for line in drawn] == points
    assert axis.get_xlabel() == label
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["Telugu", "Greek"]


def test_a_study_of_tokenizers_alone_has_a_report_without_items_of_cells(compared):
    compared.settings["items"] = ["tokenizers", "tokens_per_sentence", *DEFAULT]
    out = compared.folder / "report"
    summary = build_report(compared.settings, compared.inputs, {"folder": str(out)})
    assert set(DEFAULT) == set(summary["omitted"])
    assert summary["caveats"] == []
    assert "0.23.3" in (out / "report.html").read_text(encoding="utf-8")
    assert len((out / "tables/tokenizers.csv").read_text(encoding="utf-8").splitlines()) > 3
    assert (out / "figures" / "tokens_per_sentence.png").stat().st_size > 0
    assert "no cell has a task" in (out / "tables/results.md").read_text(encoding="utf-8")
