"""Add the workflow, which is next to the library in the repository, to the wheel.

It is installed in `lexigraft/_pipeline`, so that it occupies no top-level name in site-packages.
Editable installs use it in the repository.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = ("Snakefile", "workflow", "scripts", "config", "profiles", "envs")


class CustomBuildHook(BuildHookInterface):
    """Adds the workflow's files to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """List them, each with its path in the wheel."""
        if version == "standard":
            build_data["force_include"] |= {part: f"lexigraft/_pipeline/{part}" for part in PARTS}
