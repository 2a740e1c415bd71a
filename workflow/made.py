"""What a job has made stays, whatever becomes of Snakemake, of Slurm or of the rest of its group.

The card in its folder says that a job's outputs are whole, and which job made them. Snakemake 9.27
goes by less:

- Of a group that fails it takes away all outputs, and tries all members again. With its
  `--keep-incomplete` it leaves all of them there, and notes that each was made by the job that has
  just failed: one of an earlier configuration, to which that job never came, counts as new.
- What jobs finish after Snakemake was killed counts as incomplete, and is made once more. Or, on a
  cluster, it counts as up to date for ever: there a job itself takes away the mark that it began,
  and how it made its outputs is noted by the Snakemake that is gone.
- A job that Slurm reports as failed has failed, though it was about to end with all its work done.
"""

import copy
import json
import logging
from pathlib import Path
from typing import Any

from lexigraft import integrity
from lexigraft.prefix import with_prefix

logger = logging.getLogger(__name__)


def is_made(job: Any) -> bool:
    """Whether all outputs of a Snakemake job are there, whole, and made by this very job."""
    described = job.params.get("job")
    there = described is not None and all(Path(file).is_file() for file in job.output)
    return there and integrity.is_made(json.loads(with_prefix(described)))


def keep_what_is_made(job: Any, group: Any, persistence: Any, scheduler: Any) -> None:
    """Have Snakemake go by cards where a job has failed, or Snakemake itself before it ended.

    Parameters
    ----------
    job, group, persistence, scheduler
        Its classes `Job`, `GroupJob`, `PersistenceBase` and `JobScheduler`.
    """
    _clear_away_the_rest(job)
    _try_again_the_rest(group)
    _note_what_was_made(persistence)
    _believe_cards(scheduler)


def _clear_away_the_rest(job_class: Any) -> None:
    """Take away outputs of a job that failed, but not those that it has made."""
    cleanup = job_class.cleanup

    async def clear(job: Any, skip_outputs: Any) -> None:
        if not is_made(job):
            await cleanup(job, skip_outputs)

    job_class.cleanup = clear


def _try_again_the_rest(group_class: Any) -> None:
    """Name, and send again, those members of a group that failed which have not made theirs."""
    log_error, get_target_spec = group_class.log_error, group_class.get_target_spec

    def name_the_rest(group: Any, *arguments: Any, **facts: Any) -> None:
        log_error(_rest(group), *arguments, **facts)

    def send_the_rest(group: Any) -> Any:
        return get_target_spec(_rest(group) if group.attempt > 1 else group)

    group_class.log_error, group_class.get_target_spec = name_the_rest, send_the_rest


def _note_what_was_made(persistence_class: Any) -> None:
    """Note jobs that ended after the Snakemake which had started them, if they are still the same.

    Those of an earlier configuration are made anew, as what is incomplete is.
    """
    incomplete, finished = persistence_class.incomplete, persistence_class.finished

    async def look(persistence: Any, job: Any) -> Any:
        found = await incomplete(persistence, job)
        if not found or not is_made(job):
            return found
        await _note(persistence, job)
        return []

    async def finish(persistence: Any, job: Any) -> None:
        # In a job of a cluster the mark stays, until Snakemake has noted what was made.
        if not persistence.dag.workflow.remote_exec:
            await finished(persistence, job)

    persistence_class.incomplete, persistence_class.finished = look, finish


async def _note(persistence: Any, job: Any) -> None:
    dag = persistence.dag
    if dag.workflow.dryrun:
        return
    try:
        dag.jobid(job)
    except KeyError:  # the note is of a job that has a number
        dag.update_jobids()
    await persistence.finished(job)


def _believe_cards(scheduler_class: Any) -> None:
    """Count a job that was sent away as done where all of it was made, whatever is said of it."""
    error_callback = scheduler_class.error_callback

    def judge(scheduler: Any, job: Any) -> None:
        if scheduler.workflow.local_exec or not all(map(is_made, _members(job))):
            return error_callback(scheduler, job)
        logger.warning("%s has made all of its outputs before that; it counts as done", job.name)
        return scheduler.finish_callback(job)

    scheduler_class.error_callback = judge


def _rest(group: Any) -> Any:
    """The group without the members that have made their outputs."""
    rest = copy.copy(group)
    rest.jobs = frozenset(job for job in group.jobs if not is_made(job))
    return rest


def _members(job: Any) -> list[Any]:
    return list(job.jobs) if job.is_group() else [job]
