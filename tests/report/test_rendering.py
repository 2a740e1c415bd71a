"""Templates: text is escaped, and code is set as code."""

import re

import pytest

from lexigraft.report.build import build_report
from lexigraft.report.items import kinds
from lexigraft.report.names import shown_as
from lexigraft.report.recommendation_text import Question, RecommendationText
from lexigraft.report.rendering import document, inline_code, render
from lexigraft.report.verdict import Decision, Verdict
from tests.report.conftest import full_study


def test_text_between_backticks_is_code_and_markup_is_text():
    assert inline_code("`repair: [quotes]` of <b>") == "<code>repair: [quotes]</code> of &lt;b&gt;"


def test_notes_are_folded_away_and_escaped():
    page = render("notes.html.j2", notes=["one & `two`", "three"])
    assert "<summary>Notes (2)</summary>" in page
    assert "<li>one &amp; <code>two</code></li>" in page


def test_a_document_has_its_fonts_and_a_fonts_name_ends_no_style_sheet():
    page = document("A & B", "<p>x</p>", {'Sans</style><b>"': "data:font/woff;base64,AA=="})
    head, body = page.split("<body>")
    assert "<title>A &amp; B</title>" in head
    assert 'font-family: "Sansstyleb"; src: url(data:font/woff;base64,AA==)' in head
    assert head.count("</style>") == 1
    assert body.strip().startswith("<p>x</p>")


def test_a_value_that_a_template_lacks_is_an_error():
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError, match="'notes' is undefined"):
        render("notes.html.j2")


@pytest.mark.parametrize(("languages", "folded"), [(1, 0), (4, 0), (5, 5)])
def test_verdicts_on_many_languages_fold_away(languages, folded):
    verdict = Verdict(Decision.GRAFT, ("Graft: use <X>.", "It reaches 1."), ["`cells` & more"])
    question = Question("Which initializer?", "X.", ["perplexity: best X 1"])
    texts = [RecommendationText({}, f"Language {at}", verdict, [question], [], "snakemake a b")
             for at in range(languages)]  # fmt: skip
    page = render("recommendation.html.j2", texts=texts, method="By tests.", nothing="")
    assert page.count('<details class="verdict yes">') == folded
    assert page.count('<section class="verdict yes">') == languages - folded
    assert page.count("<strong>Graft: use &lt;X&gt;.</strong>") == languages
    assert page.count("<li><code>cells</code> &amp; more</li>") == languages
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
    with shown_as({"sources": {"tiny": HOSTILE}, "initializers": {"align": HOSTILE}}):
        build_report(made.settings, made.inputs, {"folder": str(tmp_path / "out")})
    written = [*(tmp_path / "out").rglob("*.md")]
    assert len(written) > 8
    for file in written:
        text = file.read_text("utf-8").replace("<br>", "")
        assert "alert" in text, file
        assert not re.search(r"<[A-Za-z/!?]|\]\(|&lt;b&gt;", text), file
