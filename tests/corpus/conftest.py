"""Fixtures of the corpus tests: Kolibri's interface catalogues."""

import pytest

from tests.conftest import package_folder


@pytest.fixture(scope="session")
def kolibri():
    """The folder of the unpacked Kolibri package."""
    return package_folder("kolibri")
