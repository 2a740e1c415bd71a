"""Time and memory of a function, measured in a separate process; Linux only."""

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from lexigraft.usage import MemoryGrowth
from workflow.config.registries import ROOT

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
            "RAYON_NUM_THREADS")  # fmt: skip


def measured(work: Callable[[], object]) -> dict[str, float]:
    """CPU and wall seconds, and the peak MiB in addition to the process's memory before."""
    gc.collect()
    memory = MemoryGrowth()
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "mib": memory.peak() / 2**20,
    }


def in_its_own_process(
    name: str, *arguments: str, threads: int, **environment: str
) -> dict[str, Any]:
    """Run the benchmark of this name with these arguments; parse its last line as JSON.

    `environment` are variables in addition to those of this process. If it fails, `error` is its
    last line on stderr.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    limits = dict.fromkeys(_THREADS, str(threads))
    own = {"PYTHONPATH": path, "OMP_WAIT_POLICY": "PASSIVE", **limits, **environment}
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    done = subprocess.run(
        command, env=os.environ | own, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"error": last}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
