"""The harness's own task definitions, by the folder that they lie in and their names."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import lm_eval.tasks
from lm_eval.tasks import TaskManager

from lexigraft.errors import UserError, unknown

if TYPE_CHECKING:
    from lm_eval.tasks.manager import TaskDict

HARNESS = f"lm-evaluation-harness {lm_eval.__version__}"

logger = logging.getLogger(__name__)


def load_task(name: str, folder: str) -> "TaskDict":
    """Make a task of the harness, or all tasks of a group of it, which reads their data sets.

    Parameters
    ----------
    name
        What the harness calls it, such as `xcopa_sw` or `mmmlu_de_de`.
    folder
        Where in the harness's `tasks` its definition lies. Only this is searched: the harness has
        13,000 definitions, and takes a minute to read all.

    Returns
    -------
    dict
        `tasks`, by name, and `groups`: what `lm_eval.evaluate` takes.

    Raises
    ------
    UserError
        The harness has no such folder, no such task in it, or the task does not choose.
    """
    root = Path(lm_eval.tasks.__file__).parent
    if not (root / folder).is_dir():
        raise UserError(f"config/tasks.yaml: folder '{folder}' is none of {HARNESS}'s tasks")
    manager = TaskManager(include_path=root / folder, include_defaults=False)
    if name not in manager.all_tasks:
        raise unknown(f"config/tasks.yaml: task in folder '{folder}'", name, manager.all_tasks,
                      f"of {HARNESS}")  # fmt: skip
    asks = (manager.task_index[name].cfg or {}).get("output_type", "multiple_choice")
    if asks != "multiple_choice":
        raise UserError(
            f"config/tasks.yaml: {name} of {HARNESS} is of output type {asks}; kind "
            "multiple_choice takes tasks that choose"
        )
    loaded = manager.load([name])
    for task in loaded["tasks"].values():
        # What has nothing but its test to take examples from would now and then show the very one
        # that it tests: the harness leaves that one out only of a split that is named.
        if not (task.has_training_docs() or task.has_validation_docs() or task.fewshot_cfg.split):
            task.fewshot_cfg.split = task.config.test_split
    return loaded
