"""Clocks that are set back: finished work stays.

After each job Snakemake 9.27 compares what the job wrote with what it read. An input that is newer,
because a clock was wrong when it was made or has been set back since, makes it throw the output
away, were it a week of training. Here the output is given the input's time instead.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


def forgive_clocks(dag_class: Any) -> None:
    """Have the jobs of a Snakemake `DAG` class dated no earlier than what they read."""

    async def date_outputs(dag: Any, job: Any, outputs: Iterable[str]) -> None:
        date_after(job.input, outputs)

    dag_class.check_output_mtime = date_outputs


def date_after(inputs: Iterable[str], outputs: Iterable[str]) -> None:
    """Give outputs that are older than the newest input the time of that input."""
    read = _dates(inputs)
    if not read:
        return
    newest = max(read, key=read.__getitem__)
    late = [file for file, date in _dates(outputs).items() if date < read[newest]]
    if late:
        logger.warning(
            "%s was read by a job and is newer than the clock of this machine; what the job made "
            "gets the same time",
            newest,
        )
    for output in late:
        os.utime(output, ns=(read[newest], read[newest]))


def _dates(files: Iterable[str]) -> dict[str, int]:
    """File -> when it was changed, in nanoseconds, of those that exist."""
    return {file: Path(file).stat().st_mtime_ns for file in files if Path(file).exists()}
