"""What a wheel holds, and that it runs without the repository."""

import os
import zipfile

from tests.conftest import REPOSITORY, run_command

CARRIED = ("Snakefile", "workflow", "scripts", "config", "profiles", "envs")


def test_a_wheel_claims_one_name_and_carries_the_workflow(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "lexigraft",
        next(name for name in names if ".dist-info/" in name).split("/")[0],
    }
    tracked = run_command(["git", "ls-files", "--", *CARRIED], cwd=REPOSITORY).stdout.split()
    files = tracked or [  # not a clone: an unpacked archive of the source
        str(file.relative_to(REPOSITORY))
        for part in CARRIED
        for file in [REPOSITORY / part, *(REPOSITORY / part).rglob("*")]
        if file.is_file() and "__pycache__" not in file.parts
    ]
    assert {f"lexigraft/_pipeline/{name}" for name in files} <= set(names)
    assert not any("__pycache__" in name or "/tests/" in name for name in names)


def test_the_command_is_an_entry_point(wheel):
    archive = zipfile.ZipFile(wheel)
    name = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
    assert "lexigraft = lexigraft.commands.app:main" in archive.read(name).decode()


def test_the_installed_library_finds_the_workflow_that_it_carries(installed):
    code = (
        "from lexigraft.installation import PIPELINE, add_workflow_to_path\n"
        "add_workflow_to_path()\n"
        "import workflow.study\n"
        "print(PIPELINE, workflow.__file__, sep='\\n')"
    )
    said = run_command(
        [f"{installed.environment}/bin/python", "-c", code],
        cwd="/",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        check=True,
    ).stdout.splitlines()
    carried = installed.packages / "lexigraft/_pipeline"
    assert said == [str(carried), f"{carried}/workflow/__init__.py"]
