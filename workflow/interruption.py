"""What happens to jobs when Snakemake is interrupted, which by itself only waits until they end."""

import signal
from contextlib import suppress
from typing import Any

import psutil


def interrupt_jobs_with_snakemake(executor: str) -> None:
    """Have a Snakemake that receives SIGINT or SIGTERM send SIGINT to the processes of its jobs.

    A terminal sends SIGINT to all processes; `kill` and service managers send a signal to Snakemake
    alone. Jobs of any executor but the `local` one run on a cluster. Call it in the main thread
    after Snakemake has set its own handlers, which run afterwards.
    """
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: Any) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGINT)  # for which a shell waits until its job ends
        if callable(own := usual[signal.Signals(number)]):
            own(number, frame)

    for number in usual if executor == "local" else ():
        signal.signal(number, handle)
