"""A Python that has imported the heavy libraries already: each command runs in a fork of it.

It is `workflow/preloaded_python.py` for tests: shared by the processes of a test run, it runs also
Snakemake itself, in any environment and with the lexigraft of any folder.

    python preloaded_python.py serve <socket> module …            serve until standard input ends
    python preloaded_python.py <executable> <socket> script.py …  run `python script.py …`
    python preloaded_python.py <executable> <socket> -m module …
"""

import os
import socket
import sys
import time
from functools import cache
from pathlib import Path
from types import ModuleType

# Environment variable: the folder that the processes of one test run share.
SHARED = "LEXIGRAFT_TESTS"

PRELOADED = (
    "snakemake.cli",
    "snakemake.report.html_reporter",
    "snakemake_logger_plugin_rich",
    "smart_open",
    "yte",
    "matplotlib.pyplot",
    "pandas",
    "sacrebleu",
    "scipy.sparse",
    "scipy.stats",
    "torch",
    "transformers.models.llama.modeling_llama",
    "transformers.trainer",
)


def share() -> None:
    """Let this process and all that it starts use the same servers from now on.

    The servers end with this process, which alone holds the other end of their standard input.
    """
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
    os.mkfifo(folder / "life")
    os.open(folder / "life", os.O_RDWR)
    os.environ[SHARED] = str(folder)


@cache
def python(interpreter: str = sys.executable, preloaded: tuple[str, ...] = PRELOADED) -> str:
    """Path of the executable; the first call starts the server.

    Parameters
    ----------
    interpreter
        The Python that the server runs; it may belong to another environment.
    preloaded
        The modules that it imports.
    """
    import fcntl
    import shlex
    import subprocess
    from hashlib import sha256

    if SHARED not in os.environ:
        share()
    shared = Path(os.environ[SHARED])
    folder = shared / sha256(repr((interpreter, preloaded)).encode()).hexdigest()[:8]
    folder.mkdir(exist_ok=True)
    executable, address = folder / "python", folder / "socket"
    with (folder / "lock").open("w") as lock, (shared / "life").open("rb", 0) as life:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not executable.exists():
            server = subprocess.Popen(
                [interpreter, __file__, "serve", str(address), *preloaded],
                # That of a command is added when it runs.
                env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
                stdin=life,
                stdout=subprocess.DEVNULL,  # that of a worker is pytest's
                start_new_session=True,
            )
            while not address.exists():
                assert server.poll() is None
                time.sleep(0.1)
            client = shlex.join([sys.executable, "-IS", str(Path(__file__).resolve())])
            client = f'exec {client} "$0" {shlex.quote(str(address))} "$@"'
            executable.write_text(f"#!/bin/sh\n{client}\n")
            executable.chmod(0o755)
    return str(executable)


def serve(address: str, *preloaded: str) -> None:
    """Run commands in forks until standard input ends."""
    import gc
    import shutil
    import signal
    from importlib import import_module

    sys.path.pop(0)  # the folder of this file
    for name in preloaded:
        import_module(name)
    gc.set_threshold(100_000, 20, 20)
    _of_the_workflow().answer(address, _run)
    shutil.rmtree(Path(address).parent.parent, ignore_errors=True)
    os.killpg(os.getpid(), signal.SIGKILL)


def _run(executable: str, command: list[str], folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = executable
    hub = sys.modules.get("huggingface_hub.constants")
    if hub and "HF_HUB_CACHE" in environment:  # which it reads when it is imported
        hub.HF_HUB_CACHE = environment["HF_HUB_CACHE"]
    isolated = "-I" in command[:1]
    while command[0] in ("-I", "-P", "-u"):  # none adds the working folder to the path
        command = command[1:]
    if not isolated:
        sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(":") if path]
    _of_the_workflow().run_as_python(command, isolated or command[0] == "-m")


def request(executable: str, address: str, *command: str) -> int:
    """Have the server run a command in the folder and environment of this process.

    Returns its exit status.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        return _of_the_workflow().request(
            connection,
            executable=executable,
            command=command,
            folder=str(Path.cwd()),
            environment=dict(os.environ),
        )


def _of_the_workflow() -> ModuleType:
    """The module of the same name in the workflow, which is not importable by its own name here."""
    from importlib.util import module_from_spec, spec_from_file_location

    file = Path(__file__).resolve().parents[1] / "workflow" / "preloaded_python.py"
    spec = spec_from_file_location("preloading", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        sys.exit(request(*sys.argv[1:]))
