"""A Python that has imported the heavy libraries already: each command runs in a fork of it.

A job that loads a model spends five seconds on importing transformers, and a study of a few
sentences has thirty such jobs. The server imports these libraries once and then only forks. It
never imports lexigraft: a command imports the one of its own folder.

    python preloaded_python.py serve <socket> module …            serve until standard input ends
    python preloaded_python.py <executable> <socket> script.py …  run `python script.py …`
    python preloaded_python.py <executable> <socket> -m module …
"""

import json
import os
import socket
import sys
from functools import cache
from pathlib import Path

# Environment variable: the folder that the processes of one test run share.
SHARED = "LEXIGRAFT_PRELOADED"

PRELOADED = (
    "snakemake.cli",
    "snakemake.report.html_reporter",
    "snakemake_logger_plugin_rich",
    "smart_open",
    "yte",
    "fontTools.subset",
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
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            client = shlex.join([sys.executable, "-IS", str(Path(__file__).resolve())])
            client = f'exec {client} "$0" {shlex.quote(str(address))} "$@"'
            executable.write_text(f"#!/bin/sh\n{client}\n")
            executable.chmod(0o755)
    return str(executable)


def serve(address: str, *preloaded: str) -> None:
    """Run each command that is received in a fork, and send its exit status.

    Signals that the process which asked for it gets are sent on. Where that process is killed, the
    command and all that it started are too.
    """
    import gc
    import select
    import shutil
    import signal
    from contextlib import suppress
    from importlib import import_module

    sys.path.pop(0)  # the folder of this file
    for name in preloaded:
        import_module(name)
    # Otherwise garbage collection in each fork touches, and so copies, all of it: a second a fork.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    running: dict[socket.socket, tuple[int, int]] = {}  # who waits -> process, descriptor of it
    while True:
        ended = {descriptor: waiting for waiting, (_, descriptor) in running.items()}
        ready, _, _ = select.select([sys.stdin, listener, *running, *ended], [], [])
        if sys.stdin in ready:
            break
        for one in ready:
            if one is listener:
                connection, _ = listener.accept()
                try:
                    described, files = _receive(connection)
                except (OSError, ValueError):  # who asked for it is dead already
                    connection.close()
                    continue
                if (child := os.fork()) == 0:
                    os.setsid()
                    for other in (listener, connection, *running):
                        other.close()
                    for number, file in enumerate(files):
                        os.dup2(file, number)
                        os.close(file)
                    _run(**described)
                for file in files:
                    os.close(file)
                running[connection] = child, os.pidfd_open(child)
            elif one in ended:
                child, descriptor = running.pop(waiting := ended[one])
                _, status = os.waitpid(child, 0)
                os.close(descriptor)
                with suppress(OSError):
                    waiting.sendall(bytes([os.waitstatus_to_exitcode(status) % 256]))
                waiting.close()
            elif one in running:
                with suppress(ProcessLookupError):
                    if signals := _signals(one):
                        os.kill(running[one][0], signals[0])
                    else:
                        os.killpg(running[one][0], signal.SIGKILL)
    shutil.rmtree(Path(address).parent.parent, ignore_errors=True)
    os.killpg(os.getpid(), signal.SIGKILL)


def _receive(connection: socket.socket) -> tuple[dict, list[int]]:
    """A command, as arguments of `_run`, and its standard files."""
    message, files, *_ = socket.recv_fds(connection, 1 << 20, 3)
    size, _, text = message.partition(b"\n")
    while len(text) < int(size):
        if not (more := connection.recv(1 << 20)):
            raise ConnectionError
        text += more
    return json.loads(text), files


def _signals(waiting: socket.socket) -> bytes:
    """The signal that a process sends to its command; nothing if the process is dead."""
    try:
        return waiting.recv(1)
    except ConnectionResetError:
        return b""


def _run(executable: str, command: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run a command as Python itself would."""
    import runpy

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
    try:
        if command[0] == "-m":
            sys.argv = command[1:]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = command
            if not isolated:
                sys.path.insert(0, str(Path(command[0]).resolve().parent))
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        _end(end.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _end(1)
    _end(0)


def _end(code: object) -> None:
    """Exit as Python does, without deallocating what was imported, which takes a second."""
    import atexit
    import threading

    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def request(executable: str, address: str, *command: str) -> int:
    """Let the server run a command with the open files, folder and environment of this process.

    Returns its exit status.
    """
    import signal

    message = {
        "executable": executable,
        "command": command,
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
    }
    text = json.dumps(message).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"%d\n" % len(text)], [0, 1, 2])
        connection.sendall(text)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
        status = connection.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        sys.exit(request(*sys.argv[1:]))
