"""Jobs in forks of a Python that has imported their libraries: as in a new process, but quicker."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.conftest import run_command
from tests.workflow.conftest import REPOSITORY
from workflow import preloaded_python

SCRIPT = """
import os, sys, time
from pathlib import Path

print(sys.argv[1:], "tomllib" in sys.modules, os.environ.get("OWN"), Path.cwd().name)
print(sys.path[0] == os.path.dirname(__file__) == os.getcwd(), __name__, file=sys.stderr)
match sys.argv[1]:
    case "fail":
        sys.exit(3)
    case "raise":
        raise KeyError("wrong")
    case "say":
        sys.exit("a last word")
    case "wait":
        Path("waiting").write_text(str(os.getpid()))
        time.sleep(float(sys.argv[2]))
"""


def environment(**more):
    """That of Snakemake's jobs, except for what tests change."""
    own = {**os.environ, **dict.fromkeys(preloaded_python.THREADS, "1")}
    del own["PYTEST_CURRENT_TEST"]
    place = {"LEXIGRAFT": str(REPOSITORY), "LEXIGRAFT_BIN": str(Path(sys.executable).parent)}
    return own | place | more


@pytest.fixture
def cache(monkeypatch):
    """A folder for the caches of the user; its path is short, as that of a socket must be."""
    with tempfile.TemporaryDirectory() as place:
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        yield Path(place)


