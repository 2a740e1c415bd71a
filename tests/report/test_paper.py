"""The tables of Yamaguchi et al. at their full size: rows, columns, colours, and LaTeX."""

import itertools
import re

import pytest

from lexigraft.report.frame import COLUMN, Model, source_model
from lexigraft.report.items import load, read_items
from lexigraft.report.records import read_study
from lexigraft.report.table import (
    BLUE,
    MISSING,
    PALEST,
    RED,
    as_html,
    latex,
    latex_shade,
    markdown,
)
from tests.report.made_paper import HEADS, ITEMS, LANGUAGES, LORA, STRATEGIES, paper_study

TABLES = [item["name"] for item in ITEMS]
MAIN = ["Source", "LAPT", "Random", "FOCUS", "Mean", "Merge", "Align"]
OTHERS = ["Source", "LAPT", "Random", "Mean", "Align"]
SIX = ["Arabic", "Burmese", "Greek", "Hindi", "Sinhala", "Telugu"]
THREE = ["Burmese", "Sinhala", "Telugu"]
TEN = list(LANGUAGES.values())
BOTH = ["MT", "SUM"]
BASELINES = [("Source", ""), ("LAPT", LORA)]


def over(languages, columns):
    return list(itertools.product(languages, columns))


SHAPES = {
    "table-1": ([(name,) for name in MAIN], over(TEN, BOTH)),
    "table-2": ([(name,) for name in MAIN], over([""], TEN)),
    "table-3": ([(name,) for name in MAIN], over(TEN, BOTH)),
    "table-4": (
        [*BASELINES, *over(["Align"], STRATEGIES)],
        over(SIX, BOTH),
    ),
    "table-5": (over(["llama-3-8b", "gemma-2-9b"], [*OTHERS, "Speed-up (Align)"]),
                over(THREE, BOTH)),
    "table-9": ([("Source",), ("LAPT",), ("FOCUS",), ("FOCUS word",)],
                over(THREE, ["translation: chrF ↑", "summarization: ROUGE-L ↑"])),
    "table-10": (
        [*BASELINES, *over(["Align"], HEADS)],
        over(["Arabic", "Greek", "Hindi"], BOTH),
    ),
    "table-11": (over(["llama-3-8b", "gemma-2-9b"], OTHERS),
                 over(THREE, ["perplexity: perplexity ↓"])),
    "table-12": (over(["llama-2-7b", "llama-3-8b", "gemma-2-9b"], OTHERS),
                 over(THREE, ["ROUGE-L", "BLEURT"])),
    "bits-per-byte": ([(name,) for name in MAIN], over([""], TEN)),
    "significance": (over(["Source"], MAIN[1:]) + over(["LAPT"], MAIN[2:]), over(TEN, BOTH)),
}  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    made = paper_study(tmp_path_factory.mktemp("paper"), samples=4)
    return read_study(made.settings, made.inputs)


@pytest.fixture(scope="module")
def tables(study):
    found = {}
    for item in read_items(ITEMS):
        part = study.part(item)
        found[item.name] = load(item.kind).build(part)
    return found


@pytest.mark.parametrize("name", TABLES)
def test_rows_and_columns_are_the_papers(tables, name):
    rows, columns = SHAPES[name]
    assert [row.stub for row in tables[name].rows] == rows
    assert list(tables[name].columns) == columns
    assert not any(cell.text == MISSING for row in tables[name].rows for cell in row.cells)


@pytest.mark.parametrize("name", ["table-1", "table-4", "table-12"])
def test_colours_and_marks_say_which_way_the_score_changed(tables, study, name):
    seen = set()
    for row in tables[name].data.to_dict("records"):
        source = study.find(source_model(row["source"]), *(row[name] for name in COLUMN))
        assert row["source_mean"] == source["mean"]
    for row in tables[name].rows:
        for cell, first in zip(row.cells, tables[name].rows[0].cells, strict=True):
            better = cell.value - first.value if row.stub[0] in ("LAPT", "Align") else cell.shade
            assert (cell.shade > 0) == (better > 0) or abs(cell.shade) < PALEST
            assert cell.mark == ("" if abs(cell.shade) < PALEST else "▲" if cell.shade > 0 else "▼")
            seen.add(cell.mark)
    assert seen == {"", "▲", "▼"}


def test_the_last_row_of_a_source_model_is_its_speed_up(tables, study):
    model = Model("gemma-2-9b", "expand-100", "align", "2x2ls-mtp-512")
    speed = "same_text_characters_per_second_batch_1"
    found = study.find(model, "te", "speed-summarization", speed)
    cell = tables["table-5"].rows[-1].cells[-1]
    assert cell.text == f"{found['mean'] / found['source_mean']:.2f}"
    assert {cell.text for cell in tables["table-3"].rows[0].cells} == {"1.00"}
    assert "LAPT of gemma-2-9b was trained with lora-clm-2048." in tables["table-5"].notes
    note = "n = 1 seed (0), 2 runs; mean ± sample standard deviation over runs."
    assert tables["table-1"].notes[0] == note


@pytest.mark.parametrize("name", TABLES)
def test_latex_is_balanced_and_every_number_is_in_every_format(tables, name):
    text = latex(tables[name])
    table = tables[name]
    width = len(table.stub) + len(table.columns)
    assert text.isascii()
    assert text.replace(r"\{", "").replace(r"\}", "").count("{") == text.replace(
        r"\{", "").replace(r"\}", "").count("}")  # fmt: skip
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert text.count(r"\begingroup") == text.count(r"\endgroup") == int(table.compact)
    assert re.search(r"\\begin\{tabular\}\{(l+r+)\}", text)[1] == (
        "l" * len(table.stub) + "r" * len(table.columns)
    )
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    for line in lines:
        spans = [int(size) for size in re.findall(r"\\multicolumn\{(\d+)\}", line)]
        assert line.replace(r"\&", "").count("&") + 1 + sum(spans) - len(spans) == width
    for first, last in re.findall(r"\\cmidrule\(lr\)\{(\d+)-(\d+)\}", text):
        assert len(table.stub) < int(first) <= int(last) <= width
    assert len(lines) == len(table.rows) + 1 + (r"\multicolumn" in text)
    page, lines = as_html(table), markdown(table)
    assert page.count("<td") - page.count("<td colspan") == len(table.rows) * len(table.columns)
    for cell in (cell for row in table.rows for cell in row.cells):
        assert f"<b>{cell.text}</b>" in page
        assert f"{cell.text} {cell.mark}".strip() in lines


def luminance(colour):
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("ink_and_paper", [((27, 31, 36), (254, 254, 254)),
                                           ((232, 234, 237), (21, 24, 28))])  # fmt: skip
@pytest.mark.parametrize("colour", [BLUE, RED])
def test_numbers_stay_readable_on_the_deepest_colours(ink_and_paper, colour):
    ink, paper = ink_and_paper
    mixed = [0.65 * c + 0.35 * p for c, p in zip(colour, paper, strict=True)]
    low, high = sorted([luminance(ink), luminance(mixed)])
    assert (high + 0.05) / (low + 0.05) > 4.5


def test_latex_colours_deepen_with_the_change(tables):
    # By hand, blue at half: 255 - 0.65 / 2 * (255 - 59) = 191.3, and so on.
    assert latex_shade(0.5) == r"\cellcolor[HTML]{BFD6EC}"
    assert latex_shade(-1.0) == r"\cellcolor[HTML]{E4988B}"
    assert latex_shade(0.001) == ""
