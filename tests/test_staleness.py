"""The digest sees what a job runs, and nothing else."""

import ast
import shutil

import pytest

from lexigraft import staleness


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(staleness, "ROOT", tmp_path)
    monkeypatch.setattr(staleness, "PIPELINE", tmp_path)
    (tmp_path / "lexigraft").mkdir()
    (tmp_path / "lexigraft/__init__.py").write_text("")
    (tmp_path / "lexigraft/used.py").write_text('"""Says."""\nVALUE = 1\n')
    (tmp_path / "lexigraft/inner.py").write_text("import lexigraft.used\n")
    (tmp_path / "lexigraft/other.py").write_text("VALUE = 1\n")
    (tmp_path / "run.py").write_text(
        "def f():\n    from lexigraft import inner\n    return inner\n"
    )

    def digest() -> str:
        for cached in (staleness._read, staleness._parsed):
            cached.cache_clear()
        return staleness.code_digest("run.py")

    return tmp_path, digest


def test_code_that_is_imported_inside_a_function_by_way_of_a_module_counts(project):
    folder, digest = project
    before = digest()
    (folder / "lexigraft/used.py").write_text('"""Says."""\nVALUE = 2\n')
    assert digest() != before


@pytest.mark.parametrize("text", ['"""Says more."""\nVALUE = 1\n', "# Why.\nVALUE  =  1\n"])
def test_docstrings_comments_and_layout_do_not_count(project, text):
    folder, digest = project
    before = digest()
    (folder / "lexigraft/used.py").write_text(text)
    # A module whose docstring goes keeps its meaning too.
    assert digest() == before


def test_fields_that_a_newer_python_adds_do_not_count(project, monkeypatch):
    folder, digest = project
    (folder / "lexigraft/used.py").write_text("class A:\n    def f(self):\n        return 1\n")
    before = digest()
    for kind in (ast.FunctionDef, ast.ClassDef):
        monkeypatch.setattr(kind, "_fields", (*kind._fields, "later", "latest"))
        monkeypatch.setattr(kind, "later", [], raising=False)
        monkeypatch.setattr(kind, "latest", None, raising=False)
    shutil.rmtree(folder / "lexigraft/__pycache__")
    assert digest() == before


def test_a_syntax_tree_is_written_in_ascii_without_what_is_empty():
    assert staleness._written(ast.parse("x = f(None, 'é')")) == (
        "Module(body=[Assign(targets=[Name(id='x',ctx=Store())],value=Call(func="
        "Name(id='f',ctx=Load()),args=[Constant(),Constant(value='\\xe9')]))])"
    )


def test_code_that_is_not_imported_does_not_count(project):
    folder, digest = project
    before = digest()
    (folder / "lexigraft/other.py").write_text("VALUE = 2\n")
    assert digest() == before


def test_a_string_that_is_no_docstring_counts(project):
    folder, digest = project
    (folder / "lexigraft/used.py").write_text('NAME = "a"\n')
    before = digest()
    (folder / "lexigraft/used.py").write_text('NAME = "b"\n')
    assert digest() != before


def test_a_rename_of_a_module_counts(project):
    folder, digest = project
    before = digest()
    (folder / "lexigraft/used.py").rename(folder / "lexigraft/renamed.py")
    (folder / "lexigraft/inner.py").write_text("import lexigraft.renamed\n")
    assert digest() != before


def test_a_file_is_parsed_once_as_long_as_its_text_stays(project, monkeypatch):
    folder, digest = project
    parsed = []
    parse = staleness.ast.parse
    monkeypatch.setattr(
        staleness.ast, "parse", lambda text, filename: parsed.append(filename) or parse(text)
    )
    before = digest()
    assert sorted(parsed) == ["lexigraft/inner.py", "lexigraft/used.py", "run.py"]
    assert digest() == before and len(parsed) == 3
    (folder / "lexigraft/used.py").write_text("VALUE = 2\n")
    assert digest() != before and parsed[3:] == ["lexigraft/used.py"]
    next(folder.glob("lexigraft/__pycache__/*.json")).write_text("[")
    (folder / "lexigraft/used.py").write_text("VALUE = 1\n")
    assert digest() == before


def test_of_a_template_every_character_counts(project):
    folder, _ = project
    found = set()
    for text in ("{{ x }}", "{{ x }} ", "{# y #}{{ x }}"):
        (folder / "lexigraft/page.html.j2").write_text(text)
        staleness._read.cache_clear()
        found.add(staleness.code_digest("lexigraft/page.html.j2"))
    assert len(found) == 3
