"""Figures over the number of new tokens: what they draw."""

import math
from pathlib import Path

import pandas
import pytest

from lexigraft.report.drawing import save
from lexigraft.report.figures.vocabulary_size import vocabulary_size
from lexigraft.report.items import load, read_items
from lexigraft.report.page import build_report
from lexigraft.report.records import read_study
from tests.report.drawing import drawn_figure

SIZES = {"expand-500": 500, "expand-50": 50, "expand-5000": 5000}
LANGUAGES = ["te-made", "el-made"]


@pytest.fixture
def sized(made_study):
    """Three sizes, two initializers; Align lacks the largest size in Greek, Greek its speed."""
    made_study.settings["reference"] = {"strategy": "full"}
    for language in LANGUAGES:
        for initializer, strategy in (("none", "none"), ("none", "full")):
            cell = ("m", language, "source", initializer, strategy, 0)
            add(made_study, cell, 10.0 if strategy == "none" else 12.0, 1.0)
        for rank, (name, size) in enumerate(SIZES.items()):
            made_study.vocabulary(language, size, 100, 50 - size / 200, "m", name)
            for initializer in ("mean", "align"):
                if (language, initializer, size) != ("el-made", "align", 5000):
                    cell = ("m", language, name, initializer, "full", 0)
                    add(made_study, cell, 11.0 + rank, 2.0 if language == "te-made" else None)
    return made_study


def add(made, cell, chrf, speed_up):
    for run in (0, 1):
        made.record(cell, "translation", "translation",
                    {"chrf": chrf + run, "new_token_share_input": 0.25,
                     "new_token_share_output": 0.5 if cell[3] == "align" else 0.1},
                    run)  # fmt: skip
    if speed_up:
        metrics = {"tokens_per_second_batch_1": 1.0,
                   "same_text_characters_per_second_batch_1": 7 * speed_up}  # fmt: skip
        made.record(cell, "speed", "speed", metrics, settings={"prompts_from": "translation"})


def draw(build, made):
    return drawn_figure(build, made, *read_items([build.__name__]))


def lines(axis):
    """Each line's points."""
    return [container.lines[0].get_xydata().tolist() for container in axis.containers]


def test_quality_and_speed_up_stand_at_their_size_in_order(sized):
    quality, _, speed, _ = draw(vocabulary_size, sized).axes
    assert [tick.get_text() for tick in speed.get_xticklabels()] == ["50", "500", "5K"]
    # 11.5 of the study's first vocabulary, which has 500 tokens.
    assert lines(quality) == [[[0, 12.5], [1, 11.5], [2, 13.5]]] * 2
    assert lines(speed) == [[[0, 2.0], [1, 2.0], [2, 2.0]]] * 2
    labels = [axis.get_ylabel().replace("\n", " ") for axis in (quality, speed)]
    assert labels == ["MT, chrF", "MT, speed-up (×)"]
    across = [line.get_ydata()[0] for line in quality.lines if len(line.get_xdata()) == 2]
    assert across == [10.5, 12.5]  # Source and LAPT


def test_an_alias_and_an_unfinished_cell_have_a_style_too(sized, tmp_path):
    """Neither has scores under its own name in the study as a whole."""
    alias = {"initializer": "merge", "same_as": "align", "vocabularies": [*SIZES], "sources": None}
    where = {"initializers": ["merge", "unfinished", "mean"]}
    sized.settings |= {"aliases": [alias], "items": [{"item": "vocabulary_size", "where": where}]}
    build_report(sized.settings, sized.inputs, {"folder": str(tmp_path / "report")})
    drawn = (tmp_path / "report" / "figures" / "vocabulary_size.svg").read_text("utf-8")
    names = {name for name in ("Merge", "Unfinished", "Mean", "Align") if f"- {name} -" in drawn}
    assert names == {"Merge", "Mean"}


def test_no_line_leads_across_a_size_that_is_missing(sized):
    for name in sized.inputs["records"]:
        if "/te-made/expand-500/align/" in name and "/translation/" in name:
            Path(name).unlink()
    (_, first), (_, second), (_, third) = lines(draw(vocabulary_size, sized).axes[0])[1]
    assert (first, third) == (12.5, 13.5)
    assert math.isnan(second)


def test_prompts_and_outputs_have_their_shares(sized):
    names = ["new_token_share_input", "new_token_share_output"]
    item = {"item": "vocabulary_size", "tasks": ["translation"], "metrics": names}
    prompts, _, outputs, _ = drawn_figure(vocabulary_size, sized, *read_items([item])).axes
    assert lines(prompts) == [[[0, 0.25], [1, 0.25], [2, 0.25]]] * 2
    mean, align = ([y for _, y in line] for line in lines(outputs))
    assert (mean, align) == (pytest.approx([0.1] * 3), [0.5] * 3)


def test_a_figure_is_saved_with_the_data_that_it_draws(sized, tmp_path):
    save(draw(vocabulary_size, sized), tmp_path, "sizes")
    drawn = pandas.read_csv(tmp_path / "sizes.csv")
    rows = drawn[(drawn["panel"] == "Telugu") & (drawn["series"] == "Mean")]
    quality = rows[rows["vertical"].str.endswith("chrF")]
    assert quality[["x", "y"]].values.tolist() == [["50", 12.5], ["500", 11.5], ["5K", 13.5]]
    # Two runs of one seed that differ by one.
    assert quality["deviation"].tolist() == pytest.approx([0.5**0.5] * 3)
    levels = drawn[(drawn["panel"] == "Telugu") & drawn["series"].isin(["Source", "LAPT"])]
    assert levels["x"].isna().all() and levels["y"].tolist()[:2] == [10.5, 12.5]


def test_speed_ups_may_be_of_the_answers_as_in_papers(sized):
    for cell, rate in ((("m", "te-made", "source", "none", "none", 0), 8.0),
                       (("m", "te-made", "expand-50", "align", "full", 0), 12.0)):  # fmt: skip
        metrics = {"answer_tokens_per_second_batch_1": rate / 2,
                   "answer_characters_per_second_batch_1": rate,
                   "answer_new_token_share_batch_1": 0.25}  # fmt: skip
        sized.record(cell, "answers", "speed", metrics, settings={"prompts_from": "translation"})
    where = {"languages": ["te-made"], "vocabularies": ["expand-50"]}
    names = ["answer_tokens_per_second", "answer_tokens_speed_up", "answer_new_token_share"]
    table, results_item, figure = read_items([
        {"item": "speed", "tasks": ["answers"], "metrics": names, "where": where},
        {"item": "results", "where": where, "speed_up_of": "align", "speed": "answer_characters"},
        {"item": "vocabulary_size", "where": where, "speed": "answer_tokens"},
    ])  # fmt: skip
    study = read_study(sized.settings, sized.inputs)
    rows = {row.stub[-1]: [cell.text for cell in row.cells] for row in
            load("speed").build(study.part(table)).rows}  # fmt: skip
    assert rows["Source"] == ["4.0†", "1.00", "0.250"]
    assert rows["Align"] == ["6.0", "1.50", "0.250"]
    *_, last = load("results").build(study.part(results_item)).rows
    assert (last.stub[-1], last.cells[0].text) == ("Speed-up (Align)", "1.50")
    _, speed = drawn_figure(vocabulary_size, sized, figure).axes
    assert speed.get_ylabel().replace("\n", " ") == "MT, speed-up of answer tokens (×)"
    assert [[0, 1.5]] in [points[:1] for points in lines(speed)]
