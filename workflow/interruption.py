"""Jobs on this machine end when Snakemake is interrupted."""

import signal
from contextlib import suppress
from typing import Any

import psutil


def interrupt_jobs_with_snakemake(executor: str) -> None:
    """Have a Snakemake that gets SIGINT or SIGTERM send SIGINT to the processes of its jobs.

    By itself it waits until they end. A terminal sends SIGINT to all of them; `kill` and service
    managers send a signal to Snakemake alone. Call it in the main thread once Snakemake has set its
    own handlers, which run afterwards.

    Parameters
    ----------
    executor
        Name of Snakemake's executor; jobs of another than the local one are the cluster's.
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
