"""The environment of learned metrics is pinned whole, and has an entry for what needs it."""

from pathlib import Path

from workflow.config.registries import load_registries

REPOSITORY = Path(__file__).resolve().parents[3]


def test_every_pin_of_the_metrics_environment_is_in_its_lock():
    def pins(name: str) -> set[str]:
        lines = (REPOSITORY / "envs" / name).read_text().splitlines()
        return {line.split("#")[0].strip().lower().replace("_", "-") for line in lines} - {""}

    assert pins("metrics.txt") <= pins("metrics.lock")


def test_every_hub_name_of_the_registry_has_a_commit():
    for name, entry in load_registries()["metrics"].items():
        for key, revision in (("checkpoint", "revision"), ("encoder", "encoder_revision")):
            if key in entry:
                assert len(entry[revision]) == 40, f"{name}.{revision}"
