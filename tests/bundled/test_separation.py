"""The bundled assets stand apart: the library finds them by name alone."""

import re

from lexigraft.installation import ROOT


def test_no_module_of_the_library_imports_the_bundled_assets():
    importing = re.compile(r"^\s*(from|import) lexigraft\.bundled", re.MULTILINE)
    files = (ROOT / "lexigraft").rglob("*.py")
    outside = [file for file in files if "bundled" not in file.relative_to(ROOT).parts]
    assert [file for file in outside if importing.search(file.read_text("utf-8"))] == []
