"""Texts of HTML pages."""

import pytest

from lexigraft.corpus.readers import read_sentences
from lexigraft.errors import UserError

PAGE = """<!doctype html>
<html lang="te"><head><title>Not a text</title><style>p {}</style>
<body><h1>Mto</h1>
<p>Mto  na
<em>mv</em>ua<p>Maji &amp; mto &#x0c24;
<ol><li><p>Moja</p></li><li>Mbili<br>Tatu</li></ol>
<script>if (a < b) {}</script>
Nne</body></html>"""
SETTINGS = {"loader": "html", "package": "pages", "page": "page.html"}


def test_each_paragraph_heading_and_item_is_a_text(tmp_path):
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    texts = ["Mto", "Mto na mvua", "Maji & mto త", "Moja", "Mbili", "Tatu", "Nne"]
    assert list(read_sentences(SETTINGS, tmp_path)) == texts


def test_a_page_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(UserError, match=r"page.html: cannot be read \(No such file"):
        list(read_sentences(SETTINGS, tmp_path))
    (tmp_path / "page.html").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"page.html: not UTF-8"):
        list(read_sentences(SETTINGS, tmp_path))
    with pytest.raises(UserError, match="package pages: the job specifies no input package"):
        list(read_sentences(SETTINGS))
