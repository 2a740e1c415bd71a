"""Rules that hold for every file of the project."""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Set
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, run_command

# In the order in which data passes through them.
PACKAGES = (
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
WORKFLOW = sorted((REPOSITORY / "workflow").rglob("*.py"))
HEAVY = ("torch", "transformers", "numpy", "pandas", "scipy", "datasets")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def module_name(file: Path) -> str:
    parts = file.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported(file: Path, known: Set[str]) -> set[str]:
    """Which of the known modules a file imports anywhere: in functions and for types alone too."""
    names: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                names.add(module if module in known else node.module)
    return names & known


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """Module of the library or the workflow -> those that it imports."""
    files = {module_name(file): file for file in (*MODULES, *WORKFLOW)}
    return {name: imported(file, files.keys()) for name, file in files.items()}


def rank(module: str) -> int | None:
    """The place of a module's package in the order; None outside of all packages."""
    package = [*module.split("."), ""][1]
    of_library = module.startswith("lexigraft.") and package in PACKAGES
    return PACKAGES.index(package) if of_library else None


def test_no_import_runs_to_a_later_package(imports):
    ranks = {module: rank(module) for module in imports}
    backwards = [
        (module, other)
        for module, others in imports.items()
        for other in others
        if (own := ranks[module]) is not None and (found := ranks[other]) is not None
        if found > own
    ]
    assert backwards == []


def test_no_modules_import_each_other_in_a_circle(imports):
    TopologicalSorter(imports).prepare()  # raises CycleError, which names them


def test_the_library_never_imports_the_workflow(imports):
    assert [
        (module, other)
        for module, others in imports.items()
        for other in others
        if module.startswith("lexigraft") and other.startswith("workflow")
    ] == []


def test_no_two_public_classes_have_one_name():
    files = defaultdict(list)
    for file in (*MODULES, *WORKFLOW):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(file.relative_to(REPOSITORY)))
    assert {name: places for name, places in files.items() if len(places) > 1} == {}


def test_papers_are_called_by_name():
    numbered = re.compile(r"papers? 00\d|(?<![\d.,])00[0-4],? (?:§|section|Table|Figure)", re.I)
    folders = ("lexigraft", "workflow", "scripts", "benchmarks", "tests", "docs", "config")
    files = [file for folder in folders for file in (REPOSITORY / folder).rglob("*")]
    texts = {".py", ".md", ".yaml", ".smk", ".rst", ".txt"}
    found = [
        f"{file.relative_to(REPOSITORY)}: {match[0]}"
        for file in [*files, *REPOSITORY.glob("*.md"), REPOSITORY / "Snakefile"]
        if file.suffix in texts or file.name == "Snakefile"
        for match in numbered.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_modules_import_names_from_the_modules_that_define_them():
    packages = {f"lexigraft.{name}" for name in PACKAGES} | {"lexigraft"}
    for file in MODULES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: a relative import"
                if node.module in packages:
                    for alias in node.names:
                        target = REPOSITORY / node.module.replace(".", "/") / alias.name
                        is_module = target.with_suffix(".py").is_file() or target.is_dir()
                        assert is_module, f"{file}: {alias.name}"


def test_importing_the_package_or_the_stages_loads_no_heavy_library():
    code = (
        "import sys, lexigraft, workflow.inputs.report, workflow.config.registries;"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    result = run_command([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
    assert result.stdout.strip() == "[]"


def test_reading_a_study_in_a_job_and_the_command_load_no_torch():
    """The Snakefile reads the study in each job; these modules import nothing slow at their top."""
    code = """
import sys, lexigraft.commands.app, workflow.state, workflow.assets, workflow.inputs.report
from pathlib import Path
from lexigraft.yaml_files import read_yaml
from workflow.config.registries import load_registries, resolve
for file in ("config/config.yaml", "config/studies/unifyvocab.yaml"):
    resolve(read_yaml(Path(file)), load_registries(), check=False)
print([name for name in ("torch", "transformers", "datasets") if name in sys.modules])
"""
    result = run_command([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_is_there():
    import lexigraft

    for name in lexigraft.__all__:
        assert getattr(lexigraft, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lexigraft.no_such_name


def test_the_version_is_that_of_the_changelog():
    """Between releases it is a development version of the next one; the last one is cited."""
    import lexigraft

    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    released = re.findall(r"^## (\d+\.\d+\.\d+)", changelog, re.M)[0]
    coming = re.search(r"^## Unreleased \((.+)\)$", changelog, re.M)
    assert lexigraft.__version__ == (f"{coming[1]}.dev0" if coming else released)
    assert f"version: {released}\n" in (REPOSITORY / "CITATION.cff").read_text()


def test_every_pin_is_in_the_lock():
    def pins(name: str) -> set[str]:
        lines = (REPOSITORY / "envs" / name).read_text().splitlines()
        found = {re.split("[;#]", line)[0] for line in lines}  # whatever Python a pin is for
        return {pin.strip().lower().replace("_", "-") for pin in found} - {""}

    assert pins("main.txt") | pins("dev.txt") <= pins("main.lock")
    assert pins("docs.txt") <= pins("docs.lock")


def test_what_reads_json_expects_all_that_it_raises():
    """`json.loads` raises ValueError for a long number, RecursionError for deep nesting."""
    for file in [*MODULES, *WORKFLOW]:
        for node in ast.walk(tree(file)):
            expected = (
                ast.unparse(node.type) if isinstance(node, ast.ExceptHandler) and node.type else ""
            )
            assert "JSONDecodeError" not in expected, f"{file}:{node.lineno}"
