"""Which differences tables mark: on examples and seeds that are made up to differ or not to."""

import json
import random
from pathlib import Path

import pytest

from lexigraft.report.frame import Model
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.significance import RESAMPLES, score_differences
from lexigraft.report.tables.results import results
from lexigraft.report.tables.significance import significance

SOURCE = ("m", "te-made", "source", "none", "none", 0)
LAPT = ("m", "te-made", "source", "none", "full", 0)
COLUMN = ("te-made", "sum", "rouge_l")


def cell(initializer, seed=0):
    return ("m", "te-made", "big", initializer, "full", seed)


def model(initializer):
    return Model("m", "big", initializer, "full")


@pytest.fixture
def made(made_study):
    """`write(cell, mean, spread=…)`: a run of a hundred summaries that score about `mean`."""
    made_study.settings["reference"] = {"strategy": "full"}

    def write(cell, mean, spread=2.0, examples=100, run=0, recorded=None, task="sum"):
        common = random.Random(f"examples {run}")
        draw = random.Random(repr((cell, run)))
        rows = [{"id": f"{run}-{at}", "rouge_l": mean + common.gauss(0, 5) + draw.gauss(0, spread)}
                for at in range(examples)]  # fmt: skip
        level = sum(row["rouge_l"] for row in rows) / examples
        metrics = {"rouge_l": level if recorded is None else recorded}
        made_study.record(cell, task, "summarization", metrics, run, rows)
        return level

    made_study.write = write
    return made_study


def open_study(made):
    return read_study(made.settings, made.inputs)


def compared(made, *names):
    source = Model("m", "source", "none", "none")
    return score_differences(open_study(made), [(model(name), source, COLUMN) for name in names])


def table(made, module=results, item="results"):
    (asked,) = read_items([item])
    study = open_study(made).part(asked)
    return module(study)


def cells(table):
    return {row.stub[-1]: row.cells[0] for row in table.rows}


def test_a_difference_has_stars_and_its_interval_p_and_effect_size_are_in_the_csv(made):
    source, align = made.write(SOURCE, 30), made.write(cell("align"), 34)
    made.write(cell("mean"), 30)
    shown = table(made)
    assert cells(shown)["Align"].stars == "**"
    assert cells(shown)["Mean"].stars == cells(shown)["Source"].stars == ""
    rows = shown.data.set_index("initializer")
    found = rows.loc["align"]
    assert found["change_low"] < found["change"] == pytest.approx(align - source)
    assert found["change"] < found["change_high"]
    assert found["p"] == pytest.approx(1 / (RESAMPLES + 1))
    # Each example differs by 4 ± √(2² + 2²).
    assert found["effect_size"] == pytest.approx(4 / 8**0.5, abs=0.25)
    assert rows["p"].isna().sum() == 1  # Source is compared with nothing


def test_p_is_corrected_for_all_comparisons_of_a_table(made):
    made.write(SOURCE, 30)
    for name, mean in (("align", 34), ("mean", 30.5), ("merge", 30), ("random", 30)):
        made.write(cell(name), mean)
    found = compared(made, "align", "mean", "merge", "random")
    ps = sorted(one.p for one in found)
    # Benjamini and Hochberg, written as in their paper.
    expected = [min(4 / rank * p for rank, p in enumerate(ps, 1) if rank > at)
                for at in range(4)]  # fmt: skip
    assert sorted(one.corrected for one in found) == pytest.approx(
        [min(value, 1) for value in expected]
    )


def test_what_differs_between_seeds_takes_the_stars_from_one_of_them(made):
    made.write(SOURCE, 30)
    for seed, mean in enumerate((26, 38)):
        made.write(cell("align", seed), mean)
    (one,) = compared(made, "align")
    assert one.value == pytest.approx(2, abs=1)
    assert (one.stars, one.freedom) == ("", 1)
    # The same scores as runs of one seed, where other examples are all that could change.
    Path(made.inputs["records"].pop()).unlink()
    Path(made.inputs["records"].pop()).unlink()
    made.write(cell("align"), 32)
    (one,) = compared(made, "align")
    assert (one.stars, one.freedom) == ("**", 0)


def test_rows_drawn_at_random_say_nothing_about_the_seeds_of_others(made):
    made.write(SOURCE, 30)
    for seed, shift in enumerate((-8, 8)):
        made.initialized("te-made", "random", f"seed-{seed}", source="m")
        made.write(cell("random", seed), 34 + shift)
        made.write(cell("merge", seed), 34 + shift / 100)
    made.initialized("te-made", "merge", source="m")
    made.write(cell("align"), 34)  # with one seed: it borrows that of merge
    random, merge, align = compared(made, "random", "merge", "align")
    assert random.p > 0.1 and merge.p < 0.05 and align.p < 0.05
    assert (random.freedom, merge.freedom, align.freedom) == (1, 1, 1)


