"""Plug-ins: kinds from files of the user, and from installed packages."""

import os
import sys
from pathlib import Path

import pytest

from lexigraft import plugins
from lexigraft.errors import UserError
from lexigraft.initialization.registry import declaration
from lexigraft.plugins import load_plugins, with_digests
from lexigraft.training.registry import objective
from tests import preloaded_python
from tests.conftest import REPOSITORY, run_command

METHODS = '''
from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.training.objective import Objective
from lexigraft.training.registry import register


class Nearest(RecipeInitializer):
    """An initializer."""

    name = "{name}"
    version = 3


class Plain(Objective):
    """An objective."""

    name = "{name}-loss"
    predicts = "the next token"


register(Plain)
'''


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    """No plug-in of another test."""
    monkeypatch.setattr(plugins, "_loaded", {})


def write(folder: Path, name: str) -> Path:
    file = folder / f"{name}.py"
    file.write_text(METHODS.format(name=name), encoding="utf-8")
    return file


def test_a_file_adds_its_kinds(tmp_path):
    file = write(tmp_path, "added")
    (plugin,) = load_plugins([str(file)])
    assert plugin.kinds == ("initializer added", "objective added-loss")
    assert str(plugin) == f"{file}: initializer added, objective added-loss"
    assert declaration("added").version == 3
    assert objective("added-loss").predicts == "the next token"
    assert load_plugins([str(file)]) == [plugin]


def test_versions_of_its_kinds_change_with_the_code(tmp_path):
    versions = {"stage": 1, "initializer changed": 3, "objective clm": 1}
    script = tmp_path / "script.py"
    script.write_text(
        "from lexigraft.plugins import load_plugins, with_digests; import sys\n"
        f"load_plugins(sys.argv[1:]); print(with_digests({versions}))"
    )

    def in_a_new_process() -> dict[str, int | str]:
        command = [preloaded_python.python(), str(script), str(file)]
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        result = run_command(command, env=environment, check=True)
        return eval(result.stdout)

    file = write(tmp_path, "changed")
    first = in_a_new_process()
    assert first == {**versions, "initializer changed": first["initializer changed"]}
    assert str(first["initializer changed"]).startswith("3, plug-in ")
    assert in_a_new_process() == first
    file.write_text(file.read_text() + "# changed\n", encoding="utf-8")
    assert in_a_new_process() != first
    assert with_digests(versions) == versions


def test_loaders_and_report_items_in_settings_count_if_they_are_from_a_plugin(monkeypatch):
    kinds = ("loader subtitles", "report item training_times", "report item costs")
    plugin = plugins.Plugin("mine.py", Path("mine.py"), "0123", kinds)
    monkeypatch.setattr(plugins, "_loaded", {"mine.py": plugin})
    study = {"report": {"items": ["results", "training_times", {"item": "costs", "name": "a"}]}}
    texts = {"text": {"loader": "subtitles"}, "english": {"loader": "text"}}
    assert with_digests({"stage": 1}, {"study": study, **texts}) == {
        "stage": 1,
        "report item costs": "1, plug-in 0123",
        "report item training_times": "1, plug-in 0123",
        "loader subtitles": "1, plug-in 0123",
    }
    assert with_digests({"stage": 1}, {"text": {"loader": "text"}}) == {"stage": 1}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with an entry point."""
    folder = tmp_path / "their_methods"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    write(folder, "packaged")
    metadata = tmp_path / "their_methods-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: their-methods\nVersion: 1.0\n", encoding="utf-8")
    points = "[lexigraft.plugins]\ntheir-methods = their_methods.packaged\n"
    (metadata / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for module in [name for name in sys.modules if name.startswith("their_methods")]:
        del sys.modules[module]


def test_an_installed_package_is_loaded_by_the_name_of_its_entry_point(package):
    (plugin,) = load_plugins(["their-methods"])
    assert plugin.kinds == ("initializer packaged", "objective packaged-loss")
    assert plugin.file == package / "packaged.py"
    digest = plugin.digest
    (package / "helpers.py").write_text("NUMBER = 1\n", encoding="utf-8")
    plugins._loaded.clear()
    assert load_plugins(["their-methods"])[0].digest != digest


@pytest.mark.bad_input(
    "config",
    "a plug-in that does not exist or cannot be imported",
    "rejected with the name of the plug-in and the line of the error",
)
@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("missing.py", None, ["missing.py", "no such file"]),
        ("their-methds", None, ["their-methds", "lexigraft.plugins"]),
        ("broken.py", "\nimport no_such_module\n", ["broken.py", "no_such_module", "line 2"]),
        ("wrong.py", "x = (\n", ["wrong.py", "line"]),
        ("taken.py", METHODS.format(name="align"), ["taken.py", "'align'"]),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named(tmp_path, monkeypatch, name, content, parts):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_plugins([name])
    assert "\n" not in str(error.value)
    assert all(part in str(error.value) for part in parts), error.value
