"""GPUs of this machine, each reserved for one job at a time.

`python -m lexigraft.gpus 2 torchrun …` waits for two free GPUs, makes them the only visible ones
(`CUDA_VISIBLE_DEVICES`) and executes the command that follows. A reservation is a file lock, which
the kernel releases when the command ends for any reason. Reservations are per user and per Slurm
job, since Slurm numbers the GPUs of each job from zero. `LEXIGRAFT_RESERVE_GPUS=0` turns
reservations off. Without a GPU, the command runs directly.
"""

import fcntl
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from lexigraft.artifacts.checksums import is_private
from lexigraft.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
SWITCH = "LEXIGRAFT_RESERVE_GPUS"
SECONDS_BETWEEN_ATTEMPTS = 0.5


def devices() -> list[str]:
    """Names of the GPUs that this process may use, as in `CUDA_VISIBLE_DEVICES`; may be empty."""
    if (visible := os.environ.get(VISIBLE)) is not None:
        names = (name.strip() for name in visible.split(","))
        # CUDA ignores the first invalid name and all that follow it.
        return list(takewhile(lambda name: name not in ("", "-1", "NoDevFiles"), names))
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    # For a partitioned GPU, its MIG instances.
    instances = re.findall(r"^\s+MIG .*\(UUID: ([^)]+)\)", listed, flags=re.MULTILINE)
    return instances or re.findall(r"^GPU (\d+):", listed, flags=re.MULTILINE)


def local_limit(arguments: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """How many GPUs Snakemake with this command line may use at a time; None if jobs run elsewhere.

    Snakemake reduces the request of a job to this number, also for a job that is sent to a cluster.
    """
    options = ("--profile", "--executor", "-e")
    if "SNAKEMAKE_PROFILE" in environment or any(a.startswith(options) for a in arguments):
        return None
    return len(devices())


def reserve(count: int) -> None:
    """Wait for `count` free GPUs and make them the only visible ones until this process ends."""
    if os.environ.get(SWITCH) == "0" or not (names := devices()):
        return
    if count > len(names):
        raise UserError(
            f"the job needs {count} GPUs but this machine has {len(names)} available; run "
            f"Snakemake with --resources gpu={len(names)}"
        )
    slurm_job = os.environ.get("SLURM_JOB_ID")
    if slurm_job and count == len(names):
        return  # Slurm gave this job exactly the GPUs that it needs, for it alone
    folder = _lock_folder(f"-slurm-{slurm_job}" if slurm_job else "")
    reserved = _lock(names, count, folder)
    if reserved is None:
        message = f"waiting for {count} of {len(names)} GPUs: other jobs use them"
        print(message, file=sys.stderr, flush=True)
    while reserved is None:
        time.sleep(SECONDS_BETWEEN_ATTEMPTS)
        reserved = _lock(names, count, folder)
    os.environ[VISIBLE] = ",".join(reserved)
    # Number GPUs as nvidia-smi does, not by speed.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


def _lock(names: Sequence[str], count: int, folder: Path) -> list[str] | None:
    """Lock `count` of the GPUs; returns None and locks none if fewer are free."""
    locks: dict[str, int] = {}
    for name in names:
        if len(locks) == count:
            break
        lock = os.open(
            folder / re.sub(r"[^\w-]", "_", name), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            locks[name] = lock
    if len(locks) < count:
        for lock in locks.values():
            os.close(lock)
        return None
    for lock in locks.values():
        os.set_inheritable(lock, True)  # the command that this process becomes keeps it open
    return list(locks)


def _lock_folder(scope: str) -> Path:
    """A folder that only this user can write to."""
    folder = Path(tempfile.gettempdir()) / f"lexigraft-gpus-{os.getuid()}{scope}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not is_private(folder):
        raise UserError(f"{folder}: not a folder that only you can write to; delete it")
    return folder


def main(arguments: Sequence[str]) -> None:
    """Reserve the number of GPUs in the first argument and execute the remaining arguments."""
    if len(arguments) < 2 or not arguments[0].isdigit():
        sys.exit("usage: python -m lexigraft.gpus COUNT COMMAND …")
    try:
        reserve(int(arguments[0]))
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    os.execvp(arguments[1], list(arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
