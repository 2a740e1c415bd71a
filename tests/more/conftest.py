"""The package as pip installs it, and other programs' packages, in environments of their own."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lexigraft.artifacts.atomic import atomic_folder
from tests import preloaded_python
from tests.conftest import REPOSITORY, run_command


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """A wheel of the package, made offline."""
    folder = tmp_path_factory.mktemp("wheel")
    before = {entry.name for entry in REPOSITORY.iterdir()} | {"__pycache__"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        check=True,
    )
    assert {entry.name for entry in REPOSITORY.iterdir()} <= before  # nothing is left there
    (found,) = folder.glob("*.whl")
    return found


@dataclass
class Installed:
    """The package as pip installs it, in a virtual environment; nothing there is the clone's."""

    environment: Path

    @property
    def packages(self) -> Path:
        """Where its packages are."""
        (found,) = self.environment.glob("lib/python3.*/site-packages")
        return found

    @property
    def python(self) -> str:
        """The environment's Python, which has imported what jobs import."""
        return preloaded_python.python(f"{self.environment}/bin/python")

    def run(self, folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """`lexigraft`, as its entry point is, in a folder of the user's."""
        given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return run_command(
            [self.python, f"{self.environment}/bin/lexigraft", *map(str, arguments)],
            cwd=folder,
            env={**given, "COLUMNS": "100"},
        )


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Installed:
    """The wheel, installed by pip, beside the packages that this environment has.

    They are on the path of the new environment by their folder alone, so that its Python does not
    read this environment's .pth files, one of which is that of an editable lexigraft.
    """
    folder = tmp_path_factory.mktemp("an environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    made = Installed(folder)
    (made.packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", f"{folder}/bin/python"]
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--ignore-installed"]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    return made


@pytest.fixture(scope="session")
def packages_of() -> Callable[[str], Path]:
    """`packages_of(name)`: a folder for `PYTHONPATH` with the packages of envs/<name>.txt.

    All else is imported from this environment, as if they had been installed into it. The folder is
    used again until the pins change. Where the packages cannot be had, the test is skipped.
    """

    def install(name: str) -> Path:
        pins = REPOSITORY / "envs" / f"{name}.txt"
        folder = REPOSITORY / ".cache" / "environments" / name
        stamp, made_from = folder / "made-from.txt", f"{sys.version}\n{pins.read_text('utf-8')}"
        if stamp.is_file() and stamp.read_text("utf-8") == made_from:
            return folder
        options = ["--no-deps", "--only-binary", ":all:", "-r", pins]
        with atomic_folder(folder) as place:
            command = [sys.executable, REPOSITORY / "scripts/install.py", *options]
            done = run_command([*command, "--target", place])
            if done.returncode:
                said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                pytest.skip(f"the packages of envs/{name}.txt cannot be had: {said}")
            (place / stamp.name).write_text(made_from, "utf-8")
        return folder

    return install
