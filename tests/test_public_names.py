"""The public names of the packages of the library."""

from importlib import import_module

import pytest

PACKAGES = [import_module(f"lexigraft.{name}") for name in ("source", "corpus", "vocabulary")]


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package in PACKAGES for name in package.__all__]
)
def test_every_public_name_exists_and_has_a_docstring(package, name):
    assert getattr(package, name).__doc__


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = package.nothing_like_this
