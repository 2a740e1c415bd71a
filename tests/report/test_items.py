"""Items of a report: what a config may name, and which part of a study an item shows."""

import re
import sys
from dataclasses import replace

import pandas
import pytest

from lexigraft import plugins
from lexigraft.errors import UserError
from lexigraft.report import items
from lexigraft.report.frame import Model
from lexigraft.report.items import (
    DEFAULT,
    GROUPS,
    Item,
    check_items,
    kinds,
    load,
    read_items,
    records_read,
)
from lexigraft.report.models import models
from lexigraft.report.records import read_study
from tests.conftest import REPOSITORY, run_command
from workflow.config.registries import REGISTRIES
from workflow.config.study import Report, StudyConfig
from workflow.inputs.report import report_files
from workflow.study import Study

BLOCK = {"sources": ["m"], "languages": ["te", "el"], "vocabularies": ["source", "big"],
         "initializers": ["none", "align"], "strategies": ["none", "full"]}  # fmt: skip
FRAGMENTATION = {"tokenizers": ["small", "large"], "languages": ["te", "my"]}


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_says_what_it_shows_and_why_it_may_be_empty(kind):
    declared = load(kind)
    assert declared.title
    assert declared.empty
    assert Item(kind, kind, options=declared.options()).caption().endswith(".")
    assert declared.group == kinds()[kind]


def test_reading_items_loads_no_heavy_library():
    """Snakemake itself loads numpy and pandas."""
    code = (
        "import sys\n"
        "from lexigraft.report.items import kinds, read_items\n"
        "read_items([*kinds()])\n"
        "heavy = ('matplotlib', 'scipy', 'torch', 'transformers')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    result = run_command([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
    assert result.stdout.strip() == "[]"


def test_a_caption_names_the_strategy_and_the_seeds(two):
    (item,) = read_items(["loss_curves"])
    assert "means over 2 seeds" in item.caption("full", "2 seeds")
    (item,) = read_items(["vocabulary_size"])
    assert "Training: full." in item.caption("full")
    assert "Training: no training." in item.caption(None)


def test_an_item_is_named_after_its_kind_unless_it_has_a_name():
    assert [item.name for item in read_items([])] == list(DEFAULT)
    plain, named = read_items(["results", {"item": "results", "name": "table-1"}])
    assert (plain.kind, plain.name, plain.label) == ("results", "results", "Results")
    assert (named.kind, named.name, named.label) == ("results", "table-1", "Table 1")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["resluts"], "report.items[0]: 'resluts' is not known; did you mean 'results'?"),
        (["speed", "speed"], "report.items[1]: the name 'speed' already exists"),
        ([{"item": "forgetting", "tasks": ["mt"]}], "report.items[0]: unknown key 'tasks'"),
        ([{"item": "speed", "metrics": ["speedup"]}],
         "report.items[0].metrics[0]: 'speedup' is not one of 'steps_per_sentence', "),
        ([{"item": "family_scores", "relative": "4"}],
         "report.items[0].relative: '4' is not true or false"),
        ([{"item": "results", "tasks": ["mt", "mt"]}],
         "report.items[0].tasks: 'mt' is listed twice; list each once"),
        ([{"item": "results", "where": {"source": ["m"]}}],
         "report.items[0].where: unknown key 'source'; did you mean 'sources'?"),
        ([{"item": "significance", "baselines": {"initializer": ["align"]}}],
         "report.items[0].baselines: unknown key 'initializer'; did you mean 'initializers'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_the_users_error(items, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read_items(items)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"where": {"initializers": ["aling"]}},
         ".where.initializers: 'aling' is not in this study; did you mean 'align'?"),
        ({"tasks": ["translate"]}, ".tasks: 'translate' is not run by this study; did you mean"),
        ({"speed_up_of": "merge"}, ".speed_up_of: 'merge' is not in this study; choose from align"),
        ({"item": "significance", "baselines": {"initializers": ["aling"]}},
         ".baselines.initializers: 'aling' is not in this study; did you mean 'align'?"),
        ({"averages": [{"tasks": ["arc", "bolq"]}]},
         ".averages[0].tasks: 'arc' is not run by this study; choose from"),
        ({"averages": [{"title": "translation"}]}, ".averages[0].title: 'translation' is already"),
    ],
)  # fmt: skip
def test_a_name_that_the_study_does_not_have_is_the_users_error(item, message):
    items = read_items([{"item": "results", **item}])
    with pytest.raises(UserError, match=re.escape(f"report.items[0]{message}")):
        check_items(items, [BLOCK], {"translation": {}}, FRAGMENTATION)


