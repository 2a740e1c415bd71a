"""Trains cells in separate processes: several as torchrun starts them, or one that is killed.

They are forked from a process that has imported everything, which takes a new one seconds.
"""

import multiprocessing
import os
import shutil
import signal
import socket
import time
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["lexigraft.training.train", "peft", "tests.training.frozen_imports"]
)
TIMEOUT = 600  # seconds; a busy machine is slow


def train(job, processes=1, *, sharded=False, dies_at=None, tokens=None):
    """Train a cell with a checkpoint after every step; the exit status of the first process.

    Parameters
    ----------
    dies_at
        The first process kills itself instead of the file operation of this number.
    tokens
        The most tokens of a micro-batch.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        "LEXIGRAFT_PRECISION": "float32",
        "LEXIGRAFT_SHARDED": str(int(sharded)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    if processes > 1:
        shared["WORLD_SIZE"] = str(processes)
    group = []
    for rank in range(processes):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
        arguments = (job, {**shared, **own}, None if rank else dies_at, tokens)
        group.append(_CONTEXT.Process(target=_train, args=arguments))
    for process in group:
        process.start()
    deadline = time.monotonic() + TIMEOUT
    while any(p.is_alive() for p in group) and time.monotonic() < deadline:
        if any(p.exitcode not in (None, 0) for p in group):
            break  # as torchrun does, the others are not left waiting
        time.sleep(0.01)
    for process in group:
        process.kill()
        process.join()
    codes = {process.exitcode for process in group}
    return group[0].exitcode if dies_at or codes != {0} else 0


def _train(job, environment, dies_at, tokens):
    os.environ.update(environment)
    from lexigraft.training.checkpointing import SavePolicy
    from lexigraft.training.train import train_cell

    if tokens is not None:
        os.environ["LEXIGRAFT_PASS_TOKENS"] = str(tokens)
    if dies_at is not None:
        _die_at(dies_at)
    train_cell(job, SavePolicy(seconds=0, factor=0))


def _die_at(number):
    """Kill this process instead of its operation `number` on files, counted from 1."""
    import torch

    from lexigraft.training import checkpointing, phase
    from lexigraft.training.training_log import TrainingLog

    done = 0

    def counted(operation):
        def operate(*arguments, **named):
            nonlocal done
            done += 1
            if done == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **named)

        return operate

    places = [
        (Path, "replace"), (Path, "unlink"), (shutil, "rmtree"), (torch, "save"),
        (phase, "save_file"), (checkpointing, "save_file"), (TrainingLog, "write"),
    ]  # fmt: skip
    for holder, name in places:
        setattr(holder, name, counted(getattr(holder, name)))
