"""Planning thousands of jobs in less time.

For each job and each of its functions (inputs, parameters, resources) Snakemake 9.27 asks Python
anew which parameters that function has: a fifth of the time of a plan. Python's garbage collector
looks again and again at objects of the plan, all of which stay. A plan of 3,188 jobs takes 14.1
seconds of a processor without this, and 10.8 with it (benchmarks/planning.py). And a plan that is
not to name its jobs (`-n --quiet rules`) still puts each into words: another quarter. To learn that
no job has a Conda environment, it puts the parameters of each together, which a plan on an empty
results folder needs for nothing else: 10.0 seconds in place of 7.6.
"""

import gc
from functools import lru_cache
from types import ModuleType
from typing import Any

from snakemake import common, rules
from snakemake.settings.types import Quietness


def prepare_for_many_jobs(modules: tuple[ModuleType, ...] = (common, rules)) -> None:
    """Have Snakemake's modules remember the parameters of functions, and collect less often."""
    gc.set_threshold(200_000, 20, 100)
    for module in modules:
        asked = module.get_function_params
        if not hasattr(asked, "cache_info"):
            module.get_function_params = lru_cache(maxsize=10_000)(asked)  # type: ignore[attr-defined]


def pass_over_environments(dag_class: Any) -> None:
    """Have a Snakemake `DAG` class look for Conda environments only where a rule has one."""
    look = dag_class.update_conda_envs

    def look_if_there_are_any(dag: Any) -> None:
        if any(job.rule.conda_env for job in dag.jobs):
            look(dag)

    dag_class.update_conda_envs = look_if_there_are_any


def leave_jobs_unsaid(job_class: Any, output: Any) -> None:
    """Have jobs not put into words what nobody reads.

    Parameters
    ----------
    job_class
        Snakemake's `Job`.
    output
        Its settings of output: whether it only plans, and what is not to be shown.
    """
    if output.dryrun and {Quietness.RULES, Quietness.ALL} & set(output.quiet or ()):
        job_class.log_info = lambda job, *_, **__: None
