"""How much of the gap to the source model untrained grafts close: shares, ranks, intervals."""

import math

import numpy as np
import pytest

from lexigraft.report.figures.gap_closed import gap_closed
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.leaderboard import (
    gaps,
    interval_of_mean,
    leaderboard,
    share_closed,
)
from tests.report.drawing import drawn_figure

# Bits per byte by language: the source, then random, mean, merge, and align, which ties with merge.
BITS = {
    "te-made": {"none": 1.0, "random": 3.0, "mean": 2.0, "merge": 1.5, "align": 1.5},
    "el-made": {"none": 2.0, "random": 4.0, "mean": 3.5, "merge": 2.5, "align": 3.0},
}


def sentences(bits, count=4):
    """Sentences of 100 bytes each, all with the same bits per byte."""
    return [{"id": f"heldout-{at}", "test": "heldout", "tokens": 9, "bytes": 100,
             "nats": 100 * bits * math.log(2)} for at in range(count)]  # fmt: skip


def score(made, language, initializer, bits, task="text", rows=None, seed=0):
    vocabulary = "source" if initializer == "none" else "expand-500"
    cell = ("tiny", language, vocabulary, initializer, "none", seed)
    rows = sentences(bits) if rows is None else rows
    made.record(cell, task, "perplexity", {"bits_per_byte": bits}, predictions=rows)


@pytest.fixture
def made(made_study):
    for language, scores in BITS.items():
        for initializer, bits in scores.items():
            score(made_study, language, initializer, bits)
            if initializer != "none":
                made_study.initialized(language, initializer)
    return made_study


def part_of(made, **item):
    study = read_study(made.settings, made.inputs)
    return study.part(read_items([{"item": "leaderboard", **item}])[0])


def means_of(made, task="text", **item):
    """The means over languages, by initializer."""
    study = part_of(made, **item)
    gap = gaps(study)["tiny", "expand-500", task]
    return {model.initializer: results[""] for model, results in gap.items()
            if "" in results and not model.baseline}  # fmt: skip


def test_shares_and_ranks_of_a_worked_example(made):
    # Of a gap of 2, mean, merge and align close 1, 1.5 and 1.5 in Telugu, 0.5, 1.5 and 1 in Greek.
    means = means_of(made)
    shares = {name: one.share for name, one in means.items()}
    assert shares == pytest.approx({"random": 0, "mean": 0.375, "merge": 0.75, "align": 0.625})
    # Telugu: merge and align share ranks 1 and 2; Greek: merge, align, mean, random.
    ranks = {name: one.rank for name, one in means.items()}
    assert ranks == {"random": 4, "mean": 3, "merge": 1.25, "align": 1.75}
    assert means["align"].bits == pytest.approx(2.25)


def test_sentences_without_any_spread_leave_that_of_the_languages(made):
    # Means of two draws of the shares 0.75 and 0.5 are 0.5, 0.625 and 0.75.
    align = means_of(made)["align"]
    assert (align.low, align.high) == pytest.approx((0.5, 0.75))
    alone = means_of(made, where={"languages": ["el-made"]})["align"]
    assert (alone.share, alone.low, alone.high) == pytest.approx((0.5, 0.5, 0.5))


def test_languages_and_sentences_both_widen_the_interval():
    rng = np.random.default_rng(6)
    levels = np.array([0.3, 0.5, 0.6, 0.8])[:, None]

    def width(spread):
        drawn = levels + spread * rng.standard_normal((4, 5000))
        low, high = interval_of_mean(drawn, np.random.default_rng(1))
        return high - low

    # The variance of a mean of four: that of a drawn language, and that of its sentences.
    for spread in (0.0, 0.1, 0.3):
        expected = 2 * 1.96 * math.sqrt((levels.var() + spread**2) / 4)
        assert width(spread) == pytest.approx(expected, rel=0.08)


def test_where_random_rows_are_no_worse_than_the_source_there_is_no_gap(made):
    assert share_closed(3.0, 2.5, 2.0) == 0.5
    assert share_closed(3.0, 3.5, 2.0) == -0.5  # worse than random rows
    assert np.isnan(share_closed(2.0, 1.5, 2.0))
    score(made, "my-made", "none", 3.0)
    score(made, "my-made", "random", 2.9)
    score(made, "my-made", "merge", 2.8)
    assert means_of(made)["merge"].share == pytest.approx(0.75)
    notes = leaderboard(part_of(made)).notes
    assert any(note.startswith("Left out") and "My made" in note for note in notes)


def test_an_initializer_that_lacks_a_language_has_no_mean_and_a_note_names_it(made):
    score(made, "te-made", "multivariate", 2.0)
    assert "multivariate" not in means_of(made)
    table = leaderboard(part_of(made))
    [row] = [row for row in table.rows if row.stub[-1] == "Multivariate"]
    assert [cell.text for cell in row.cells[:3]] == ["–"] * 3
    assert any("not measured" in note and "Multivariate" in note for note in table.notes)


def test_another_draw_of_random_rows_widens_the_interval(made):
    def width():
        merge = means_of(made, where={"languages": ["te-made"]})["merge"]
        return merge.high - merge.low

    assert width() == pytest.approx(0)
    score(made, "te-made", "random", 3.2, seed=1)
    assert width() > 0.02


def test_the_table_is_from_the_best_on_below_the_source_with_the_costs_of_the_rows(made):
    for language, seconds in (("te-made", 2.0), ("el-made", 6.0)):
        numbers = {"seconds": seconds, "peak_memory_bytes": 10**9 + seconds, "relative_norm": 0.5}
        made.initialized(language, "merge", **numbers)
    table = leaderboard(part_of(made))
    assert [row.stub[-1] for row in table.rows] == ["Source", "Merge", "Align", "Mean", "Random"]
    source, merge = table.rows[:2]
    assert [cell.text for cell in source.cells[:2]] == ["1.500", "100.0 %"]
    assert [cell.text for cell in merge.cells[:3]] == ["2.000", "75.0 %", "1.2"]
    assert merge.cells[1].change == "75.0 to 75.0"
    # The mean time over languages, and the most memory.
    assert [cell.text for cell in merge.cells[3:]] == ["4.0", "1,000", "0.50", "100.0 %"]
    means = table.data[table.data["language"] == ""].set_index("initializer")
    assert means.loc["merge", "gap_closed"] == pytest.approx(0.75)
    own = table.data[(table.data["language"] == "el-made") & (table.data["initializer"] == "mean")]
    assert own["gap_closed"].tolist() == [0.25]


def test_without_random_rows_there_is_no_gap(made):
    assert gaps(part_of(made, where={"initializers": ["merge"]})) == {}
    assert leaderboard(part_of(made, where={"initializers": ["merge"]})) is None


def test_the_figure_has_a_mark_for_each_language_and_the_mean(made):
    score(made, "te-made", "gaussian", 9.0)  # far beyond the axis
    item = read_items(["gap_closed"])[0]
    [axis] = drawn_figure(gap_closed, made, item).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [
        "Merge", "Align", "Mean", "Random", "Gaussian",
    ]  # fmt: skip
    marks = [line for line in axis.lines if line.get_marker() in ("o", "s")]
    assert [line.get_xdata()[0] for line in marks if line.get_ydata()[0] == 0] == [75, 75]
    assert max(line.get_ydata()[0] for line in marks) == 3
    assert {text.get_text() for text in axis.texts} == {"75", "62", "38", "0"}
