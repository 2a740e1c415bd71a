"""Alignment beside the loss that training starts from: the numbers, the table and the figure."""

import json
from pathlib import Path

import pytest

from lexigraft.report.figures.alignment_loss import alignment_loss
from lexigraft.report.records import read_study
from lexigraft.report.tables.alignment import alignment, alignments, rank_correlation
from tests.report.drawing import drawn_figure, legend_names

FULL = "full-clm-512"


@pytest.fixture
def aligned(made_study):
    """Four initializers on two seeds; the better aligned, the lower their first loss."""
    made_study.settings["reference"] = {"strategy": FULL}
    for rank, name in enumerate(("random", "permutation", "mean", "unifyvocab")):
        made_study.aligned("te-made", name, None if name == "random" else 10.0 * rank)
        for seed in (0, 1):
            cell = ("tiny", "te-made", "expand-500", name, FULL, seed)
            made_study.record(cell, "ppl", "perplexity", {"bits_per_byte": 1.0})
            made_study.trained(cell, 3.0 - 0.5 * rank, 1.0)
            log = Path([*made_study.inputs["training"]][-1], "log.jsonl")
            lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            for line in lines:
                if line["event"] == "step":
                    line["loss"] = (9.0 - rank + 0.5 * seed) if line["step"] == 1 else 1.0
            # The order of the lines does not decide which is the first step.
            log.write_text(
                "".join(json.dumps(line) + "\n" for line in reversed(lines)), encoding="utf-8"
            )
    return made_study


def study_of(made):
    return read_study(made.settings, made.inputs)


def test_each_initializer_has_its_metrics_and_what_training_starts_from(aligned):
    frame = alignments(study_of(aligned)).set_index("initializer")
    # Rows that are drawn have no alignment.
    assert list(frame.index) == ["permutation", "mean", "unifyvocab"]
    assert frame["bleu"].tolist() == [10.0, 20.0, 30.0]
    # Means over the seeds 0 and 1: 9 - rank + 0.25.
    assert frame["first_loss"].tolist() == [8.25, 7.25, 6.25]
    assert frame["bits_per_byte_before"].tolist() == [2.5, 2.0, 1.5]


def test_without_alignments_or_losses_there_is_no_figure(made_study):
    cell = ("tiny", "te-made", "expand-500", "mean", "none", 0)
    made_study.record(cell, "ppl", "perplexity", {"bits_per_byte": 1.0})
    assert alignment(study_of(made_study)) is None
    made_study.aligned("te-made", "mean", 20.0)
    table = alignment(study_of(made_study))
    assert [name for _, name in table.columns] == ["BLEU ↑", "BLEU-1 ↑", "vocabulary ↑", "text ↑"]
    assert alignment_loss(study_of(made_study), None) is None


def test_the_table_marks_the_best(aligned):
    study = study_of(aligned)
    table = alignment(study)
    rows = {row.stub[-1]: row.cells for row in table.rows}
    assert rows["UnifyVocab"][0].text == "30.0"
    assert [rows[name][0].rank for name in ("UnifyVocab", "Mean", "Permutation")] == [1, 2, 0]
    loss = [name for _, name in table.columns].index("loss of the first step ↓")
    assert [rows[name][loss].rank for name in ("UnifyVocab", "Mean", "Permutation")] == [1, 2, 0]
    assert "Held-out bits per byte before: on the 16 sentences scored" in table.notes[0]


def test_the_figure_has_a_point_for_each_initializer(aligned):
    figure = drawn_figure(alignment_loss, aligned)
    bleu, bleu_1 = figure.axes
    assert [line.get_xydata().tolist() for line in bleu.lines] == [
        [[10.0, 8.25]], [[20.0, 7.25]], [[30.0, 6.25]],
    ]  # fmt: skip
    assert [line.get_xdata()[0] for line in bleu_1.lines] == [25.0, 40.0, 55.0]
    assert legend_names(figure) == ["Permutation", "Mean", "UnifyVocab"]
    assert bleu.get_xlabel() == "BLEU, n = 3\nrank correlation −1.00"


def test_the_correlation_is_spearmans():
    import pandas
    from scipy.stats import spearmanr

    one = pandas.Series([3.0, 1.0, 4.0, 1.0, 5.0, None])
    other = pandas.Series([2.0, 7.0, 1.0, 8.0, 2.0, 9.0])
    expected = spearmanr(one[:5], other[:5]).statistic
    assert rank_correlation(one, other) == pytest.approx(expected)
    assert rank_correlation(one[:2], other[:2]) is None
