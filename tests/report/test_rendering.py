"""Templates: text is escaped, and code is set as code."""

import re

import pytest

from lexigraft.report.items import kinds
from lexigraft.report.names import display_titles
from lexigraft.report.page import build_report
from lexigraft.report.table import inline_code, render
from tests.report.conftest import full_study


def test_text_between_backticks_is_code_and_markup_is_text():
    assert inline_code("`repair: [quotes]` of <b>") == "<code>repair: [quotes]</code> of &lt;b&gt;"


@pytest.mark.parametrize(("languages", "folded"), [(1, 0), (4, 0), (5, 5)])
def test_verdicts_on_many_languages_fold_away(languages, folded):
    section = {
        "recommended": True,
        "verdict": ("Graft: use <X>.", "It reaches 1."),
        "questions": [("Which initializer?", "X.", ["perplexity: best X 1"])],
        "tests": [],
        "export": "snakemake a b",
    }
    sections = [section | {"heading": f"Language {at}"} for at in range(languages)]
    page = render("recommendation.html.j2", sections=sections, method="By tests.", nothing="")
    assert page.count('<details class="verdict yes">') == folded
    assert page.count('<section class="verdict yes">') == languages - folded
    assert page.count("<strong>Graft: use &lt;X&gt;.</strong>") == languages
    assert page.count('<table class="questions">') == languages


HOSTILE = "<script>alert('x')</script><img src=x onerror=y>&lt;b&gt; [a](javascript:b) <s>|"


@pytest.mark.bad_input(
    "hostile",
    "HTML in titles and names",
    "it is text in every page and table",
)
def test_no_title_or_name_of_a_study_is_html_or_a_link_in_its_markdown(tmp_path):
    made, groups = full_study(tmp_path), kinds().items()
    made.inputs["languages"] = {
        name: language | {"name": language["name"] + HOSTILE}
        for name, language in made.inputs["languages"].items()
    }
    made.settings |= {
        "title": HOSTILE,
        "items": [
            {"item": kind, "name": kind, "title": HOSTILE}
            for kind, group in groups
            if group != "figures" and kind not in ("comparison", "family_scores")
        ],
    }
    with display_titles({"sources": {"tiny": HOSTILE}, "initializers": {"align": HOSTILE}}):
        build_report(made.settings, made.inputs, {"folder": str(tmp_path / "out")})
    written = [*(tmp_path / "out").rglob("*.md")]
    assert len(written) > 8
    for file in written:
        text = file.read_text("utf-8").replace("<br>", "")
        assert "alert" in text, file
        assert not re.search(r"<[A-Za-z/!?]|\]\(|&lt;b&gt;", text), file
