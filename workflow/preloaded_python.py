"""A Python that has imported the slow libraries already: short jobs run in forks of it.

Importing torch and transformers takes several seconds of each job, and a study on a CPU has
hundreds of jobs of a few seconds. Snakemake starts a server that imports these libraries once; the
command `python` of its jobs then asks the server to fork and to run the script:

    python preloaded_python.py serve <folder> module …          serve until standard input ends
    python preloaded_python.py run <folder> script.py | -m module …    run a command in a fork

A fork differs from a new Python process only in these imports: it is used only if both have the
same environment. Otherwise, and until the server is ready, the command runs in a new process. The
server never imports lexigraft. This file is run by path, and imports only the standard library.
Snakemake starts a shell for each job, so its executor plugins cannot fork the script instead.
"""

import atexit
import gc
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = "LEXIGRAFT_PRELOADED"  # environment variable of jobs: the folder of the server
LONGEST = 107 - len("/0123456789abcdef.new")  # bytes of its path: a socket has at most 107
FEWEST_JOBS = 4  # fewer are finished before a server pays off
MODULES = ("torch", "transformers.trainer", "peft", "pandas", "scipy.sparse", "scipy.stats")
# Variables that differ between jobs and that no library reads when it is imported.
_OF_ONE_PROCESS = ("_", "SHLVL", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMPDIR", "TEMP")
# Set by Snakemake to the threads of a job. Only jobs with one thread use the server.
THREADS = ("OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
            "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS")  # fmt: skip

# Started by this process; kept, since it ends when its standard input is closed.
server: subprocess.Popen[bytes] | None = None


def start(repository: str) -> None:
    """Start a server for the jobs of this process, with which it ends.

    Does nothing where the system lacks what it needs, or has no folder that only this user can
    write to. Call it after all variables of the jobs' environment are set.
    """
    global server

    if sys.platform != "linux":
        return
    # Not in the folder of temporary files: there, another user could take the name of the folder
    # once it is deleted, and jobs would run that user's `python`.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    private = Path(cache).absolute() / "lexigraft"
    try:
        private.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(private) or len(os.fsencode(private / "12345678")) > LONGEST:
            return
        folder = tempfile.mkdtemp(prefix="", dir=private)
    except OSError:
        return
    os.environ[FOLDER] = folder
    client = shlex.join([sys.executable, "-IS", __file__, "run", folder])
    executable = Path(folder, "python")
    executable.write_text(f'#!/bin/sh\nexec {client} "$@"\n', encoding="utf-8")
    executable.chmod(0o700)
    server = subprocess.Popen(
        # -P: its folder is not on the path; job.sh sets more variables of the jobs' environment.
        [f"{repository}/scripts/job.sh", sys.executable, "-P", __file__, "serve", folder, *MODULES],
        env=os.environ | dict.fromkeys(THREADS, "1"),
        stdin=subprocess.PIPE,  # which ends with this process
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def is_private(folder: Path) -> bool:
    """Whether this is a folder, not a link, of this user, in which nobody else can write."""
    status = folder.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def serve(folder: str, *modules: str) -> None:
    """Import modules, then run commands in forks until standard input has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the jobs of an interrupted Snakemake
    address = _address(folder)  # before imports set further variables
    try:
        for name in modules:
            import_module(name)
        answer(address, _run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answer(address: str, run: Callable[..., None]) -> None:
    """Call `run` in a fork for each request, with what `request` sent, until standard input ends.

    Forks that still run then are finished, or end with the processes that wait for them.
    """
    # Otherwise, garbage collection in each fork touches, and so copies, all objects: a second.
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes forks that have ended
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen()
    Path(f"{address}.new").rename(address)  # it accepts connections as soon as it is there
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        connection, _ = listener.accept()
        try:
            child = os.fork()
        except OSError:  # no memory
            child = -1
        if child == 0:
            listener.close()
            try:
                _answer(connection, run)
            finally:  # never back into the loop of the server
                os._exit(1)
        connection.close()
    listener.close()


def _answer(connection: socket.socket, run: Callable[..., None]) -> None:
    """Run what a process requests, with its standard files, in a fork, and send the exit status.

    Signals that it gets are sent to the fork. If it is killed, the fork is killed with all
    processes that it started.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, *_ = socket.recv_fds(connection, 1 << 20, 3)
    size, _, text = message.partition(b"\n")
    while len(text) < int(size):
        if not (more := connection.recv(1 << 20)):
            os._exit(1)
        text += more
    child = os.fork()
    if child == 0:
        os.setsid()
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        run(**json.loads(text))
    ended: Any = os.pidfd_open(child)
    with suppress(OSError):  # the process that waits was killed
        while ended not in select.select([connection, ended], [], [])[0]:
            if not (signals := connection.recv(1)):
                break
            os.kill(child, signals[0])
        else:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            connection.sendall(bytes([code if code >= 0 else 128 - code]))  # as a shell does
            os._exit(0)
    os.killpg(child, signal.SIGKILL)
    os._exit(1)


def request(connection: socket.socket, **described: Any) -> int:
    """Have the server run what is described, as JSON, with the open files of this process.

    Returns the exit status, or 1 if the process that answers was killed.
    """
    text = json.dumps(described).encode()
    socket.send_fds(connection, [b"%d\n" % len(text)], [0, 1, 2])
    connection.sendall(text)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    if not (status := connection.recv(1)):
        print(
            "error: the process that waits for the job has ended, usually because memory is short; "
            "run again with fewer --cores or with LEXIGRAFT_PRELOAD=false",
            file=sys.stderr,
        )
    return status[0] if status else 1


def run_as_python(command: Sequence[str], safe_path: bool) -> None:
    """Run `script.py …` or `-m module …` in this process as Python does, and end the process.

    With a `safe_path`, neither the script's nor the working folder is put on the path.
    """
    try:
        if command[0] == "-m":
            sys.argv = [*command[1:]]
            sys.path[:0] = [] if safe_path else [str(Path.cwd())]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [*command]
            sys.path[:0] = [] if safe_path else [str(Path(command[0]).resolve().parent)]
            runpy.run_path(str(Path(command[0]).absolute()), run_name="__main__")
    except SystemExit as end:
        _end(end.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _end(1)
    _end(0)


def _run(command: list[str], folder: str, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()  # of what imports have set: a command that it starts has another environment
    os.environ.update(environment)
    tempfile.tempdir = None  # read from the environment when it is first needed
    run_as_python(command, bool(environment.get("PYTHONSAFEPATH")))


def _run_or_request(folder: str, *command: str) -> int:
    """Run a Python command in a fork of the server, or else in this process."""
    if command and (command[0] == "-m" or not command[0].startswith("-")):
        connection = socket.socket(socket.AF_UNIX)
        try:
            if not is_private(Path(folder)):
                raise PermissionError(folder)
            connection.connect(_address(folder))
        except OSError:
            connection.close()
        else:
            environment = dict(os.environ)
            return request(
                connection, command=command, folder=str(Path.cwd()), environment=environment
            )
    os.execv(sys.executable, [sys.executable, *command])


def _address(folder: str) -> str:
    """The socket of a server in a folder that has the environment of this process."""
    variables = {key: value for key, value in os.environ.items() if key not in _OF_ONE_PROCESS}
    digest = sha256(json.dumps(variables, sort_keys=True).encode()).hexdigest()
    return f"{folder}/{digest[:16]}"


def _end(code: object) -> None:
    """Exit as Python does, without deallocating what was imported, which takes a second."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        sys.exit(_run_or_request(*sys.argv[2:]))
