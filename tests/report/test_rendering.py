"""Templates: text is escaped, and code is set as code."""

import pytest

from lexigraft.report.recommendation_text import Question, RecommendationText
from lexigraft.report.rendering import document, inline_code, render
from lexigraft.report.verdict import Decision, Verdict


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
