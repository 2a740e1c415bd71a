"""Tables against numbers worked out by hand, and in every format."""

import json
from pathlib import Path

import pytest

from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.table import (
    Row,
    Table,
    TableCell,
    as_html,
    escape_latex,
    latex,
    markdown,
    number,
    ranked,
)
from lexigraft.report.tables.fragmentation import fragmentation
from lexigraft.report.tables.initializers import initializers
from lexigraft.report.tables.new_tokens import new_tokens
from lexigraft.report.tables.perplexity import perplexity
from lexigraft.report.tables.results import results
from lexigraft.report.tables.speed import speed
from lexigraft.report.tables.strategies import strategies

FULL = "full-clm-512"
SOURCE = ("m", "te-made", "source", "none", "none", 0)


@pytest.fixture
def small(made_study):
    """Source, and two initializers on two seeds, one of which lacks its second."""
    made_study.settings["reference"] = {"strategy": FULL}
    for cell, chrf in (
        (SOURCE, 10.0),
        (("m", "te-made", "big", "align", FULL, 0), 14.0),
        (("m", "te-made", "big", "align", FULL, 1), 18.0),
        (("m", "te-made", "big", "mean", FULL, 0), 9.0),
    ):
        made_study.record(cell, "mt", "translation", {"chrf": chrf})
    return made_study


def build(module, made):
    study = read_study(made.settings, made.inputs)
    return module(study)


def cells(table):
    return {row.stub[-1]: row.cells for row in table.rows}


def test_results_show_mean_deviation_and_change_over_source(small):
    table = build(results, small)
    (align,), (mean,), (source,) = (cells(table)[name] for name in ("Align", "Mean", "Source"))
    # mean (14 + 18) / 2; deviation sqrt(((14-16)² + (18-16)²) / 1); change 16 - 10
    assert (align.text, align.deviation, align.change) == ("16.0", "2.8", "+6.0")
    assert (source.text, source.deviation) == ("10.0", "")
    # Shading is full at a change of 50 %: +60 %, -10 % and none.
    assert [align.shade, mean.shade, source.shade] == pytest.approx([1.0, -0.2, 0.0])
    assert "n = 2 seeds (0, 1)" in table.notes[0]
    assert "Over fewer seeds, which the CSV file names: 1 of the numbers." in table.notes


def test_a_metric_that_is_better_lower_is_blue_when_it_falls(made_study):
    made_study.settings["reference"] = {"strategy": FULL}
    made_study.record(SOURCE, "ppl", "perplexity", {"bits_per_byte": 2.0})
    cell = ("m", "te-made", "big", "align", FULL, 0)
    made_study.record(cell, "ppl", "perplexity", {"bits_per_byte": 1.5})
    assert cells(build(results, made_study))["Align"][0].shade == pytest.approx(0.5)


def test_a_missing_number_is_a_dash_with_a_note(small):
    small.record(("m", "el-made", "source", "none", "none", 0), "mt", "translation", {"chrf": 1.0})
    small.record(("m", "te-made", "big", "third", FULL, 0), "mt", "translation", {"chrf": 1 / 3})
    table = build(results, small)
    assert 1 / 3 in table.data["mean"].tolist()  # in full precision
    assert cells(table)["Align"][1].text == "–"
    assert any("Align in Greek" in note for note in table.notes)


def test_ranks_leave_out_baselines_and_are_shared_by_equal_numbers():
    rows = [Row((name,), (TableCell(f"{value:.0f}", value=value),), name == "Source")
            for name, value in (("Source", 9.0), ("a", 1.0), ("b", 3.0), ("c", 2.1),
                                ("d", 1.9))]  # fmt: skip
    assert [row.cells[0].rank for row in ranked(rows, [False])] == [0, 1, 0, 2, 2]
    assert [row.cells[0].rank for row in ranked(rows, [True])] == [0, 0, 1, 2, 2]


def test_the_strategies_of_one_initializer_are_rows(small):
    assert build(strategies, small) is None  # a single one
    cell = ("m", "te-made", "big", "align", "lora-mtp-2048", 0)
    small.record(cell, "mt", "translation", {"chrf": 12.0})
    stubs = [row.stub for row in build(strategies, small).rows]
    assert stubs == [("Source", ""), ("Align", FULL), ("Align", "lora-mtp-2048")]


