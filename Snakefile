# lexigraft: vocabulary adaptation of pretrained language models, as a grid of cached stages.
#
#   snakemake --cores 2                                 the default study (config/config.yaml)
#   snakemake --configfile config/studies/<study>.yaml  another study
#   snakemake --profile profiles/slurm                  on a cluster (docs/slurm.md)
#
# A config says what to run, a profile how and where. Rules lie in workflow/rules, one file a stage.
import os
import shlex
import sys
from pathlib import Path

from snakemake.dag import DAG
from snakemake.exceptions import WorkflowError
from snakemake.jobs import GroupJob, Job
from snakemake.logging import logger
from snakemake.persistence import PersistenceBase
from snakemake.scheduling.job_scheduler import JobScheduler

sys.path.insert(0, workflow.basedir)
from lexigraft.errors import UserError
from workflow.at_work import hold
from workflow.checks import check_local_files
from workflow.clock import forgive_clocks
from workflow.configuration import load_registries, resolve
from workflow.disk import check_writable
from workflow.cells import AXES, FIT, NAME
from workflow.grid import Study
from workflow.interruption import interrupt_jobs_with_snakemake
from workflow.jobs import job
from workflow.large_plans import (
    leave_jobs_unsaid,
    pass_over_environments,
    prepare_for_many_jobs,
)
from workflow.made import keep_what_is_made
from workflow.processes import (
    launcher,
    training_gpus,
    training_memory,
    training_minutes,
)
from workflow.scheduling import go_on_after_failures, lift_default_rate_limit
from workflow.slurm import leftover_jobs, missing_slurm
from workflow.teachers import (
    answered_entry,
    answered_languages,
    answered_samples,
    answering_cards,
    teacher_cards,
)

if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


try:
    STUDY = Study(resolve(config, load_registries(), require_files=False))
except UserError as error:
    raise WorkflowError(str(error)) from None


forgive_clocks(DAG)
keep_what_is_made(Job, GroupJob, PersistenceBase, JobScheduler)
prepare_for_many_jobs()
pass_over_environments(DAG)
leave_jobs_unsaid(Job, workflow.output_settings)

# In a job of Slurm that holds several of ours, one that fails does not stop the others.
if workflow.remote_exec:
    go_on_after_failures(JobScheduler)


# A plan (-n) may come before its data; a run may not.
onstart:
    lift_default_rate_limit(workflow.scheduler)
    if problem := missing_slurm(workflow.executor_plugin.name):
        raise WorkflowError(problem)
    if warning := leftover_jobs(Path.cwd()):
        logger.warning(warning)
    try:
        check_writable(STUDY.results)
        check_local_files(STUDY.config)
    except UserError as error:
        raise WorkflowError(str(error)) from None
    hold(STUDY)
    interrupt_jobs_with_snakemake(workflow.executor_plugin.name)


# Where a study's own places are, its jobs read in their environment (docs/sharing.md).
os.environ.update(STUDY.environment())

# What other studies may share through Snakemake's cache, if there is one (docs/sharing.md). Without
# one Snakemake would warn at every start.
SHARED = "SNAKEMAKE_OUTPUT_CACHE" in os.environ
RESULTS = STUDY.results
VOCABULARY = "{source}/{language}/{vocabulary}"
CELL = f"{VOCABULARY}/{{initializer}}/{{strategy}}/seed-{{seed}}"

# Scripts run with the Python that runs Snakemake, whichever comes first on the path. Threads that
# wait do not spin: on a shared machine that costs up to ten times. Large arrays are kept for reuse
# instead of going back to the kernel at each training step, which costs a fifth of the time.
shell.prefix(
    f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH OMP_WAIT_POLICY=PASSIVE "
    "MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=8000000000 MALLOC_TOP_PAD_=268435456; "
)


wildcard_constraints:
    **{axis: NAME for axis in AXES[:-1]},
    seed=r"\d+",
    run=r"\d+",
    checkpoint=r"\d+",
    task=NAME,
    metric=NAME,
    benchmark=NAME,
    package=NAME,
    samples=NAME,
    tokenizer=NAME,
    fit=FIT,


# These reach the network, or take a second: they run where Snakemake runs, not as cluster jobs.
localrules:
    all,
    fetch_package,
    prepare_source,
    prepare_corpus,
    mix_corpora,
    prepare_samples,
    prepare_examples,
    prepare_asked,
    mix_samples,
    take_vocabulary,
    measure_tokenizer,
    count_tests,
    prepare_metric,
    prepare_benchmark,
    build_report,


include: "workflow/rules/source.smk"
include: "workflow/rules/corpus.smk"
include: "workflow/rules/vocabulary.smk"
include: "workflow/rules/auxiliary.smk"
include: "workflow/rules/initialization.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/benchmarks.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/report.smk"


# All of the report, not its page alone: to Snakemake a table that was never made is no reason.
rule all:
    default_target: True
    input:
        rules.build_report.output,
