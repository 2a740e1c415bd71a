"""A Python that has imported the heavy libraries already: each command runs in a fork of it.

Five seconds of a processor go by before a job that opens a model has imported transformers, and a
study of a few sentences is thirty such jobs. The server imports those libraries once and then does
nothing but fork. It never imports lexigraft: a command takes that of its own folder.

    python warm.py serve <socket>                        the server, until its standard input ends
    python warm.py <executable> <socket> script.py …     a command, as `python script.py …` has it
    python warm.py <executable> <socket> -m module …
"""

import json
import os
import socket
import sys
from functools import cache
from pathlib import Path

PRELOADED = (
    "snakemake.cli",
    "matplotlib.pyplot",
    "pandas",
    "scipy.sparse",
    "torch",
    "transformers.models.llama.modeling_llama",
    "transformers.trainer",
)


@cache
def python() -> str:
    """Path of the executable; the server starts with the first use and ends with this process."""
    import subprocess
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    executable, address = folder / "python", folder / "socket"
    client = f'exec {sys.executable} -IS {Path(__file__).resolve()} "$0" {address} "$@"'
    executable.write_text(f"#!/bin/sh\n{client}\n")
    executable.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, __file__, "serve", str(address)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return str(executable)


def serve(address: str) -> None:
    """Fork for every command that comes."""
    import gc
    import select
    import shutil
    import signal
    from importlib import import_module

    sys.path.pop(0)  # the folder of this file
    for name in PRELOADED:
        import_module(name)
    # Else each fork's collector goes over all of that, and copies it: a second each time.
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    children = 0
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection)
        children += 1
        connection.close()
        while children and os.waitpid(-1, os.WNOHANG)[0]:
            children -= 1
    shutil.rmtree(Path(address).parent)
    os.killpg(os.getpid(), signal.SIGKILL)


def _answer(connection: socket.socket) -> None:
    """Run one command in a child of its own, and say how it ended."""
    message, descriptors, *_ = socket.recv_fds(connection, 1 << 20, 3)
    size, _, text = message.partition(b"\n")
    while len(text) < int(size):
        text += connection.recv(1 << 20)
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        connection.sendall(bytes([os.waitstatus_to_exitcode(status) % 256]))
        os._exit(0)
    connection.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    _run(**json.loads(text))


def _run(executable: str, command: list[str], folder: str, environment: dict[str, str]) -> None:
    """Be the process that Python would be."""
    import runpy

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = executable
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(":") if path]
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path.insert(0, str(Path(command[0]).resolve().parent))
        runpy.run_path(command[0], run_name="__main__")
    sys.exit()


def ask(executable: str, address: str, *command: str) -> int:
    """Have the server run a command with the files, the folder and the environment of this process.

    Returns its exit status.
    """
    request = {
        "executable": executable,
        "command": command,
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
    }
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"%d\n" % len(text)], [0, 1, 2])
        connection.sendall(text)
        status = connection.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(*sys.argv[1:]))
