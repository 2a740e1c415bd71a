"""Brings the data sets of a task of the harness to this machine, or writes down what lacks."""

import logging
from pathlib import Path
from typing import Any

from lexigraft.atomic import replacing_folder
from lexigraft.evaluation.harness.data import KEPT, NotAtHand, keeping
from lexigraft.evaluation.harness.tasks import HARNESS, load_task

logger = logging.getLogger(__name__)

DATA = "data"


def prepare_benchmark(
    name: str, folder: str, data: str | None, into: str | Path
) -> tuple[list[str], dict[str, Any]]:
    """Make a task of the harness once, and keep what it reads.

    Parameters
    ----------
    name, folder
        The task, see `load_task`.
    data
        A local folder with data sets of the hub under their names, or None. What it lacks is read
        from the hub, or from its cache.
    into
        Gets the folder `data`.

    Returns
    -------
    files, facts
        The files written, and what the card says: whether the task is `available`, if not `why`,
        and of each data set where it is from and how many rows it has. `used` are the local
        folders that were read, None where the task is not available.

    Raises
    ------
    UserError
        The harness has no such task.
    """
    into = Path(into)
    facts: dict[str, Any] = {"task": name, "definition": folder, "harness": HARNESS}
    try:
        with replacing_folder(into / DATA) as temporary, keeping(temporary, data) as kept:
            load_task(name, folder)
    except NotAtHand as reason:
        logger.warning("%s cannot be scored: %s", name, reason)
        return [], facts | {"available": False, "why": str(reason), "used": None}
    files = sorted(file for file in (into / DATA).rglob("*") if file.is_file())
    used = sorted({one["place"] for one in kept if one["place"]})
    facts |= {"available": True, "why": None, "used": used, KEPT.split(".")[0]: kept}
    return [str(file.relative_to(into)) for file in files], facts