def test_every_column_of_speed_can_be_asked_for_and_speed_up_is_on_the_same_text(made_study):
    made_study.settings["reference"] = {"strategy": FULL}
    cell = ("m", "te-made", "big", "align", FULL, 0)
    for made, better in ((SOURCE, 1), (cell, 2)):
        metrics = {"steps_per_sentence": 90.0 / better, "spread_batch_1": 0.04 / better}
        for batch in (1, 16):
            metrics |= {
                f"tokens_per_second_batch_{batch}": 20.0 * batch,
                f"same_text_characters_per_second_batch_{batch}": 8.0 * batch * better,
                f"same_text_bytes_per_second_batch_{batch}": 24.0 * batch * better,
                f"bytes_per_second_batch_{batch}": 3.0,
                f"first_token_seconds_batch_{batch}": 0.25 * batch / better,
            }
        made_study.record(made, "speed", "speed", metrics)
    columns = ["steps_per_sentence", "bytes_per_second", "first_token_seconds", "speed_up"]
    (asked,) = read_items([{"item": "speed", "metrics": columns}])
    study = read_study(made_study.settings, made_study.inputs).part(asked)
    table = speed(study)
    assert [label for _, label in table.columns] == [
        "decoding steps per sentence",
        "same text bytes per second, batch 1", "first token seconds batch 1", "speed-up, batch 1",
        "same text bytes per second, batch 16", "first token seconds batch 16",
        "speed-up, batch 16",
    ]  # fmt: skip
    texts = [cell.text for cell in cells(table)["Align"]]
    assert texts == ["45.0", "48.0", "0.125", "2.00", "768.0", "2.000", "2.00"]
    assert any("differ by 3 % in the median, 4 % at most" in note for note in table.notes)


def test_perplexities_over_the_source_vocabulary_carry_a_dagger(made_study):
    made_study.settings["reference"] = {"strategy": FULL}
    cell = ("m", "te-made", "big", "align", FULL, 0)
    for made, ppl, bits in ((SOURCE, 4.0, 2.0), (cell, 90.0, 1.5)):
        made_study.record(made, "ppl", "perplexity", {"perplexity": ppl, "bits_per_byte": bits})
    found = cells(build(perplexity, made_study))
    assert [cell.text for cell in found["Source"]] == ["4.0†", "2.000"]
    assert [cell.text for cell in found["Align"]] == ["90.0", "1.500"]
    align, _ = found["Align"]
    assert (align.change, align.shade) == ("", 0)  # not comparable


def test_members_of_a_group_stand_behind_it(made_study):
    made_study.settings["reference"] = {"strategy": FULL}
    adapted = ("m", "te-made", "big", "align", FULL, 0)
    for cell, bits, ppl in (
        (SOURCE, 2.0, 4.0), (adapted, 1.5, 90.0), ((*adapted[:4], "none", 0), 3.0, 99.0),
    ):  # fmt: skip
        made_study.record(cell, "ppl", "perplexity", {
            "perplexity": ppl, "bits_per_byte": bits,
            "perplexity_sw": ppl + 1, "bits_per_byte_sw": bits + 1,
        })  # fmt: skip
    table = build(perplexity, made_study)
    assert [head for _, head in table.columns] == [
        "ppl: perplexity ↓", "ppl: bits per byte ↓",
        "ppl: perplexity (sw) ↓", "ppl: bits per byte (sw) ↓",
    ]  # fmt: skip
    found = {name: [cell.text for cell in row] for name, row in cells(table).items()}
    assert found["Align"] == ["90.0", "1.500", "91.0", "2.500"]
    assert found["Source"][2:] == ["5.0†", "3.000"]
    assert "bits_per_byte_sw" in set(table.data["metric"])


def test_fragmentation_shows_before_and_after(small):
    small.vocabulary("te-made", new_tokens=500, before=253.0, after=71.0)
    for seed, share in ((0, 0.4), (1, 0.7)):
        cell = ("tiny", "te-made", "expand-500", "align", FULL, seed)
        small.record(cell, "mt", "translation", {"new_token_share_output": share})
    (row,) = build(fragmentation, small).rows
    texts = [cell.text for cell in row.cells]
    assert texts[:2] == ["500", "0.0 %"]
    assert texts[4:6] == ["253.0", "71.0"]
    assert texts[9:11] == ["55.0 %", "0.0 %"]


def test_fragmentation_shows_lengths_of_training_text_and_parameters(small):
    small.vocabulary("te-made")
    record = Path(small.inputs["fragmentation"][-1])
    found = json.loads(record.read_text())
    length = "train_tokens_per_sentence"
    found["metrics"] |= {length: 60.0, f"source_{length}": 80.0}
    record.write_text(json.dumps(found))
    for cell, size in (
        (("tiny", "te-made", "source", "none", FULL, 0), 2_000_000_000),
        (("tiny", "te-made", "expand-500", "align", FULL, 0), 1_500_000_000),
    ):
        small.trained(cell, 3.0, 2.0, parameters=size)
    wanted = ["train_tokens_per_sentence", "parameters"]
    (asked,) = read_items([{"item": "fragmentation", "metrics": wanted}])
    study = read_study(small.settings, small.inputs).part(asked)
    (row,) = fragmentation(study).rows
    assert [cell.text for cell in row.cells] == [
        "80.00", "60.00", "−25.0 %", "2.00", "1.50", "−25.0 %"
    ]  # fmt: skip


def test_fragmentation_follows_a_group_with_its_members(small):
    small.vocabulary("te-made", members={"te-only": {"fertility": 2.5, "source_fertility": 9.0}})
    group, member = build(fragmentation, small).rows
    assert "Te only" in member.stub and "Te only" not in group.stub
    assert [cell.text for cell in member.cells[2:4]] == ["9.00", "2.50"]
    assert member.cells[0].text == "–"


