"""Scores that say nothing are shown as numbers: not coloured, ranked, starred or compared."""

import pytest

from lexigraft.report.figures.checkpoints import checkpoints
from lexigraft.report.records import read_study
from lexigraft.report.samples import sample_outputs
from lexigraft.report.table import as_html, latex
from lexigraft.report.tables.results import results
from lexigraft.report.tables.significance import significance
from tests.report.drawing import drawn_figure

FULL = "full-clm-512"


def cell(initializer, strategy=FULL, vocabulary="big", language="te-made"):
    return ("m", language, vocabulary, initializer, strategy, 0)


SOURCE = cell("none", "none", "source")


def outputs(score, *words):
    """Summaries that score so much each; the words of the first ones."""
    rows = [{"id": f"{at}", "source": f"article {at}", "output": "text", "reference": "r",
             "rouge_l": score, "steps": 11} for at in range(8)]  # fmt: skip
    for row, word in zip(rows, words, strict=False):
        row["output"] = word
    return rows


@pytest.fixture
def made(made_study):
    """Random has the best summaries of all, which are noise; Align is the best by bits per byte."""
    made_study.settings["reference"] = {"strategy": FULL}
    for one, bits, score in ((SOURCE, 3.0, 1.0), (cell("align"), 1.5, 2.0),
                             (cell("random"), 2.5, 9.0)):  # fmt: skip
        made_study.record(one, "ppl", "perplexity", {"bits_per_byte": bits, "perplexity": 9.0})
        rows = outputs(score, f"by {one[3]}")
        made_study.record(one, "sum", "summarization", {"rouge_l": score}, predictions=rows)
    return made_study


def study(made):
    return read_study(made.settings, made.inputs)


def scores(table, at):
    return {row.stub[-1]: row.cells[at] for row in table.rows}


def test_noise_has_no_colour_rank_stars_or_change(made):
    table = results(study(made))
    quality, noise = scores(table, 0), scores(table, 1)
    assert quality["Align"].rank == 1 and quality["Align"].shade > 0 and quality["Align"].change
    assert [cell.text for cell in noise.values()] == ["1.0", "2.0", "9.0"]
    for one in noise.values():
        assert (one.shade, one.rank, one.stars, one.change, one.mark) == (0, 0, "", "", "")
    assert "p" not in table.data  # nothing else has outputs
    note = "sum, Telugu: no model reaches 10 ROUGE-L. Such scores are noise: "
    assert any(text.startswith(note) for text in table.notes)
    assert r"\textcolor{gray}{9.0}" in latex(table)
    assert '<td style="color:var(--muted)"><b>9.0</b>' in as_html(table)
    # One score above the noise makes all of its column count.
    made.record(cell("mean"), "sum", "summarization", {"rouge_l": 40.0}, predictions=outputs(40.0))
    table = results(study(made))
    quality = scores(table, 1)
    assert quality["Mean"].rank == 1 and quality["Mean"].stars == "**"
    assert quality["Random"].shade > 0


def test_differences_of_noise_are_not_tested(made):
    assert significance(study(made)) is None
    rows = outputs(40.0)
    for one in (("none", "none", "source"), ("align",)):
        own = cell(*one, language="el-made")
        made.record(own, "sum", "summarization", {"rouge_l": 40.0}, predictions=rows)
    table = significance(study(made))
    assert [language for language, _ in table.columns] == ["Greek"]


def test_figures_say_which_scores_are_noise(made):
    made.trained(cell("align"), 3.0, 1.5, checkpoints=2)
    made.record(cell("align"), "sum", "summarization", {"rouge_l": 1.5}, checkpoint=1)
    figure = drawn_figure(checkpoints, made)
    assert [axis.get_ylabel() for axis in figure.axes] == ["ROUGE-L ↑ (noise)"]


def test_samples_are_of_source_and_the_recommended_cell_whatever_the_noise_says(made):
    ((_, rows),) = sample_outputs(study(made))
    assert [name for name, *_ in rows[0]] == [
        "Prompt", "Reference", "Source model", "Best configuration: Align",
    ]  # fmt: skip
    assert [text for _, text, _ in rows[0][2:]] == ["by none", "by align"]
    assert all(score is None for row in rows for *_, score in row)
    # In the order of the tests: no score orders them.
    assert [row[0][1] for row in rows] == [f"article {at}" for at in (0, 2, 5, 7)]


def test_samples_of_a_chat_task_in_english_alone_have_no_reference(made):
    for axes, score in ((SOURCE, 0.0), (cell("align"), 1.0)):
        rows = [{"id": f"english-ifeval-{at}", "test": "english", "source": "Say yes.",
                 "prompt": "<|im_start|>", "output": f"by {axes[3]}", "reference": "",
                 "accuracy": score} for at in range(2)]  # fmt: skip
        metrics = {"accuracy": score}
        made.record(axes, "ifeval", "harness_generation", metrics, predictions=rows)
    samples = dict(sample_outputs(study(made)))
    assert samples["Telugu, ifeval"][0] == [
        ("Prompt", "Say yes.", None), ("Source model", "by none", 0.0),
        ("Best configuration: Align", "by align", 1.0),
    ]  # fmt: skip
