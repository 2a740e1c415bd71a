"""Rules of the house that hold for every file."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
ROOMS = (
    "source",
    "corpus",
    "vocabulary",
    "auxiliary",
    "initialization",
    "inference",
    "training",
    "evaluation",
    "report",
)
MODULES = sorted((REPOSITORY / "lexigraft").rglob("*.py"))


def imported(file: Path) -> set[str]:
    """Modules that a file imports anywhere, except for type checkers alone."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "lexigraft" and parts[1] in ROOMS else None


@pytest.mark.parametrize("name", ROOMS)
def test_no_import_runs_to_a_later_stage(name):
    later = set(ROOMS[ROOMS.index(name) + 1 :])
    for file in (REPOSITORY / "lexigraft" / name).rglob("*.py"):
        assert not {room(module) for module in imported(file)} & later, file


def test_modules_import_from_modules_so_that_the_digest_sees_them():
    packages = {f"lexigraft.{name}" for name in ROOMS} | {"lexigraft"}
    for file in MODULES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: a relative import"
                if node.module in packages:
                    for alias in node.names:
                        target = REPOSITORY / node.module.replace(".", "/") / alias.name
                        assert target.with_suffix(".py").is_file(), f"{file}: {alias.name}"


def test_importing_the_package_or_the_grid_loads_no_heavy_library():
    heavy = ("torch", "transformers", "numpy", "pandas", "scipy", "datasets")
    code = (
        "import sys, lexigraft, workflow.grid, workflow.config.registries;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_every_public_name_is_there():
    import lexigraft

    for name in lexigraft.__all__:
        assert getattr(lexigraft, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lexigraft.no_such_name


def test_the_version_is_the_same_everywhere():
    import tomllib

    import lexigraft

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    citation = (REPOSITORY / "CITATION.cff").read_text()
    assert project["project"]["version"] == lexigraft.__version__
    assert f"version: {lexigraft.__version__}\n" in citation


def test_every_pin_is_in_the_lock():
    def pins(name: str) -> set[str]:
        lines = (REPOSITORY / "envs" / name).read_text().splitlines()
        return {line.split("#")[0].strip().lower().replace("_", "-") for line in lines} - {""}

    lock = pins("main.lock")
    # pip itself decides about setuptools, which a freeze leaves out.
    asked = {pin for pin in pins("main.txt") | pins("dev.txt") if not pin.startswith("setuptools")}
    assert asked <= lock
