"""Texts of HTML pages."""

import pytest

from lexigraft.bundled.loaders.html import read_page
from lexigraft.corpus.readers import read_sentences
from lexigraft.errors import UserError

PAGE = """<!doctype html>
<html lang="te"><head><title>Not a text</title><style>p {}</style></head>
<body><h1>Mto</h1>
<p>Mto  na
<em>mv</em>ua<p>Maji &amp; mto &#x0c24;
<ol><li><p>Moja</p></li><li>Mbili<br>Tatu</li></ol>
<script>if (a < b) {}</script>
Nne</body></html>"""


def test_each_paragraph_heading_and_item_is_a_text(tmp_path):
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    texts = ["Mto", "Mto na mvua", "Maji & mto త", "Moja", "Mbili", "Tatu", "Nne"]
    assert read_page(tmp_path, "page.html") == texts
    settings = {"loader": "html", "package": "pages", "page": "page.html"}
    assert list(read_sentences(settings, tmp_path)) == texts


def test_a_page_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone.html: cannot be read \(No such file"):
        read_page(tmp_path, "gone.html")
    (tmp_path / "page.html").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"page.html: not UTF-8"):
        read_page(tmp_path, "page.html")
    with pytest.raises(UserError, match="package pages: the job specifies no input package"):
        list(read_sentences({"loader": "html", "package": "pages", "page": "page.html"}))
