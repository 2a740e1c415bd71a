"""End the jobs on this machine when Snakemake is interrupted."""

import signal
from contextlib import suppress
from typing import Any

import psutil


def interrupt_jobs_with_snakemake(executor: str) -> None:
    """Have a Snakemake that receives SIGINT or SIGTERM send SIGINT to the processes of its jobs.

    Snakemake itself only waits until they end. A terminal sends SIGINT to all processes; `kill` and
    service managers send a signal to Snakemake alone. Call it in the main thread after Snakemake
    has set its own handlers, which run afterwards.

    Parameters
    ----------
    executor
        Name of Snakemake's executor; jobs of any but the local one run on a cluster.
    """
    if executor != "local":
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        _extend_handler(number)


def _extend_handler(number: signal.Signals) -> None:
    usual = signal.getsignal(number)

    def handle(received: int, frame: Any) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGINT)  # for which a shell waits until its job ends
        if callable(usual):
            usual(received, frame)

    signal.signal(number, handle)
