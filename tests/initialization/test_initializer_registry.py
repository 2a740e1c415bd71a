import sys

import pytest

from lexigraft.errors import UserError
from lexigraft.initialization import registry
from lexigraft.initialization.registry import declaration, initializer, methods, register
from tests.conftest import run_command

# What a method cannot do without.
REQUIRED = {"zett": {"hypernetwork": "a/folder"}}


def made(name):
    return initializer(name, **REQUIRED.get(name, {}))


def test_every_method_has_defaults_and_the_name_of_its_file():
    assert [made(name).name for name in methods()] == methods()


@pytest.mark.bad_input(
    "config",
    "an unknown or missing option of an initializer",
    "rejected with a message that names the option",
)
def test_a_missing_option_is_named():
    with pytest.raises(UserError, match="'zett': option 'hypernetwork' is missing"):
        initializer("zett")


def test_what_a_method_declares_is_known_without_importing_it():
    for name in methods():
        declared, method = declaration(name), made(name)
        assert (declared.needs, declared.reads) == (method.needs, method.reads)
        assert declared.version == method.version
        assert getattr(method, "title", declared.title) == declared.title
    assert declaration("unifyvocab").needs == ("target", "source")
    assert declaration("distill").reads == ("model",)


def test_for_an_unknown_method_a_similar_name_is_suggested():
    with pytest.raises(UserError, match=r"'marge' is not known; did you mean 'merge'\?"):
        initializer("marge")


def test_for_an_unknown_option_a_similar_name_is_suggested():
    with pytest.raises(UserError, match="did you mean 'covariance_scale'"):
        initializer("multivariate", covariance_scal=2)


def test_declarations_are_read_without_numeric_libraries():
    code = (
        "import sys; from lexigraft.initialization.registry import declaration, methods;"
        "[declaration(name) for name in methods()];"
        "print([m for m in ('numpy', 'scipy', 'torch', 'transformers') if m in sys.modules])"
    )
    done = run_command([sys.executable, "-c", code], check=True)
    assert done.stdout.strip() == "[]"


PLUGIN = """
import numpy as np
from scipy.sparse import csr_array

from lexigraft.initialization.interface import RecipeInitializer
from lexigraft.initialization.options import integer


class FirstToken(RecipeInitializer):
    name = "first-token"
    version = 3
    token: int = integer(0, minimum=0)

    def _new_rows(self, pair, corpus, auxiliary):
        rows = np.zeros((len(pair.new_ids), pair.n_source + 1))
        rows[:, self.token] = 1
        return csr_array(rows), np.zeros(len(rows), dtype=bool)


class Helper:
    name = "no-initializer"
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    known = {**registry._declarations()}
    monkeypatch.setattr(registry, "_declarations", lambda: known)
    file = tmp_path / "my_methods.py"
    file.write_text(PLUGIN, encoding="utf-8")
    return file


def test_a_file_of_the_user_adds_methods(plugin, byte_level, row):
    assert register(plugin) == ["first-token"]
    assert "first-token" in methods()
    assert declaration("first-token").version == 3
    source, target = byte_level([("a", "b")]), byte_level([("a", "b"), ("ab", "c")])
    fitted = initializer("first-token", token=1).fit(source, target)
    assert fitted.name == "first-token"
    assert list(row(fitted, "abc").values()) == [1.0]


def test_a_file_may_be_registered_twice_but_a_name_belongs_to_one_file(plugin, tmp_path):
    assert register(plugin) == register(plugin)
    other = tmp_path / "other.py"
    other.write_text(PLUGIN, encoding="utf-8")
    with pytest.raises(UserError, match=r"'first-token' exists already, in .*my_methods\.py"):
        register(other)


@pytest.mark.bad_input(
    "config",
    "a plug-in that is not Python, or whose class inherits what the workflow reads",
    "rejected with a message that names the file",
)
def test_a_plug_in_that_cannot_be_used_is_refused(plugin):
    plugin.write_text("class A(RowInitializer:", encoding="utf-8")
    with pytest.raises(UserError, match=r"my_methods\.py: cannot be read as Python"):
        register(plugin)
    child = plugin.with_name("child.py")
    child.write_text(
        PLUGIN + "\n\nclass Child(FirstToken, RecipeInitializer):\n    name = 'child'\n"
    )
    register(child)
    with pytest.raises(UserError, match="'version' of Child is inherited"):
        initializer("child")