def test_items_declare_the_records_that_they_alone_read():
    assert records_read(read_items([])) == set()
    assert records_read(read_items(["results", "alignment_loss"])) == {"alignment"}


def test_the_workflow_knows_the_files_of_every_item():
    items = ["recommendation", "results", {"item": "results", "name": "table-5"}, "vocabulary_size"]
    settings = StudyConfig.model_construct(study="s", results="r", report=Report(items=items))
    study = Study(settings, {kind: {} for kind in REGISTRIES}, {})
    files = {group: [file["value"] for file in report_files(study, group)] for group in GROUPS}
    assert files == {
        "pages": ["r/report/s/recommendation.html"],
        "tables": ["r/report/s/tables/results.html", "r/report/s/tables/table-5.html"],
        "figures": ["r/report/s/figures/vocabulary_size.png"],
    }


@pytest.fixture
def two(made_study):
    """Two source models with Source, LAPT, and two initializers of two vocabularies."""
    made_study.settings["reference"] = {"strategy": "full"}
    for source in ("first", "second"):
        for key in (("source", "none", "none"), ("source", "none", "full"), ("big", "mean", "full"),
                    ("big", "align", "full"), ("small", "align", "full")):  # fmt: skip
            made_study.record((source, "te", *key, 0), "mt", "translation", {"chrf": 9.0})
    return read_study(made_study.settings, made_study.inputs)


def test_a_part_has_the_baselines_and_the_named_models_in_the_order_of_the_item(two):
    where = {"source": ("second",), "vocabulary": ("big",), "initializer": ("align", "merge")}
    part = two.part(Item("results", "t", where=where))
    # A model that an item names is a row without any record.
    assert models(part) == [
        Model("second", "source", "none", "none"),
        Model("second", "source", "none", "full"),
        Model("second", "big", "align", "full"),
        Model("second", "big", "merge", "full"),
    ]
    part = two.part(Item("results", "t", where={"strategy": ("other",)}))
    assert part.reference_strategy == "other"
    assert two.part(Item("results", "t")).reference_strategy == "full"


def test_lapt_of_another_strategy_stands_in_if_it_was_trained_on_text_alone(two):
    def lapt(study, *strategies):
        part = study.part(
            Item("results", "t", where={"strategy": strategies, "source": ("first",)})
        )
        return [m.strategy for m in models(part) if m.baseline and not m.is_source]

    assert lapt(two, "other") == lapt(two, "full", "none") == ["full"]
    # No row beside untrained models.
    assert lapt(two, "none") == lapt(two, "other", "none") == []
    phases = {"full": [{"length": 64, "data": {"monolingual": 0.85, "tasks": 0.15}}]}
    assert lapt(replace(two, phases=phases), "other") == []


def test_the_table_of_the_extension_page_is_a_kind(two, tmp_path, monkeypatch):
    """The code of docs/extend.md, in a file of the user's own."""
    monkeypatch.setattr(items, "_KINDS", dict(items._KINDS))
    monkeypatch.setattr(plugins, "_loaded", {})
    page = (REPOSITORY / "docs/extend.md").read_text(encoding="utf-8")
    section = page.split("## A table or a figure")[1]
    code = section.split("```python\n")[1].split("```")[0]
    file = tmp_path / "training_times.py"
    file.write_text(code, encoding="utf-8")
    (plugin,) = plugins.load_plugins([str(file)])
    assert plugin.kinds == ("report item training_times",)
    (item,) = read_items(["training_times"])
    training = pandas.DataFrame(
        [{"language": "te", "initializer": "mean", "strategy": "full", "seconds": 2.5}]
    )
    built = load("training_times").build(replace(two.part(item), training=training))
    assert [(row.stub, row.cells[0].text) for row in built.rows] == [
        (("Te", "mean", "full"), "2.5")
    ]
