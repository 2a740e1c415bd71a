"""Templates: text is escaped, code is set as code, and every file is in the package."""

from pathlib import Path

import pytest

from lexigraft.report.rendering import TEMPLATES, document, inline_code, render
from lexigraft.staleness import ROOT, code_digest


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


def test_every_template_is_a_file_of_the_built_package(monkeypatch):
    from setuptools import Distribution
    from setuptools.config.pyprojecttoml import apply_configuration

    monkeypatch.chdir(ROOT)
    distribution = apply_configuration(Distribution(), "pyproject.toml")
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    build.manifest_files = {}  # what only a clone has
    packaged = build.find_data_files("lexigraft.report", "lexigraft/report")
    assert {file.resolve() for file in TEMPLATES.iterdir()} == {
        Path(file).resolve() for file in packaged
    }


def test_a_template_counts_in_the_digest_of_what_it_is_given_to(tmp_path, monkeypatch):
    monkeypatch.setattr("lexigraft.staleness.ROOT", tmp_path)
    monkeypatch.setattr("lexigraft.staleness._memory", lambda: tmp_path / "memory.json")
    digests = []
    for name, text in (("a.html.j2", "{{ x }}"), ("b.html.j2", "{{ x }} ")):
        (tmp_path / name).write_text(text)
        digests.append(code_digest(name))
    assert digests[0] != digests[1]
