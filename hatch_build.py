"""Puts the workflow, which lies beside the library in the repository, into the wheel.

It goes to `lexigraft/_pipeline` and so claims no name in site-packages. Editable installs find it
where it is.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = ("Snakefile", "workflow", "scripts", "config", "profiles", "envs")


class CustomBuildHook(BuildHookInterface):
    """Adds the workflow's files to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name them, each with its place in the wheel."""
        if version == "standard":
            build_data["force_include"] |= {part: f"lexigraft/_pipeline/{part}" for part in PARTS}