def test_a_part_of_a_study_knows_the_spread_of_all_of_it(made):
    made.write(SOURCE, 30)
    made.write(cell("align"), 33)
    for seed, mean in enumerate((27, 31, 35)):
        made.write(cell("mean", seed), mean)
    study = open_study(made)
    (item,) = read_items([{"item": "results", "where": {"initializers": ["align"]}}])
    wanted = [(model("align"), Model("m", "source", "none", "none"), COLUMN)]
    (one,), (other,) = score_differences(study, wanted), score_differences(study.part(item), wanted)
    assert one == other
    assert one.freedom == 2


def test_a_score_that_its_examples_do_not_make_is_not_tested(made):
    made.write(SOURCE, 30)
    made.write(cell("align"), 34, recorded=33.0)
    found = table(made)
    assert cells(found)["Align"].stars == ""
    assert any(note.startswith("Not tested, for lack of") and "sum (ROUGE-L)" in note
               for note in found.notes)  # fmt: skip


def test_runs_have_examples_of_their_own(made):
    for run in (0, 1):
        made.write(SOURCE, 30, run=run)
        made.write(cell("align"), 34, run=run)
    made.write(cell("align"), 90, run=2)  # which Source does not have
    (one,) = compared(made, "align")
    assert (one.examples, one.outputs) == (200, 200)
    assert one.value == pytest.approx(4, abs=1)


def test_the_table_of_differences_has_them_with_p_and_effect(made):
    made.write(SOURCE, 30)
    made.write(LAPT, 33)
    made.write(cell("align"), 34)
    found = table(made, significance, "significance")
    rows = {(row.stub[0], row.stub[-1]): row.cells[0] for row in found.rows}
    assert [*rows] == [("Source", "LAPT"), ("Source", "Align"), ("LAPT", "Align")]
    assert rows["Source", "Align"].stars == "**"
    assert " to " in rows["Source", "Align"].change
    assert "p < 0.001; d = +1." in rows["Source", "Align"].change
    assert {"p", "p_corrected", "effect_size", "seed_freedom"} <= set(found.data.columns)


def test_models_are_compared_with_those_that_differ_in_one_name(made):
    made.write(SOURCE, 30)
    made.write(LAPT, 33)
    written = {name: made.write(cell(name), mean)
               for name, mean in (("random", 28), ("mean", 31), ("align", 34))}  # fmt: skip
    made.write(("m", "te-made", "small", "align", "full", 0), 36)
    item = {"item": "significance", "baselines": {"initializers": ["random", "mean"]}}
    found = table(made, significance, item)
    rows = {(row.stub[0], row.stub[-1]): row.cells[0] for row in found.rows}
    # The model with the small vocabulary has no baseline that is otherwise the same.
    assert {*rows} == {
        ("Random", "Mean"),
        ("Random", "Align"),
        ("Mean", "Random"),
        ("Mean", "Align"),
    }
    assert rows["Mean", "Align"].value == pytest.approx(written["align"] - written["mean"])
    assert set(found.data["baseline_vocabulary"]) == {"big"}

    item = {"item": "significance", "baselines": {"vocabularies": ["big"]}}
    (row,) = table(made, significance, item).rows
    assert row.stub[0] == "big"


def test_a_learned_metric_is_tested_by_its_scores(made):
    for one, mean in ((SOURCE, 30), (cell("align"), 30)):
        made.write(one, mean)
        record = Path(made.inputs["records"][-1])
        draw = random.Random(repr(one))
        scores = [0.5 + (one != SOURCE) * 0.2 + draw.gauss(0, 0.1) for _ in range(100)]
        file = record.parent / "learned" / "comet.json"
        file.parent.mkdir()
        base = json.loads(record.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**base, "learned_metric": "comet",
                                    "metrics": {"comet": sum(scores) / 100}, "scores": scores,
                                    "ids": [f"0-{at}" for at in range(100)]}))  # fmt: skip
        made.inputs.setdefault("learned", []).append(str(file))
    study = open_study(made)
    pair = (model("align"), Model("m", "source", "none", "none"))
    comet, rouge = score_differences(study, [(*pair, ("te-made", "sum", name))
                                       for name in ("comet", "rouge_l")])  # fmt: skip
    assert comet.stars == "**" and comet.value == pytest.approx(0.2, abs=0.05)
    assert rouge.stars == ""