def test_initializers_show_the_statistics_of_their_cards(small):
    small.initialized("te-made", "align")
    small.initialized("te-made", "random", "seed-0")
    small.record(("m", "te-made", "big", "random", FULL, 0), "mt", "translation", {"chrf": 1.0})
    table = build(initializers, small)
    columns = [name for _, name in table.columns]
    found = cells(table)
    assert columns == ["copied", "initialized", "coverage", "recipe", "copy", "fallback", "in hull",
                       "source tokens", "entropy", "largest hub", "input"]  # fmt: skip
    assert [cell.text for cell in found["Random"][:3]] == ["1,500", "500", "75.0 %"]
    assert found["Align"][columns.index("fallback")].text == "0.8 %"
    assert found["Align"][columns.index("in hull")].text == "100.0 %"
    assert found["Align"][columns.index("input")].text == "0.61"
    assert found["Random"][columns.index("in hull")].text == "–"


def test_a_methods_own_statistics_and_greedy_output_follow_and_those_of_its_head_do_not(small):
    small.initialized("te-made", "align")
    card = Path(next(iter(small.inputs["initialization"])), "card.json")
    content = json.loads(card.read_text(encoding="utf-8"))
    content["statistics"] |= {"anchors": 7, "output_mean_entropy": 1.0}
    card.write_text(json.dumps(content), encoding="utf-8")
    for strategy, share in (("none", 0.975), (FULL, 0.2)):
        cell = ("tiny", "te-made", "expand-500", "align", strategy, 0)
        small.record(cell, "greedy-agreement", "greedy_agreement", {"greedy_agreement": share})
    table = build(initializers, small)
    assert table.columns[-2:] == [("greedy output", "unchanged"), ("", "anchors")]
    assert [cell.text for cell in cells(table)["Align"][-2:]] == ["97.5 %", "7"]
    assert "output_mean_entropy" in set(table.data["statistic"])
    # It is no quality that models compete in.
    assert all("greedy" not in name for _, name in build(results, small).columns)


def test_latex_escapes_what_it_would_take_for_commands():
    assert escape_latex("a_b & 5 % #1 {x} ~^\\ $") == (
        r"a\_b \& 5 \% \#1 \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{} \$"
    )


def test_stars_are_stars_in_every_format():
    import pandas

    cell = TableCell("1.0", mark="▲", stars="**", rank=1)
    rows, data = (Row(("x",), (cell,)),), pandas.DataFrame()
    table = Table(("model",), (("", "a"),), rows, data, ("* p < 0.05",))
    assert r"| x | **1.0 ▲\*\*** |" in markdown(table)
    assert r"- \* p < 0.05" in markdown(table)
    assert "<b>1.0</b><i>▲**</i>" in as_html(table)
    assert r"{\tiny$\bigtriangleup$**}" in latex(table)


def test_numbers_have_a_real_minus_and_no_negative_zero():
    assert number(-1234.5, 1) == "−1,234.5"
    assert number(-0.0001, 2) == "0.00"
    assert number(0.25, 1, sign=True) == "+0.2"


def test_each_new_token_has_its_nearest_source_tokens_in_order(made_study):
    fit = ("m", "te-made", "big", "unifyvocab", 0)
    made_study.record((*fit[:4], "none", 0), "mt", "translation", {"chrf": 9.0})
    (item,) = read_items([{"item": "new_tokens", "nearest": True}])
    study = read_study(made_study.settings, made_study.inputs).part(item)
    study.examples[fit] = [{"token": "y", "text": "y", "parts": [], "more": 0}]
    assert new_tokens(study) is None  # no method looks for them
    near = [["one", 0.91], ["two", 0.5]]
    study.examples[fit].append({"token": "x", "text": "x", "parts": [], "nearest": near})
    table = new_tokens(study)
    (row,) = table.rows
    assert row.stub[-2:] == ("UnifyVocab", "x")
    assert [(cell.text, cell.change) for cell in row.cells if cell.text] == [
        ("one", "0.91"), ("two", "0.50"),
    ]  # fmt: skip
    assert table.data["source_token"].tolist() == ["one", "two"]


def test_one_of_several_texts_is_shown_and_named(made_study):
    for cell, bits in ((SOURCE, 2.0), (("m", "te-made", "big", "align", FULL, 0), 1.5)):
        for task, factor in (("ppl", 1), ("law", 1.5)):
            metrics = {"bits_per_byte": factor * bits, "perplexity": 9.0}
            made_study.record(cell, task, "perplexity", metrics)
    made_study.record(SOURCE, "a", "perplexity", {"bits_per_byte": 9.0})  # only Source has read it
    table = build(perplexity, made_study)
    assert [cell.text for cell in cells(table)["Align"]] == ["9.0", "1.500"]
    assert [head for _, head in table.columns] == ["ppl: perplexity ↓", "ppl: bits per byte ↓"]
