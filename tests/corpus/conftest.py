"""Fixtures of the corpus tests: Kolibri's interface catalogues."""

import pytest
from hypothesis import HealthCheck, settings

from tests.conftest import package_folder

# A busy machine is no failure, so nothing is timed.
settings.register_profile(
    "untimed", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def kolibri():
    """The folder of the unpacked Kolibri package."""
    return package_folder("kolibri")
