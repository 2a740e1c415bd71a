"""Families of models in one table, against scores worked out by hand."""

import pytest

from lexigraft.report.drawing import Look
from lexigraft.report.figures.family_scores import family_scores
from lexigraft.report.items import read_items
from lexigraft.report.records import read_study
from lexigraft.report.tables.comparison import comparison

FULL = "full-clm-512"
LANGUAGES = {
    "latin": {"name": "Latin group"},
    "cyrillic": {"name": "Cyrillic group"},
    "sw": {"name": "Swahili", "code": "sw"},
    "ru": {"name": "Russian", "code": "ru"},
    "en": {"name": "English", "code": "en"},
}
# Accuracies of each language, as records of groups and of single languages name them.
SOURCE = {"sw": 0.30, "ru": 0.40, "en": 0.50}
GROUPS = {"latin": ("sw",), "cyrillic": ("ru",)}


def accuracies(language, scores):
    """The metrics of one record: the mean, each member's, and English's."""
    if language not in GROUPS:
        return {"accuracy": scores[language], "english_accuracy": scores["en"]}
    own = {f"accuracy_{one}": scores[one] for one in GROUPS[language]}
    return {"accuracy": 0.0, **own, "english_accuracy": scores["en"]}


@pytest.fixture
def built(made_study):
    """An adapter of each group, two seeds; a model of Swahili alone; translation into two."""

    def record(names, seed, task, kind, metrics):
        made_study.record(("m", *names, seed), task, kind, metrics)

    made_study.inputs["languages"] = LANGUAGES
    for language, member in (("latin", "sw"), ("cyrillic", "ru")):
        cells = [("source", "none", "none", 0, 0.0), ("big", "adapter", FULL, 0, 0.1),
                 ("big", "adapter", FULL, 1, 0.3)]  # fmt: skip
        for vocabulary, initializer, strategy, seed, gain in cells:
            names = (language, vocabulary, initializer, strategy)
            scores = {name: value + gain for name, value in SOURCE.items()}
            record(names, seed, "xnli", "multiple_choice", accuracies(language, scores))
            record(names, seed, f"en-{member}", "translation", {"bleu": 10 + 10 * gain})
    alone = ("sw", "big", "zett", "none")
    record(alone, 0, "xnli", "multiple_choice", accuracies("sw", {"sw": 0.7, "en": 0.8}))
    record(alone, 0, "en-sw", "translation", {"bleu": 14.0})

    adapter = {"initializers": ["adapter"]}

    def build(module=comparison, **options):
        families = [
            {"title": "Original", "models": [{"initializers": ["none"]}]},
            {"title": "Multi", "models": [{**adapter, "languages": [name]} for name in GROUPS]},
            {"title": "Mono", "models": [{"initializers": ["zett"]}]},
        ]
        (item,) = read_items([{"item": module.__name__, "families": families, **options}])
        part = read_study(made_study.settings, made_study.inputs).part(item)
        if module is comparison:
            return comparison(part)
        return module(part, Look(()))

    return build


def values(table):
    """Row -> its numbers in the order of the columns, rounded."""
    return {row.stub[0]: [cell.value and round(cell.value, 3) for cell in row.cells]
            for row in table.rows}  # fmt: skip


def test_a_family_has_each_score_from_the_model_that_has_the_language(built):
    table = built(tasks=["xnli"], tested=["sw", "ru", "en"])
    assert [group for group, _ in table.columns] == ["Swahili", "Russian", "English"]
    assert values(table) == {
        "Original": [0.3, 0.4, 0.5],
        "Multi": [0.5, 0.6, 0.7],
        "Mono": [0.7, None, 0.8],
    }
    multi = "Swahili and English by Latin group (full-clm-512); Russian by Cyrillic group"
    assert f"Multi: {multi} (full-clm-512)." in table.notes


def test_an_average_is_of_the_families_that_have_every_language(built):
    averages = [{"title": "Avg", "over": ["languages"], "languages": ["sw", "ru"]}]
    table = built(tasks=["xnli"], tested=["sw", "ru", "en"], averages=averages)
    assert {name: row[-1] for name, row in values(table).items()} == {
        "Original": 0.35, "Multi": 0.55, "Mono": None,
    }  # fmt: skip
    (multi,) = [row for row in table.rows if row.stub == ("Multi", "2")]
    # Seeds have 0.45 and 0.65: a deviation of 0.2 / sqrt(2).
    assert (multi.cells[-1].deviation, multi.cells[-1].change) == ("0.141", "+0.200")


def test_tasks_that_test_one_language_are_columns_without_one(built):
    table = built(tasks=["en-sw", "en-ru", "xnli"], tested=["sw", "ru"], metrics=["bleu"])
    assert [group for group, _ in table.columns] == ["", ""]
    assert values(table) == {"Original": [10, 10], "Multi": [12, 12], "Mono": [14, None]}


def test_a_task_that_nothing_was_tested_on_is_named(built):
    assert "Not measured: xcopa." in built(tasks=["xnli", "xcopa"], tested=["sw"]).notes
    assert built(tasks=["xcopa"]) is None
    assert built(family_scores, tasks=["xcopa"]) is None


def points(figure):
    """Name of a family -> the values of its marks, from above."""
    (axis,) = figure.axes
    return {bars.get_label(): [round(float(x), 3) for x in bars.lines[0].get_xdata()]
            for bars in axis.containers}  # fmt: skip


def test_the_figure_draws_averages_alone_or_changes_in_percent(built):
    averages = [{"title": "Avg", "over": ["languages"]}]
    figure = built(family_scores, tasks=["xnli"], tested=["sw", "ru", "en"], averages=averages)
    assert points(figure) == {"Original": [0.4], "Multi": [0.6]}
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["Avg, xnli"]
    figure = built(family_scores, tasks=["en-sw", "en-ru"], metrics=["bleu"], relative=True)
    assert points(figure) == {"Original": [0, 0], "Multi": [20, 20], "Mono": [40]}


def test_changes_are_from_a_family_that_the_item_names(built):
    table = built(tasks=["en-sw", "en-ru"], metrics=["bleu"], change="times", relative_to="Multi")
    changes = {row.stub[0]: [cell.change for cell in row.cells] for row in table.rows}
    assert changes == {"Original": ["0.83×", "0.83×"], "Multi": ["", ""], "Mono": ["1.17×", ""]}
    assert any("how many times as good as Multi" in note for note in table.notes)
