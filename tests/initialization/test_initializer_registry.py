import subprocess
import sys

import pytest

from lexigraft.errors import UserError
from lexigraft.initialization.registry import (
    initializer,
    method_file,
    methods,
    needed_roles,
    read_roles,
)

# What a method cannot do without.
REQUIRED = {"zett": {"hypernetwork": "a/folder"}}


def made(name):
    return initializer(name, **REQUIRED.get(name, {}))


def test_the_methods_are_the_files_of_the_folder():
    assert {"align", "mean", "mean-of-all", "merge", "multivariate", "random"} <= set(methods())


def test_every_method_can_be_made_without_further_options_and_knows_its_name():
    assert [made(name).name for name in methods()] == methods()


@pytest.mark.bad_input(
    "config",
    "an unknown or missing option of an initializer",
    "rejected with a message that names the option",
)
def test_a_missing_option_is_named():
    with pytest.raises(UserError, match="'zett': option 'hypernetwork' is missing"):
        initializer("zett")


def test_the_file_of_a_method_is_relative_to_the_repository():
    assert method_file("mean-of-all") == "lexigraft/initialization/methods/mean_of_all.py"


def test_the_roles_that_a_method_needs_are_read_without_importing_it():
    assert {name: needed_roles(name) for name in methods()} == {
        name: made(name).needs for name in methods()
    }
    assert needed_roles("unifyvocab") == ("target", "source")
    assert needed_roles("align") == ()


def test_an_unknown_method_names_the_one_that_was_meant():
    with pytest.raises(UserError, match=r"'marge' is not known; did you mean 'merge'\?"):
        initializer("marge")


def test_a_method_like_none_names_all():
    with pytest.raises(
        UserError, match=r"choose from align, clp, cw2v, dictionary-alignment, distill"
    ):
        initializer("zzz")


def test_a_path_is_no_method():
    with pytest.raises(UserError, match="is not known"):
        initializer("../registry")


def test_an_unknown_option_names_the_one_that_was_meant():
    with pytest.raises(UserError, match="did you mean 'covariance_scale'"):
        initializer("multivariate", covariance_scal=2)


def test_a_method_without_options_says_so():
    with pytest.raises(UserError, match="'random' has no options; remove 'window'"):
        initializer("random", window=3)


def test_looking_up_a_method_imports_no_numeric_library():
    code = (
        "import sys; from lexigraft.initialization.registry import method_file, methods;"
        "[method_file(name) for name in methods()];"
        "print([m for m in ('numpy', 'scipy', 'torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_else_a_method_reads_is_known_without_importing_it():
    for name in ("align", "cw2v", "distill"):
        assert read_roles(name) == initializer(name).reads
    assert read_roles("distill") == ("model",)