def start(*modules) -> str | None:
    """Start a server that imports these modules; its folder, None if there is no server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", environment())
        patch.setattr(preloaded_python, "MODULES", modules)
        preloaded_python.start(str(REPOSITORY))
        return os.environ.get(preloaded_python.FOLDER)


@pytest.fixture
def folder(tmp_path, monkeypatch, cache):
    """A working folder with a script, and a server that has imported a small module."""
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    place = Path(start("tomllib"))
    while not any(file.is_socket() and not file.suffix for file in place.iterdir()):
        assert preloaded_python.server.poll() is None
        time.sleep(0.05)
    yield place
    preloaded_python.server.stdin.close()
    preloaded_python.server.wait(timeout=20)
    assert not place.exists()


def job(folder, *arguments, **more):
    """Run the script as a job does: by `python` of job.sh."""
    return run_command(
        [REPOSITORY / "scripts/job.sh", "python", *arguments],
        env=environment(**{preloaded_python.FOLDER: str(folder)}, **more),
        timeout=60,
    )


def test_a_script_runs_as_in_a_new_process(folder, tmp_path):
    done = job(folder, "script.py", "good", "ü")
    assert done.stdout == f"['good', 'ü'] True None {tmp_path.name}\n"
    assert done.stderr == "True __main__\n"
    assert done.returncode == 0
    # The folder of temporary files may differ.
    assert "True" in job(folder, "script.py", "good", TMPDIR=str(tmp_path)).stdout


def test_its_exit_status_and_errors_are_those_of_python(folder):
    assert job(folder, "script.py", "fail").returncode == 3
    raised = job(folder, "script.py", "raise")
    assert raised.returncode == 1 and raised.stderr.endswith("KeyError: 'wrong'\n")
    said = job(folder, "script.py", "say")
    assert said.returncode == 1 and said.stderr.endswith("a last word\n")


def test_modules_and_commands_that_they_become_run_in_forks_too(folder):
    done = job(folder, "-m", "lexigraft.gpus", "0", "python", "script.py", "good")
    assert "['good'] True" in done.stdout, done.stderr


@pytest.mark.parametrize("other", ["OWN", "OMP_NUM_THREADS"])
def test_with_another_environment_a_new_process_runs_it(folder, other):
    done = job(folder, "script.py", "good", **{other: "2"})
    assert done.stdout.startswith("['good'] False"), done.stderr


@pytest.mark.parametrize(
    ("send", "status"), [(signal.SIGINT, 1), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_signals_reach_the_script(folder, tmp_path, send, status):
    process = subprocess.Popen(
        [REPOSITORY / "scripts/job.sh", "python", "script.py", "wait", "60"],
        env=environment(**{preloaded_python.FOLDER: str(folder)}),
        stderr=subprocess.DEVNULL,
    )
    file = tmp_path / "waiting"
    while not (file.exists() and file.read_text()):
        time.sleep(0.05)
    process.send_signal(send)
    assert process.wait(timeout=20) == status
    script = int(file.read_text())
    deadline = time.monotonic() + 20
    while Path(f"/proc/{script}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_job_that_runs_when_snakemake_ends_is_finished(folder, tmp_path):
    process = subprocess.Popen(
        [REPOSITORY / "scripts/job.sh", "python", "script.py", "wait", "2"],
        env=environment(**{preloaded_python.FOLDER: str(folder)}),
        stdout=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "waiting").exists():
        time.sleep(0.05)
    preloaded_python.server.stdin.close()
    time.sleep(1)
    assert job(folder, "script.py", "good").stdout.startswith("['good'] False")
    assert process.communicate(timeout=20)[0].startswith("['wait', '2'] True")
    assert process.returncode == 0


def first_on_path(folder) -> str:
    """The folder in which a job finds its commands first."""
    done = run_command(
        [REPOSITORY / "scripts/job.sh", "/bin/sh", "-c", "echo $PATH"],
        env=environment(**{preloaded_python.FOLDER: str(folder)}),
        check=True,
    )
    return done.stdout.split(":")[0]


def test_only_the_user_can_write_to_its_folder_and_to_the_one_that_holds_it(folder, cache):
    for place in (folder, folder.parent):
        assert place.is_relative_to(cache)
        assert place.stat().st_uid == os.geteuid() and place.stat().st_mode & 0o777 == 0o700
    assert first_on_path(folder) == str(folder)


def test_after_a_failed_import_nothing_of_it_is_left_on_the_path(tmp_path, monkeypatch, cache):
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    folder = start("no_such_module")
    preloaded_python.server.wait(timeout=20)
    assert first_on_path(folder) == environment()["LEXIGRAFT_BIN"]
    assert job(folder, "script.py", "good").stdout.startswith("['good'] False")
    assert list(Path(folder).parent.iterdir()) == []


def of_other_mode(folder: Path) -> None:
    folder.chmod(0o770)


def of_another_user(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(folder, 12345, -1)


def as_a_link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


@pytest.mark.parametrize("change", [of_other_mode, of_another_user, as_a_link])
def test_a_folder_that_others_may_have_made_is_not_used(folder, change):
    """Neither for its `python` nor for its socket."""
    change(folder)
    try:
        assert first_on_path(folder) == environment()["LEXIGRAFT_BIN"]
        client = [preloaded_python.__file__, "run", str(folder), "script.py", "good"]
        done = run_command([sys.executable, "-IS", *client], env=environment(), check=True)
        assert done.stdout.startswith("['good'] False")
    finally:
        if folder.is_symlink():
            folder.unlink()
            folder.with_name("elsewhere").rename(folder)


@pytest.mark.parametrize("place", ["open", "x" * 90, "file"])
def test_without_a_folder_that_only_the_user_can_write_to_there_is_no_server(
    cache, monkeypatch, place
):
    (cache / "file").touch()
    (cache / "open/lexigraft").mkdir(parents=True)
    (cache / "open/lexigraft").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / place))
    assert start("tomllib") is None


def test_compiled_code_is_not_taken_from_the_folder_of_temporary_files(cache, monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)  # torch sets it when imported
    done = run_command(
        [REPOSITORY / "scripts/job.sh", "/bin/sh", "-c", "echo $TORCHINDUCTOR_CACHE_DIR"],
        env=environment(),
        check=True,
    )
    assert done.stdout == f"{cache}/torchinductor\n"
