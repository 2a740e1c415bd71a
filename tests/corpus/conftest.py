"""Fixtures of the corpus tests: Kolibri's interface catalogues."""

import pytest
import yaml
from hypothesis import HealthCheck, settings

from lexigraft.source.packages import fetch_package
from lexigraft.staleness import ROOT

# A busy machine is no failure, so nothing is timed.
settings.register_profile(
    "untimed", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def kolibri():
    """The folder of the unpacked Kolibri package, fetched on first use."""
    packages = yaml.safe_load((ROOT / "config" / "packages.yaml").read_text())["packages"]
    pinned = packages["kolibri"]
    folder = ROOT / ".cache" / "packages" / f"kolibri-{pinned['version']}"
    if not (folder / "card.json").exists():
        fetch_package("kolibri", pinned["version"], pinned["sha256"], pinned["members"], folder)
    return folder
